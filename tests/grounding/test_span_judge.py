"""A token classifier as a judge of grounding: sentences by what is marked in them, responses by any mark, a place in the leaderboard."""
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from span_models import save_spans

from factlab.core.core import UsageError
from factlab.grounding.judges import GROUNDING
from factlab.grounding.offline_judges import eligibility_beside, load_grounding_judge
from factlab.grounding.span_judge import SpanJudge, judged_sentences
from factlab.runs.plan import estimate, execute
from factlab.studies.facts.study import board_of, judgements, leaderboard_plan
from factlab.verification.named_verifiers import load_verifier
from factlab.verification.spans import Span

ROWS = pl.DataFrame({'id': ['a', 'b', 'c'], 'document': ['The mill closed in 1931.']*3, 'request': ['When?']*3,
                     'response': ['Hello! The mi\u0301ll \U0001F600 closed\r\nin 1913. It is gone.', 'It closed in 1931.', ' ']})


class Marks:
    "Marks a word."
    name, identity, two_way = 'marks', {'verifier': 'marks', 'version': 3}, True
    word = '1913'

    def spans(self, pairs, store=None):
        return [[Span(at, at + len(self.word), .9)] if (at := text.find(self.word)) >= 0 else [] for _, text in pairs]


def test_one_mark_makes_a_response_inaccurate():
    found = GROUNDING.check(SpanJudge(Marks()).predict(ROWS))
    assert found.select('status', 'accurate').rows() == [('ok', False), ('ok', True), ('unparsed', None)]
    assert [each['label'] for each in found['sentences'][0]] == ['no_rad', 'unsupported', 'supported'] and '“1913”' in found['reason'][0]
    with pytest.raises(UsageError, match='marks no spans'): SpanJudge(load_verifier('cosine')).predict(ROWS)


@given(st.data())
def test_a_response_is_accurate_where_nothing_is_marked(data):
    pieces = st.sampled_from(['It opened. ', 'The cafe\u0301 \U0001F600 is old! ', 'Why? ', 'Hello!\r\n'])
    text = data.draw(st.lists(pieces, min_size=1, max_size=6).map(''.join))
    words = [at for at, letter in enumerate(text) if not letter.isspace()]
    marked = data.draw(st.sets(st.sampled_from(words), max_size=3))
    labels = [each['label'] for each in judged_sentences(text, [Span(at, at + 1, .9) for at in sorted(marked)])[0]]
    assert ('unsupported' in labels) == bool(marked)


def test_it_is_a_judge_of_the_leaderboard(tmp_path):
    name = f'spans:{save_spans(tmp_path/"model", "Bert")}'
    assert eligibility_beside(name) == 'embedded' and eligibility_beside('tiny') is None
    assert load_grounding_judge(name).verifier.name == name
    plan = leaderboard_plan('facts', data='facts-sample', judges=[name, 'words'], eligibility='none', limit=2)
    assert not estimate(plan, store=False)['calls'].sum()
    done = execute(plan)
    told = judgements(plan, done).filter(judge=name)
    assert told.height and told['accurate'].is_not_null().any() and board_of(plan, done).height
