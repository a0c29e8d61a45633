"""FINAL: every error of a summary, described."""
import lazy_loader

from ...core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('data', *(Entry(name, f'factlab.studies.final.data_sets:{loader}') for name, loader in {
    'final': 'load_final',
}.items()))
