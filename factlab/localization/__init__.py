"""Every inconsistency of a summary, described in words (FINAL)."""
import lazy_loader

from .. import models, verification  # noqa: F401  whose names are judges and classifiers, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('matching_judges',
    Entry('offline', 'factlab.localization.matching:load_offline', 'by the words that two descriptions point at', '[FILE]'),
    Entry('encoder', 'factlab.localization.matching:load_encoder_judge', 'by likeness of meaning', '[ENCODER]',
          needs='minilm'),
    Entry('', 'factlab.localization.matching:load_model_judge', "a language model, asked as FINAL's judge", 'MODEL', also='models',
          needs='what the model needs (factlab list models)'))

register('classifiers',
    Entry('verifier', 'factlab.localization.classifiers:load_verified', 'the trained verifier over windows of the text', needs='mpnet'),
    Entry('encoder', 'factlab.localization.classifiers:load_encoder_classifier', 'likeness of sentences', '[ENCODER]', nested=True,
          needs='minilm'),
    Entry('t5', 'factlab.localization.classifiers:load_t5_classifier', 'a T5 that was trained as TrueTeacher', 'ORG/NAME',
          needs='weights of the hub or of a folder'),
    Entry('', 'factlab.localization.classifiers:load_verified', 'another verifier (factlab list verifiers)', 'VERIFIER', also='verifiers',
          needs='what that verifier needs'))
