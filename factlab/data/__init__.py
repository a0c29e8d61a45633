"""Finding, fetching and loading data sets; the shipped samples."""
import lazy_loader

from ..core.registry import Entry, register

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# A loader of a data set takes `download`; papers register their own data sets in their packages.
register('data', *(Entry(name, f'factlab.data.{place}') for name, place in {
    'defacto': 'summaries:load_defacto',
    'xsumfaith': 'summaries:load_xsum_spans',
    'xsumfaith/spans': 'summaries:load_xsum_spans',
    'xsumfaith/factuality': 'summaries:load_xsum_factuality',
    'entfa': 'summaries:load_entfa',
    'climate-fever': 'corpora:load_climate_fever',
    'dialfact': 'corpora:load_dialfact',
    'fm2': 'claim_sets:load_fm2',
    'snli': 'claim_sets:load_snli',
    'summedits': 'claim_sets:load_summedits',
    'wice': 'corpora:load_wice',
    'factscore': 'corpora:load_factscore',
    'xquad': 'corpora:load_xquad',
    'sample': 'datasets:load_sample_pairs',
}.items()), Entry('', 'factlab.data.datasets:load_file', 'a file of your own', 'FILE.jsonl', like=r'.*\.(jsonl?|csv|parquet)'))

register('fetchers', Entry('hub', 'factlab.data.hub:fetch_hub'))
