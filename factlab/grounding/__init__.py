"""Long answers judged against their document."""
import lazy_loader

from .. import models  # noqa: F401  whose names are judges, too
from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('grounding_judges',
    Entry('embedded', 'factlab.grounding.offline_judges:load_reading_judge', 'reads each sentence with the trained verifier',
          needs='mpnet'),
    Entry('quick', 'factlab.grounding.offline_judges:load_reading_judge', 'the same in two rounds: reads about half', needs='mpnet'),
    Entry('words', 'factlab.grounding.offline_judges:load_reading_judge', 'counts words and numbers'),
    Entry('spans', 'factlab.grounding.span_judge:load_span_judge', 'marks spans with a token classifier', 'ORG/NAME',
          needs='weights of the hub or of a folder'),
    Entry('', 'factlab.grounding.offline_judges:load_asked_judge', 'a language model, asked with a template', 'MODEL', also='models',
          needs='what the model needs (factlab list models)'))

register('eligibility_judges',
    Entry('embedded', 'factlab.grounding.eligibility:load_answering_judge', 'by an encoder', needs='minilm'),
    Entry('words', 'factlab.grounding.eligibility:load_answering_judge', 'by words'))
