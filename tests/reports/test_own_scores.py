"`factlab score`: its figures beside scikit-learn's and a plain count of characters, missing rows, bad spans, and the command."
import json

import numpy as np
import polars as pl
import pytest
from sklearn import metrics
from statsmodels.stats.proportion import proportion_confint

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.core.core import DataError, UsageError
from factlab.reports.own_comparison import compare_results
from factlab.reports.own_doubts import doubted_rows
from factlab.reports.own_judge import judge_report
from factlab.reports.own_scores import score_errors, score_labels, score_spans

FEW = {'resamples': 300}


def labelled(generator, n, classes, skills=(.8, .4)) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    truth, ids = generator.choice(classes, n), [f'r{at}' for at in range(n)]
    said = {f's{at}': pl.DataFrame({'id': ids, 'predicted': np.where(generator.random(n) < skill, truth, generator.choice(classes, n))})
            for at, skill in enumerate(skills)}
    return pl.DataFrame({'id': ids, 'gold': truth}), said


@pytest.mark.parametrize('seed', range(25))
def test_labels_equal_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    classes = ['a', 'b', 'c'][:2 + seed % 2]
    gold, said = labelled(generator, int(generator.integers(20, 80)), classes)
    found, truth = score_labels(gold, said, **FEW), gold['gold'].to_list()
    for name, frame in said.items():
        row, called = found.tables['scores'].filter(system=name).row(0, named=True), frame['predicted'].to_list()
        assert row['accuracy'] == pytest.approx(metrics.accuracy_score(truth, called))
        assert row['balanced_accuracy'] == pytest.approx(metrics.balanced_accuracy_score(truth, called))
        assert row['macro_f1'] == pytest.approx(metrics.f1_score(truth, called, average='macro'))
        theirs = metrics.precision_recall_fscore_support(truth, called, labels=classes, zero_division=np.nan)
        ours = found.tables['by class'].filter(system=name).sort('class').select('precision', 'recall', 'f1', 'n')
        for column, values in zip(ours.columns, theirs, strict=True):
            assert ours[column].fill_null(np.nan).to_list() == pytest.approx(values.tolist(), nan_ok=True)
    assert found.tables['scores'].height == 4 and found.tables['pairs'].height == 1
    assert found.tables['scores']['balanced_accuracy'][2] == pytest.approx(1/len(classes))


def test_probabilities_have_their_calibration():
    generator = np.random.default_rng(0)
    gold, said = labelled(generator, 120, ['no', 'yes'])
    said['s0'] = said['s0'].with_columns(probability=(pl.col('predicted') == 'yes')*.4 + pl.Series(generator.random(120))*.6)
    found = score_labels(gold, said, 'verdicts', **FEW).tables['calibration']
    truth = (gold['gold'] == 'yes').to_list()
    assert found['system'].unique().to_list() == ['s0']
    values = dict(found.select('measure', 'value').rows())
    assert values['Brier score'] == pytest.approx(metrics.brier_score_loss(truth, said['s0']['probability']))
    assert values['AUROC'] == pytest.approx(metrics.roc_auc_score(truth, said['s0']['probability']))


def test_one_class_of_gold_has_accuracy_alone():
    gold, said = labelled(np.random.default_rng(0), 30, ['no', 'yes'])
    gold = gold.with_columns(gold=pl.lit('yes'))
    said['s0'] = said['s0'].with_columns(probability=(pl.col('predicted') == 'yes')*.8 + .1)
    for metric in ('balanced accuracy', 'macro f1'):
        with pytest.raises(DataError, match=f"gold is 'yes' in all 30 rows, and {metric} is"): score_labels(gold, said, metric=metric)
    found = score_labels(gold, said, **FEW)
    scores, pairs = found.tables['scores'], found.tables['pairs']
    assert scores['accuracy'][0] == pytest.approx((said['s0']['predicted'] == 'yes').mean()) and pairs['test'][0] == 'McNemar, mid-p'
    assert not {'balanced_accuracy', 'macro_f1'} & {*scores.columns}
    assert any('no balanced accuracy, macro F1 or AUROC' in note for note in found.notes)
    assert dict(found.tables['calibration'].select('measure', 'value').rows())['AUROC'] is None
    assert doubted_rows(gold, said).metric == 'accuracy'
    with pytest.raises(DataError, match="gold is 'yes' in all 30 rows"): doubted_rows(gold, said, metric='balanced accuracy')


def test_probabilities_out_of_range_are_named_with_their_file():
    gold, said = labelled(np.random.default_rng(1), 40, ['no', 'yes'])
    stated = pl.when(pl.int_range(40) < 2).then(1.5).otherwise(.5)
    said['s1'] = said['s1'].with_columns(probability=stated).reverse()
    with pytest.raises(DataError, match='s1: 2 of 40 values of probability lie outside 0 … 1'): score_labels(gold, said, 'verdicts', **FEW)


