"""FHSumBench: summaries that are unfaithful, yet perhaps true."""
import lazy_loader

from ...core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('data', *(Entry(name, f'factlab.studies.fhsum.data_sets:{loader}') for name, loader in {
    'fhsum-sample': 'load_fhsum_sample',
    'fhsum-knowledge': 'load_fhsum_knowledge',
    'mxsum': 'load_mxsum',
    'mxsum-majority': 'load_mxsum_majority',
    'xent': 'load_xent',
}.items()))
