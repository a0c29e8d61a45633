"""From texts to claims, and data of the shape of LLM-OASIS."""
import lazy_loader

from .. import models  # noqa: F401  whose names are extractors, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('extractors',
    Entry('tiny', 'factlab.claims.extraction:load_tiny', 'the trained extractor, which ships with factlab'),
    Entry('sentences', 'factlab.claims.extraction:load_sentences', 'each sentence is a claim; asks no model'),
    Entry('trained', 'factlab.claims.extraction:load_trained', 'a language model that was trained to extract', 'MODEL', nested=True),
    Entry('seq2seq', 'factlab.claims.named_extractors:load_seq2seq_extractor', 'an encoder-decoder that was trained to extract',
          'ORG/NAME'),
    Entry('prompt', 'factlab.claims.extraction:load_prompted', 'a language model, asked', 'MODEL', nested=True),
    Entry('', 'factlab.claims.extraction:load_prompted', 'the same, where MODEL is not tiny', 'MODEL', also='models'))