def test_missing_and_strange_rows_are_counted():
    gold, said = labelled(np.random.default_rng(1), 40, ['no', 'yes'])
    lost = said | {'s1': said['s1'].head(37)}
    with pytest.raises(DataError, match=r"of 40 rows of gold some have no prediction \(s1 3\), as 'r37', 'r38', 'r39'"):
        score_labels(gold, lost)
    wrong, left = (score_labels(gold, lost, missing=missing, **FEW) for missing in ('wrong', 'exclude'))
    assert wrong.tables['scores']['missing'].to_list()[:2] == [0, 3] and '40 rows' in wrong.title and 's1 3 of 40' in wrong.notes[0]
    right = (said['s1']['predicted'] == gold['gold']).head(37).sum()
    assert wrong.tables['scores']['accuracy'][1] == pytest.approx(right/40)
    assert left.tables['scores']['accuracy'][1] == pytest.approx(right/37)
    with pytest.raises(DataError, match="s0: 40 of 40 rows are not in gold, as 'qr0'"):
        score_labels(gold, {'s0': said['s0'].with_columns(id='q' + pl.col('id'))})
    with pytest.raises(UsageError, match='unknown metric'): score_labels(gold, said, metric='f2')
    with pytest.raises(DataError, match="s0 has no column 'claim_id'"):
        score_labels(gold.with_columns(claim_id=pl.lit('1')), said, 'verdicts')


def test_an_empty_prediction_is_left_out_by_exclude():
    gold, said = labelled(np.random.default_rng(1), 40, ['no', 'yes'])
    blank = said | {'s1': said['s1'].with_columns(predicted=pl.when(pl.int_range(40) >= 37).then(pl.lit(' ')).otherwise('predicted'))}
    left = score_labels(gold, blank, missing='exclude', **FEW)
    fewer = score_labels(gold, {name: frame.head(37) for name, frame in said.items()}, missing='exclude', **FEW)
    assert left.tables['scores'].drop('missing').equals(fewer.tables['scores'].drop('missing')) and '37 rows' in left.title
    assert score_labels(gold, blank, missing='wrong', **FEW).tables['scores']['missing'].to_list()[:2] == [0, 3]


def test_words_for_nothing_in_gold_are_told():
    gold, said = labelled(np.random.default_rng(1), 40, ['no', 'yes'])
    odd = gold.with_columns(gold=pl.when(pl.int_range(40) < 3).then(pl.lit('N/A')).otherwise('gold'))
    assert any(note.startswith("'N/A' in gold: read as a class") for note in score_labels(odd, said, **FEW).notes)
    assert not any('in gold: read as' in note for note in score_labels(gold, said, **FEW).notes)


def test_labels_that_gold_lacks_stand_in_a_column():
    gold, said = labelled(np.random.default_rng(1), 40, ['no', 'yes'])
    strange = pl.when(pl.int_range(40) < 3).then(pl.lit('I cannot say')).otherwise('predicted')
    odd = said | {'s1': said['s1'].with_columns(predicted=strange)}
    assert score_labels(gold, odd, **FEW).tables['scores']['unknown'].to_list()[:2] == [0, 3]
    assert 'unknown' not in score_labels(gold, said, **FEW).tables['scores'].columns


def test_a_known_data_set_is_no_file(capsys):
    with pytest.raises(UsageError, match='factlab data path final'):
        run_command(parser(), ['score', 'labels', '--data', 'final', '--predictions', 'a.csv'])


def test_one_id_has_one_text():
    spans = pl.DataFrame({'id': ['t1', 't1'], 'text': ['The mayor left.', 'A mayor left.'], 'start': [0, 2], 'end': [3, 7]})
    with pytest.raises(DataError, match="1 ids have several texts in text, as 't1'"): score_spans(spans, {'s': spans.drop('text')})
    errors = pl.DataFrame({'id': ['s1', 's1'], 'summary': ['A.', 'B.'], 'gold': ['x', 'y']})
    with pytest.raises(DataError, match='several texts in summary'):
        score_errors(errors, {'s': pl.DataFrame({'id': ['s1'], 'description': ['x']})}, SameWords())


def test_what_a_score_of_spans_rests_on_is_told():
    gold = random_spans(np.random.default_rng(0), 12)
    few = gold.filter(pl.col('id').is_in(['t0', 't1']))
    bare = score_spans(gold, {'s': gold}, **FEW)
    assert any('with a column text' in note for note in bare.notes) and 'agreement, labels aside' not in bare.tables
    texts = gold.with_columns(text=pl.lit('\U0001f600' + 'x'*400))
    told = score_spans(texts, {'s': gold}, **FEW)
    assert any('as emoji: start and end are read as code points' in note for note in told.notes)
    table = score_spans(few.with_columns(text=pl.lit('x'*400)), {'s': few}, **FEW).tables['agreement, labels aside']
    assert table['value_low'].null_count() == table.height  # two texts are too few for an interval


