"""What is sent with the paper's parameters, as a server sees it: the order of § 6.3."""
import pytest
from misbehaving_server import MisbehavingServer, answer

from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.oasis.study import comparison_plan, length_plan, retrieval_plan
from factlab.studies.oasis.submissions import submission_plan
from factlab.text.fences import fenced_in


class Agreeing:
    "In a verifier's place: everything is entailed."
    name, identity = 'agreeing', {'verifier': 'agreeing'}

    def probabilities(self, pairs, store=None):
        import numpy as np
        return np.array([[.9, .05, .05] for _ in pairs], np.float32)


PARTS = dict(k=2, extractor='sentences', retriever='tiny')
PLANS = {
    'table6': lambda name, parts: retrieval_plan(models=[name], runs=1, limit=2, verifier='agreeing', loaded=parts, **PARTS),
    'fig3': lambda name, parts: comparison_plan('oasis/fig3', models=[name], limit=2, verifier='agreeing', loaded=parts, **PARTS),
    'fig4': lambda name, parts: comparison_plan('oasis/fig4', models=[name], limit=2, verifier='agreeing', loaded=parts, **PARTS),
    'fig5': lambda name, parts: length_plan(models=[name], lengths=[4000], limit=2, loaded=parts, **PARTS)}


@pytest.mark.parametrize('exhibit', PLANS)
def test_evidence_follows_the_text_and_a_separator(exhibit):
    with MisbehavingServer(lambda call: answer('Factual')) as server:
        plan = PLANS[exhibit](f'openai:m?base_url={server.url}/v1', {'agreeing': Agreeing()})
        execute(plan, store=False)
    shown = [call.prompt for call in server.calls if '<evidence>' in call.prompt]
    texts = {*plan.entries[0].step.rows.frame['text']}
    assert len(shown) == 2 and {fenced_in(prompt, 'text') for prompt in shown} == texts
    for prompt in shown:
        before, after = prompt.split('\n---\n')
        assert '<text>' in before and '<evidence>' not in before and '<text>' not in after and fenced_in(after, 'evidence')


def test_evidence_of_a_submission_follows_the_text_too(tmp_path):
    import polars as pl
    pl.DataFrame({'id': ['a'], 'text': ['Owls hunt at night.']}).write_parquet(tmp_path/'texts.parquet')
    pl.DataFrame({'id': ['p'], 'page': ['owls'], 'text': ['Owls are birds.']}).write_parquet(tmp_path/'passages.parquet')
    model = ScriptedModel('m', lambda request: 'Factual', revision='1')
    execute(submission_plan(str(tmp_path/'texts.parquet'), model='m', evidence=True, corpus=str(tmp_path/'passages.parquet'),
                            loaded={'m': model}, **PARTS), store=False)
    prompt = model.asked[-1].messages[-1].content
    assert prompt.index('Owls hunt at night.') < prompt.index('\n---\n') < prompt.index('Owls are birds.')
