"""From the workbench to the exhibits: what is labelled by key and exported is what Figures 5 and 7 and the agreement count, to the last
digit."""

from collections import Counter

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer
from workbench.test_widgets import examples_of

from factlab.error_analysis.annotations import FALSE_ALARM_SCHEME, MISSED_SCHEME, REVIEW_SCHEME
from factlab.error_analysis.categories import JUDGE_FAILURE, title_of
from factlab.reports.exhibits import catalog
from factlab.reports.reproduce import SharedKernel, run_notebook
from factlab.reports.tables import CELLS
from factlab.studies.final.errors import JUDGE_FAILURES
from factlab.workbench.annotator import FINAL_TABLE
from factlab.workbench.page import browse

EXHIBITS = {exhibit.id: exhibit for exhibit in catalog()}
SCHEMES = {'missed': MISSED_SCHEME, 'invented': FALSE_ALARM_SCHEME}
RUN = [{'id': f'row {n}', 'gold': [f'=1+{n}, said "{n}"', f'The year {n} is wrong,\nor so.'][:n % 3],
        'predicted': [f'The river is left out {n}.']*(n % 2), 'matched': [None]*(n % 2)} for n in range(40)]


def keys_of(who: str, n: int, size: int) -> str: return str(1 + (7*n + 3*(n//5)*(who == 'Ben'))%size)


def label_all(examples, file, who: str, schemes) -> dict[tuple[str, str], str]:
    "Label every item by typing into the key field; what was meant, by address."
    bench, meant = browse(examples, labels=file, annotator=who, encoder=None, schemes=schemes), {}
    n = 0
    while bench.annotator.queue.count(bench.annotator.mine) != (len(bench.annotator.queue.items),)*2:
        item = bench.annotator.queue.item
        scheme, = bench.annotator.queue.schemes()
        key = scheme.labels[int(keys_of(who, n, len(scheme.labels))) - 1].key
        meant[item['row'], item['unit']] = scheme.by_key(key).name
        bench.annotator.keyboard.value += key
        if n % 11 == 3:  # a slip, taken back
            bench.annotator.keyboard.value += 'u' + key
        n += 1
    return meant


def export(examples, file, schemes, target, format: str):
    exchange = browse(examples, labels=file, annotator='Ann', encoder=None, schemes=schemes).annotator.exchange
    exchange.format.value, exchange.target.value = format, str(target)
    exchange.write()
    return exchange.path()


@pytest.fixture(scope='module')
def kernel():
    with SharedKernel() as kernel: yield kernel


@pytest.fixture(scope='module')
def labelled(tmp_path_factory):
    "Two annotators' labels of one run, and what they meant."
    file, examples = tmp_path_factory.mktemp('labels')/'labels.jsonl', examples_of(RUN)
    return file, examples, {who: label_all(examples, file, who, (MISSED_SCHEME, FALSE_ALARM_SCHEME)) for who in ('Ann', 'Ben')}


@pytest.mark.parametrize('format', ['csv', 'tsv', 'jsonl', 'parquet', FINAL_TABLE])
def test_figures_5_and_7_count_what_was_exported(labelled, kernel, tmp_path, format):
    file, examples, meant = labelled
    path = export(examples, file, (MISSED_SCHEME, FALSE_ALARM_SCHEME), tmp_path/'mine', format)
    pl.DataFrame({'id': ['a', 'b'], 'split': ['dev', 'test'], 'text': ['The mill closed.']*2, 'summary': ['The mill closed in 1913.']*2,
                  'gold': [['The year is new.']]*2}).write_parquet(tmp_path/'data.parquet')
    with MisbehavingServer() as server:
        server.script = lambda call: answer('None')
        given = {'models': [f'openai:any?base_url={server.url}'], 'data': str(tmp_path/'data.parquet'), 'labels': str(path)}
        for id, side in (('final/fig5', 'missed'), ('final/fig7', 'invented')):
            outcome = run_notebook(EXHIBITS[id], given, kernel, out=tmp_path/'out')
            assert outcome.status == 'measured', outcome.error
            cells = pl.read_csv(tmp_path/'out'/f'{id}.data.csv', schema=dict(CELLS.columns))
            addresses = {item for item in meant['Ann'] if item[1].startswith('gold' if side == 'missed' else 'predicted')}
            # two annotators: no majority where they differ
            agreed = Counter(meant['Ann'][item] for item in addresses if meant['Ann'][item] == meant['Ben'][item])
            failures = agreed.pop(JUDGE_FAILURE, 0)  # no errors of the detector's
            total = sum(agreed.values())
            assert 0 < total < len(addresses)
            own = cells.filter(pl.col('measured').is_not_null(), model=examples.run).select('row', 'metric', 'measured', 'low', 'high', 'n')
            value = {(row, metric): values for row, metric, *values in own.iter_rows()}
            assert failures and value[JUDGE_FAILURES, 'Count'][0] == failures
            for label in SCHEMES[side].labels[:-1]:
                assert value[title_of(label.name), 'Count'][0] == agreed[label.name]
                estimate, low, high, n = value[title_of(label.name), 'Share']  # the interval is by summary
                assert estimate == round(agreed[label.name]/total, 6) and n == total and (low is None or low <= estimate <= high)
            assert value['All', 'Count'][0] == total and value['Undecided', 'Count'][0] == len(addresses) - total - failures


@pytest.mark.parametrize('format', ['csv', 'tsv', 'jsonl', 'parquet'])
def test_the_agreement_is_that_of_the_exported_reviews(kernel, tmp_path, format):
    examples = examples_of(RUN)
    meant = {who: label_all(examples, tmp_path/'labels.jsonl', who, (REVIEW_SCHEME,)) for who in ('Ann', 'Ben')}
    path = export(examples, tmp_path/'labels.jsonl', (REVIEW_SCHEME,), tmp_path/'mine', format)
    outcome = run_notebook(EXHIBITS['final/agreement'], {'annotations': [str(path)]}, kernel, out=tmp_path/'out')
    assert outcome.status == 'measured', outcome.error
    pairs = [(meant['Ann'][item], meant['Ben'][item]) for item in meant['Ann']]
    clear = [pair for pair in pairs if 'unclear' not in pair]
    raw = pl.read_csv(tmp_path/'out/final/agreement.csv',
                      schema=dict(CELLS.columns)).filter((pl.col('row') == 'Annotators') & (pl.col('column') == 'Raw agreement'))
    assert 0 < len(clear) < len(pairs) and raw['n'].drop_nulls().to_list() == [len(clear)]
    assert raw['measured'].drop_nulls().to_list() == [round(sum(a == b for a, b in clear)/len(clear), 6)]