def test_sentences_have_two_keys_and_clusters():
    gold, said = labelled(np.random.default_rng(2), 60, ['no', 'yes'])
    documents, sentences = pl.Series([f'd{at//4}' for at in range(60)]), pl.Series([str(at % 4) for at in range(60)])
    def keyed(frame): return frame.with_columns(id=documents, sentence=sentences)
    found = score_labels(keyed(gold), {name: keyed(frame).reverse() for name, frame in said.items()}, 'sentences', cluster='id', **FEW)
    alone = score_labels(gold, said, **FEW)
    assert found.tables['scores']['accuracy'].to_list() == pytest.approx(alone.tables['scores']['accuracy'].to_list())
    assert 'of 15 clusters' in ' '.join(found.notes) and found.tables['pairs']['test'][0] == 'swaps of clusters'
    unsaid = score_labels(keyed(gold), {name: keyed(frame) for name, frame in said.items()}, 'sentences', **FEW)
    assert all(unsaid.tables[name].equals(found.tables[name]) for name in ('scores', 'by class', 'pairs'))
    assert any('by text, whose rows are drawn together: 15 texts' in note for note in unsaid.notes)


def test_claims_of_one_text_alone_are_drawn_by_row():
    gold, said = labelled(np.random.default_rng(2), 30, ['no', 'yes'])
    def keyed(frame): return frame.with_columns(id=pl.lit('d'), claim_id='id')
    found = score_labels(keyed(gold), {name: keyed(frame) for name, frame in said.items()}, 'verdicts', **FEW)
    assert any('all rows are of one text' in note for note in found.notes) and 'of 30 rows' in ' '.join(found.notes)


def test_accuracy_is_tested_by_mcnemar():
    gold, said = labelled(np.random.default_rng(3), 60, ['no', 'yes'])
    assert score_labels(gold, said, metric='accuracy', **FEW).tables['pairs']['test'][0] == 'McNemar, mid-p'


def random_spans(generator, texts: int) -> pl.DataFrame:
    rows = []
    for at in range(texts):
        starts = generator.integers(0, 40, generator.integers(0, 4)).tolist()
        ends = [start + int(generator.integers(1, 15)) for start in starts]
        labels = generator.choice(['x', 'y'], len(starts)).tolist()
        rows += [*zip([f't{at}']*len(starts), starts, ends, labels, strict=True)] or [(f't{at}', None, None, None)]
    return pl.DataFrame(rows, schema={'id': pl.String, 'start': pl.Int64, 'end': pl.Int64, 'label': pl.String}, orient='row')


@pytest.mark.parametrize('seed', range(25))
@pytest.mark.parametrize('labels', [True, False])
def test_spans_equal_a_count_of_characters(seed, labels):
    generator = np.random.default_rng(seed)
    gold, said = (random_spans(generator, 12) for _ in range(2))
    if not labels: said = said.drop('label')
    columns = ['id', *['label']*labels]
    def characters(frame): return {(*key, at) for *key, start, end in frame.drop_nulls('start').select(*columns, 'start', 'end').rows()
                                   for at in range(start, end)}
    def whole(frame): return {*frame.drop_nulls('start').select(*columns, 'start', 'end').rows()}
    found = score_spans(gold, {'s': said}, **FEW)
    for table, read in (('by characters', characters), ('exact spans', whole)):
        a, b = read(gold), read(said)
        row = found.tables[table].row(0, named=True)
        assert row['f1'] == pytest.approx(2*len(a & b)/(len(a) + len(b)))
        assert (row['precision'], row['recall']) == (pytest.approx(len(a & b)/len(b)), pytest.approx(len(a & b)/len(a)))


def test_spans_that_are_none_are_refused():
    gold = random_spans(np.random.default_rng(0), 5)
    with pytest.raises(DataError, match=r"s: 1 of 1 spans cannot be, as 5 … 5 of 't0'"):
        score_spans(gold, {'s': pl.DataFrame({'id': ['t0'], 'start': [5], 'end': [5]})}, missing='wrong')
    with pytest.raises(DataError, match='1 of 1 spans have a start or an end alone'):
        score_spans(gold, {'s': pl.DataFrame({'id': ['t0'], 'start': [5], 'end': [None]})}, missing='wrong')
    again = pl.concat([gold, gold.drop_nulls('start').head(1)])
    assert any('s: 1 span given more than once' in note for note in score_spans(gold, {'s': again}, **FEW).notes)
    both = score_spans(gold, {'a': gold, 'b': gold.with_columns(pl.col('end') + 1)}, **FEW)
    assert both.tables['by characters']['f1'][0] == 1 and both.tables['pairs, exact spans']['difference'][0] == 1


