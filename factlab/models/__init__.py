"""Asking models, and keeping their answers."""
import lazy_loader

from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('models',
    Entry('tiny', 'factlab.models.transformers_backend:load_gguf', 'SmolLM2-135M-Instruct, which ships with factlab'),
    Entry('small', 'factlab.models.transformers_backend:load_gguf', 'Qwen2.5-Coder-1.5B-Instruct, after `factlab models get small`'),
    Entry('hf', 'factlab.models.transformers_backend:load_hf', 'a model of the Hugging Face hub, or of a folder, in this process',
          'ORG/NAME', like=r'[\w.-]+/[\w.-]+', needs='weights of the hub or of a folder; a GPU for large ones'),
    Entry('vllm', 'factlab.models.vllm_backend:load_vllm', "the same in a vLLM engine; also vllm:tiny", 'ORG/NAME',
          needs="a GPU; pip install 'factlab[vllm]'"),
    Entry('serve', 'factlab.models.serve_backend:load_serve', 'the same behind a vLLM server that factlab starts', 'ORG/NAME',
          needs="a GPU; pip install 'factlab[vllm]'"),
    Entry('ray', 'factlab.models.ray:load_ray', 'the same on a Ray cluster', 'ORG/NAME', needs="pip install 'factlab[ray]'"),
    Entry('openai', 'factlab.models.openai_backend:load_openai',
          "a model behind OpenAI's interface: the vendor's, or any with ?base_url=http://…/v1", 'MODEL',
          like=r'(chat)?gpt-.*|o\d.*', needs='a key (OPENAI_API_KEY), or a server of yours'))

register('encoders',
    Entry('tiny', 'factlab.models.encoder:load_encoder', 'all-MiniLM-L6-v2, which ships with factlab'),
    Entry('retriever', 'factlab.models.encoder:load_encoder', 'the same, trained to find evidence'),
    Entry('mpnet', 'factlab.models.encoder:load_encoder', 'all-mpnet-base-v2, after `factlab models get mpnet`'),
    Entry('', 'factlab.models.encoder:load_encoder', 'a sentence-transformers model of the hub, or of a folder', 'ORG/NAME',
          like=r'.*[-/.~].*'))
