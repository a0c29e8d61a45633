"""From claims to passages: vectors, indexes, corpora."""
import lazy_loader

from .. import models  # noqa: F401  whose encoders are retrievers, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('retrievers',
    Entry('bm25', 'factlab.retrieval.corpus:load_bm25', 'by words'),
    Entry('fusion', 'factlab.retrieval.corpus:load_fusion', 'bm25 and an encoder together (default: retriever)', '[ENCODER]', nested=True,
          needs='minilm'),
    Entry('tiny', 'factlab.retrieval.corpus:load_encoded', 'the encoder all-MiniLM-L6-v2, which ships with factlab', needs='minilm'),
    Entry('retriever', 'factlab.retrieval.corpus:load_encoded', 'the same, trained to find evidence', needs='minilm'),
    Entry('', 'factlab.retrieval.corpus:load_encoded', 'another encoder: of the hub, or of a folder', 'ORG/NAME', also='encoders',
          needs='weights of the hub or of a folder'))