class SameWords:
    "Matches descriptions that are the same text."
    name = 'same words'

    def match(self, summaries, gold, predicted, store=None) -> list[dict]:
        return [{'status': 'ok', 'reason': '', 'n_gold': len(true), 'n_predicted': len(said), 'invalid': 0, 'calls': 0, 'prompt_tokens': 0,
                 'completion_tokens': 0, 'matched': [true.index(one) if one in true else None for one in said]}
                for true, said in zip(gold, predicted, strict=True)]


def test_errors_are_matched_by_a_judge():
    gold = pl.DataFrame({'id': ['m', 'm', 'n'], 'summary': ['The old mill closed in 1913.']*2 + ['The river is long.'],
                         'gold': ['It closed in 1931.', 'It is not called old.', None]})
    texts = {'id': pl.String, 'description': pl.String}
    said = {'half': pl.DataFrame({'id': ['m', 'm', 'n'], 'description': ['It closed in 1931.', 'Wrong.', None]}, schema=texts),
            'none': pl.DataFrame({'id': ['m', 'n'], 'description': [None, ' ']}, schema=texts)}
    found = score_errors(gold, said, SameWords(), **FEW)
    scores = {row['system']: row for row in found.tables['scores'].iter_rows(named=True)}
    assert (scores['half']['precision'], scores['half']['recall'], scores['half']['f1']) == (.5, .5, .5)
    assert scores['none']['f1'] == 0 and scores['none']['precision'] is None
    assert scores['nothing found']['f1'] == scores['vague constant']['f1'] == scores['every sentence']['f1'] == 0
    assert any('matched by the judge same words' in note for note in found.notes)
    with pytest.raises(DataError, match='no column summary'): score_errors(gold.drop('summary'), said)
    with pytest.raises(DataError, match=r'no prediction \(none 1\)'): score_errors(gold, {'none': said['none'].head(1)}, SameWords())


def test_the_command(tmp_path, capsys):
    gold, said = labelled(np.random.default_rng(5), 50, ['no', 'yes'])
    gold.rename({'gold': 'label'}).write_csv(tmp_path/'gold.csv')
    paths = []
    for name, frame in said.items():
        frame.write_ndjson(tmp_path/f'{name}.jsonl')
        paths.append(str(tmp_path/f'{name}.jsonl'))
    given = ['score', 'verdicts', '--data', str(tmp_path/'gold.csv'), '--predictions', *paths, '--columns', 'gold=label']
    assert run_command(parser(), given) == 0
    assert capsys.readouterr().out == score_labels(gold, said, 'verdicts').text()
    assert run_command(parser(), [*given, '--json', '--html', str(tmp_path/'page.html'), '--out', str(tmp_path/'out.json')]) == 0
    assert len(json.loads((tmp_path/'out.json').read_text())['scores']) == 4
    spans = random_spans(np.random.default_rng(0), 9)
    spans.write_csv(tmp_path/'spans.csv')
    capsys.readouterr()
    assert run_command(parser(), ['score', 'spans', '--data', str(tmp_path/'spans.csv'), '--predictions', str(tmp_path/'spans.csv')]) == 0
    assert '1.00' in capsys.readouterr().out


def test_one_figure_has_one_interval_in_compare_judge_and_score():
    generator = np.random.default_rng(8)
    gold = generator.choice(['no', 'yes'], 90)
    said = np.where(generator.random(90) < .8, gold, 'yes')
    frame = pl.DataFrame({'id': [f'r{at}' for at in range(90)], 'gold': gold, 'predicted': said})
    truth, own = frame.select('id', 'gold'), frame.select('id', 'predicted')
    wilson = proportion_confint(int((gold == said).sum()), 90, method='wilson')
    judged = judge_report(own, truth, resamples=300).tables
    scored = score_labels(truth, {'own': own}, 'labels', metric='accuracy').tables
    also = score_labels(truth, {'own': own}, 'labels').tables
    compared = compare_results({'own': frame, 'constant': frame.with_columns(predicted=pl.lit('yes'))}, metric='accuracy').tables
    found = [next(iter(tables.values())).row(0, named=True) for tables in (judged, scored, also, compared)]
    ends = [(row['value_low'], row['value_high']) if 'value_low' in row else (row.get('accuracy_low', row.get('score_low')),
            row.get('accuracy_high', row.get('score_high'))) for row in found]
    trivial = judged['beside baselines'].row(0, named=True)
    for low, high in [*ends, (trivial['agreement_low'], trivial['agreement_high'])]: assert (low, high) == pytest.approx(wilson)
