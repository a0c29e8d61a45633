"Descriptions of errors: pairs are those of the lines, bad lines are named, and a form does not tell the answer."
import re

import numpy as np
import polars as pl
import pytest
from conftest import written
from sklearn.metrics import roc_auc_score

from factlab.core.core import DataError
from factlab.training.matcher import described_pairs, load_descriptions

LINES = [{'topic': 'mill', 'summary': 'The old mill burned in May.',
          'errors': [['wrong month', 'It was June.'], ['Remove "old".', 'Its age is not told.']]},
         {'topic': 'pier', 'summary': 'The pier is red.', 'errors': [['wrong colour', 'It is blue.'], ['not a pier', 'It is a bridge.']]}]


def test_pairs_are_of_one_error_of_two_and_of_another_summary(tmp_path):
    rows = load_descriptions(written(tmp_path/'own.jsonl', *LINES))
    pairs = described_pairs(rows).filter(id='described-mill')
    errors = LINES[0]['errors']
    where = lambda text: [at for at, error in enumerate(errors) if text in error]
    for kind, first, second, same in pairs.select('kind', 'first', 'second', 'same').iter_rows():
        assert same == (where(first) == where(second)) == (kind == 'one error')
        assert bool(where(second)) == (kind != 'another summary')
    assert dict(pairs['kind'].value_counts().rows()) == {'one error': 2, 'two errors': 2, 'another summary': 2}
    assert described_pairs(rows).equals(described_pairs(rows)) and not described_pairs(rows, seed=3).equals(described_pairs(rows, seed=4))


def test_that_two_descriptions_begin_alike_does_not_say_that_they_are_of_one_error():
    pairs = described_pairs().filter(pl.col('kind') != 'another summary')
    alike = [one.split()[:1] == two.split()[:1] for one, two in pairs.select('first', 'second').iter_rows()]
    assert roc_auc_score(pairs['same'].to_numpy(), np.array(alike, float)) < .55  # a coin has .5


@pytest.mark.parametrize(('change', 'message'), [
    ({'summary': ' '}, 'a text is missing or empty'), ({'errors': [['one', 'two']]}, 'two or more lists'),
    ({'errors': [['one', 'two'], ['three']]}, 'two or more lists'), ({'more': 1}, 'expected the fields')])
def test_a_line_that_does_not_fit_is_named(tmp_path, change, message):
    file = written(tmp_path/'own.jsonl', LINES[0], LINES[0] | change)
    with pytest.raises(DataError, match=re.escape(message)) as error: load_descriptions(file)
    assert '2' in str(error.value)
