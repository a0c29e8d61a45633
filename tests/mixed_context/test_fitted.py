"""Steps that are fitted on development rows say what the methods say that are fitted in memory."""
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from letters import Letters

from factlab.data.datasets import load
from factlab.mixed_context.entity_features import CHOSEN, entities_of, entity_features, fitted_classifiers
from factlab.mixed_context.fitted import ChosenSilence, EntityValues, FittedEntities, FittedHybrid, Scored
from factlab.mixed_context.hybrid import fit_hybrid, word_baselines
from factlab.mixed_context.labels import LABELS
from factlab.mixed_context.retrieval_judges import silence_scores, verifier_judge, with_silence
from factlab.runs.plan import Rows, Step, execute

SUMMARIES = load('fhsum-sample')
KNOWLEDGE = load('fhsum-knowledge')
DEV, TEST = (Rows('sample', SUMMARIES.filter(split=split).head(15), split) for split in ('dev', 'test'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory): return tmp_path_factory.mktemp('runs')


def found(step, folder): return execute(step, store=False, folder=folder)[step]


@pytest.mark.parametrize('name', ['words of the document', 'words and knowledge'])
def test_hybrids(name, folder):
    hybrid = word_baselines(KNOWLEDGE)[name]
    parts = {'faithfulness': Scored(hybrid.faithfulness), 'factuality': Scored(hybrid.factuality)}
    inputs = {part: Step(method, TEST) for part, method in parts.items()}
    inputs |= {f'dev_{part}': Step(method, DEV) for part, method in parts.items()}
    step = Step(FittedHybrid(name), TEST, inputs={**inputs, 'dev': DEV})
    assert found(step, folder).equals(fit_hybrid(hybrid, DEV.frame, False).predict(TEST.frame, store=False))


class Half:
    "A verifier that supports every other pair and says nothing of the rest."
    name, identity = 'half', {'verifier': 'half'}
    def probabilities(self, pairs, store=None):
        return np.array([[.9, .1, 0] if len(evidence) % 2 else [0, 1, 0] for evidence, _ in pairs], np.float32).reshape(-1, 3)


@pytest.mark.parametrize('kind', ['concurrent', 'reflection'])
def test_silence(kind, folder):
    judge = verifier_judge(kind, KNOWLEDGE, Half(), encoder=Letters())
    step = Step(ChosenSilence('half'), TEST, inputs={'traced': Step(judge, TEST), 'dev': DEV, 'dev_traced': Step(judge, DEV)})
    scores = silence_scores(DEV.frame, judge.predict(DEV.frame, store=False))
    best = max(scores, key=scores.get)
    assert best and found(step, folder).equals(replace(judge, silence=best).predict(TEST.frame, store=False))


@pytest.mark.parametrize('silence', [None, *LABELS])
def test_a_trace_is_enough_to_say_what_another_label_of_silence_gives(silence):
    judge = verifier_judge('reflection', KNOWLEDGE.head(40), Half(), encoder=Letters())
    whole = replace(judge, silence=silence).predict(TEST.frame, store=False)
    assert with_silence(judge.predict(TEST.frame, store=False), silence).equals(whole)


def test_entities(folder):
    marks = dict(zip(LABELS, ('Factual Hallucination', 'Non-factual Hallucination', 'Non-hallucinated'), strict=True))
    spans = [[{'start': 0, 'end': len(summary), 'label': marks[label]}]
             for summary, label in DEV.frame.select('summary', 'label').iter_rows()]
    dev = Rows('sample', DEV.frame.with_columns(entities=pl.Series(spans)), 'dev')
    step = Step(FittedEntities(), TEST, inputs={'values': Step(EntityValues(), TEST), 'dev_values': Step(EntityValues(), dev), 'dev': dev})
    named = entities_of(dev.frame)
    fitted, reached = fitted_classifiers(dev.frame, named, entity_features(named, dev.frame, CHOSEN))
    given = {name: execute(each, store=False, folder=folder)[each] if isinstance(each, Step) else each.frame
             for name, each in step.inputs.items()}
    assert found(step, folder).equals(fitted.predict(TEST.frame, store=False)) and step.method.fit(**given)[1] == reached
