"""FACTS Grounding: a leaderboard of several judges."""
import lazy_loader

from ...core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register('data', *(Entry(name, f'factlab.studies.facts.data_sets:{loader}') for name, loader in {
    'facts': 'load_facts',
    'facts-examples': 'load_facts_examples',
    'facts-sample': 'load_facts_sample',
}.items()))
