"""LLM-OASIS: from a text to a verdict."""
import lazy_loader

from ...core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('data', *(Entry(name, f'factlab.studies.oasis.data_sets:{loader}') for name, loader in {
    'oasis': 'load_oasis',
    'oasis/claims': 'load_oasis_claims',
    'oasis-e2e': 'load_oasis_e2e',
    'oasis-verification': 'load_oasis_verification',
    'oasis-sample': 'load_sample_rows',
}.items()))
