"""From evidence and a claim to a verdict."""
import lazy_loader

from .. import models  # noqa: F401  whose names are verifiers, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('verifiers',
    Entry('tiny', 'factlab.verification.nli:load_trained', 'the trained verifier, which ships with factlab'),
    Entry('nli', 'factlab.verification.nli:load_nli', 'a classifier of pairs: DeBERTa, RoBERTa, BERT …', 'ORG/NAME',
          like=r'[\w.-]+/[\w.-]+'),
    Entry('seq2seq', 'factlab.verification.named_verifiers:load_seq2seq', 'an encoder-decoder, with ?form=minicheck or ?form=trueteacher',
          'ORG/NAME'),
    Entry('cosine', 'factlab.verification.nli:load_cosine', 'likeness of evidence and claim, a baseline', '[ENCODER]', nested=True),
    Entry('align', 'factlab.verification.named_verifiers:load_align', "another verifier over chunks and sentences, AlignScore's way",
          'VERIFIER', nested=True),
    Entry('asked', 'factlab.verification.named_verifiers:load_asked', 'a language model, asked in a form: yes-no, true-false, a file …',
          'FORM:MODEL', nested=True),
    Entry('prompt', 'factlab.verification.nli:load_prompted', 'a language model, asked in the form of LLM-OASIS', 'MODEL', nested=True),
    Entry('', 'factlab.verification.nli:load_prompted', 'the same, where MODEL is not tiny', 'MODEL', also='models'))
