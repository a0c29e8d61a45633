"""Counts and scores agree with an independent computation by sets and loops, and with scikit-learn."""
import json
import random
import warnings

import polars as pl
import pytest

from factlab.core.core import DataError, UsageError
from factlab.measures.metrics import binary_counts, harmonic, matching_counts, matching_scores
from factlab.models.prompts import letters, parse_matching


def judge_output(generator: random.Random) -> tuple[str, int, int, set|None]:
    """A judge's answer, the sizes of both lists, and the pairs (predicted, gold) that it validly states (None: no object).

    The pairs are known from how the answer is written, not from reading it."""
    predicted, gold = generator.randrange(0, 32), generator.randrange(0, 32)
    entries, pairs = [], set()
    for index, label in enumerate(letters(predicted)):
        fate = generator.choices(['match', 'null', 'unknown', 'list', 'two', 'skip', 'word'], [6, 3, 1, .5, .5, .5, .5])[0]
        if fate == 'match' and gold:
            to = generator.randrange(gold)
            value = generator.choice([letters(gold)[to], letters(gold)[to].lower(), f'{letters(gold)[to]}.', f'({letters(gold)[to]})'])
            pairs.add((index, to))
        elif fate == 'unknown': value = letters(gold + 40)[gold + generator.randrange(40)]
        elif fate == 'list': value = ['A']
        elif fate == 'two': value = 'A, B'
        elif fate == 'word': value = generator.choice(['the year', '', 7, True, {'to': 'A'}])
        elif fate == 'skip': continue
        else: value = generator.choice([None, 'null', 'None'])
        entries.append((generator.choice([label, label, f'{label}.', label.lower()]), value))
    if generator.random() < .2: entries.append((letters(predicted + 5)[-1], 'A'))  # a prediction that does not exist
    generator.shuffle(entries)
    fault = generator.random()
    if fault < .05: return 'I cannot match these.', predicted, gold, None
    if fault < .1 and entries: return json.dumps(dict(entries))[:-1], predicted, gold, None
    written = json.dumps(dict(entries)) if generator.random() < .6 else repr(dict(entries))
    around = generator.choice(['%s', '```json\n%s\n```', 'First, A.\nThe matching is %s, I think.', 'Not {} but\n%s'])
    return around.replace('%s', written), predicted, gold, pairs


def brute_force(examples: list[tuple[int, int, set|None]]) -> dict:
    "Scores by sets and loops."
    read = [(predicted, gold, pairs) for predicted, gold, pairs in examples if pairs is not None]
    hits = sum(len({to for _, to in pairs}) for _, _, pairs in read)
    findings, golds = sum(p for p, _, _ in read), sum(g for _, g, _ in read)
    precision, recall = hits/findings if findings else None, hits/golds if golds else None
    both = None if not findings + golds else 0 if not hits else 2*precision*recall/(precision + recall)
    return {'n': len(read), 'unparsed': len(examples) - len(read), 'tp': hits, 'n_predicted': findings, 'n_gold': golds,
            'precision': precision, 'recall': recall, 'f1': both}


def test_random_judge_outputs_agree_with_brute_force():
    generator = random.Random(7)
    rows, examples = [], []
    for number in range(3000):
        answer, predicted, gold, pairs = judge_output(generator)
        parsed = parse_matching(answer, predicted, gold)
        assert parsed.ok == (pairs is not None), answer
        if parsed.ok: assert {(p, g) for p, g in parsed.value.matches.items() if g is not None} == pairs, answer
        rows.append({'group': number % 7, 'n_gold': gold, 'n_predicted': predicted, 'matched': list(parsed.value.matches.values())
                     if parsed.ok else None})
        examples.append((predicted, gold, pairs))
    assert sum(pairs is None for *_, pairs in examples) > 100
    counts = matching_counts(pl.DataFrame(rows, schema_overrides={'matched': pl.List(pl.Int64)}))
    assert matching_scores(counts).row(0, named=True) == pytest.approx(brute_force(examples))
    for scores in matching_scores(counts, by=['group']).to_dicts():
        assert scores == pytest.approx({'group': scores['group']} | brute_force(examples[scores['group']::7]))
    for number in range(3000):  # and one by one
        assert matching_scores(counts[number]).row(0, named=True) == pytest.approx(brute_force(examples[number:number + 1]))
    strict = [(p, g, set() if pairs is None else pairs) for p, g, pairs in examples]
    expected = brute_force(strict) | {'unparsed': sum(pairs is None for *_, pairs in examples)}
    assert matching_scores(counts, unparsed='wrong').row(0, named=True) == pytest.approx(expected)


def test_repeated_findings_cost_precision_only():
    frame = pl.DataFrame({'matched': [[0, 0, 0, 1]], 'n_gold': [4]})
    assert matching_scores(matching_counts(frame)).select('tp', 'precision', 'recall').row(0) == (2, .5, .5)


def test_zero_denominators():
    columns = {'matched': pl.List(pl.Int64), 'n_gold': pl.Int64}
    def scores(matched, n_gold):
        return matching_scores(matching_counts(pl.DataFrame({'matched': [matched], 'n_gold': [n_gold]}, schema=columns))).row(0)[-3:]
    assert scores([], 0) == (None, None, None)
    assert scores([], 3) == (None, 0, 0)
    assert scores([None], 0) == (0, None, 0)
    assert scores([None], 3) == (0, 0, 0)
    assert scores(None, 3) == (None, None, None)
    empty = matching_counts(pl.DataFrame(schema=columns))
    assert matching_scores(empty).row(0) == (0, 0, 0, 0, 0, None, None, None)
    assert matching_scores(empty.with_columns(model=pl.lit('m')), by=['model']).is_empty()


def test_harmonic_mean():
    assert harmonic(.5, 1.0) == pytest.approx(2/3) and harmonic([0, 0], [1.0, 0]).tolist() == [0, 0]


def test_faults_are_named():
    for frame in (pl.DataFrame({'matched': [[3]], 'n_gold': [3]}), pl.DataFrame({'matched': [[-1]], 'n_gold': [3]}),
                  pl.DataFrame({'matched': [[0]]}),
                  pl.DataFrame({'matched': [[0]], 'n_gold': [None]}, schema_overrides={'n_gold': pl.Int64})):
        with pytest.raises(DataError): matching_counts(frame)
    counts = matching_counts(pl.DataFrame({'matched': [[0]], 'n_gold': [3]}))
    with pytest.raises(UsageError): matching_scores(counts, unparsed='ignore')
    with pytest.raises(UsageError, match='n_gold'): matching_scores(counts, by=['n_gold'])
    with pytest.raises(DataError, match='model'): matching_scores(counts, by=['model'])
    for frame in (pl.DataFrame({'truth': [True, None], 'said': [True, True]}), pl.DataFrame({'truth': [1], 'said': [True]}),
                  pl.DataFrame({'truth': [True]})):
        with pytest.raises(DataError): binary_counts(frame, 'truth', 'said')


@pytest.mark.parametrize('seed', range(20))
def test_binary_scores_agree_with_scikit_learn(seed):
    from sklearn.metrics import precision_recall_fscore_support
    generator = random.Random(seed)
    n = generator.choice([1, 2, 10, 300])
    rows = [{'group': generator.randrange(3), 'truth': generator.random() < .7, 'said': generator.choice([True, True, False, None])}
            for _ in range(n)]
    frame = pl.DataFrame(rows, schema={'group': pl.Int64, 'truth': pl.Boolean, 'said': pl.Boolean})
    read = frame.drop_nulls('said')
    strict = frame.with_columns(pl.col('said').fill_null(~pl.col('truth')))
    for reading, used in (('exclude', read), ('wrong', strict)):
        scores = matching_scores(binary_counts(frame, 'truth', 'said'), unparsed=reading).row(0, named=True)
        assert scores['n'] == used.height and scores['unparsed'] == frame['said'].null_count()
        if used.is_empty(): continue
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            theirs = precision_recall_fscore_support(used['truth'].to_list(), used['said'].to_list(), average='binary',
                                                     zero_division=float('nan'))[:3]
        assert [scores[m] for m in ('precision', 'recall', 'f1')] == [None if x != x else pytest.approx(x) for x in theirs]


def test_all_unparsed_verdicts():
    frame = pl.DataFrame({'truth': [True, False], 'said': [None, None]})
    counts = binary_counts(frame, 'truth', 'said')
    assert counts['tp'].null_count() == 2 and matching_scores(counts).row(0) == (0, 2, 0, 0, 0, None, None, None)
    assert matching_scores(counts, unparsed='wrong').row(0) == (2, 2, 0, 1, 1, 0, 0, 0)
