"""What a run is named after: every field of every shipped method, and its version."""
import ast
import importlib
import re
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import factlab
from factlab.building.generation import Asking
from factlab.building.injection import Injection
from factlab.building.wikidata import EntityDescriptions
from factlab.core.core import Schema, UsageError
from factlab.error_analysis.sorting import FoundErrors
from factlab.grounding.eligibility import AnsweringJudge, read_eligibility
from factlab.grounding.embedded_judge import LabelledSentences, Nearness, SentenceJudge, VerifierJudge, read_grounding_decision
from factlab.grounding.judge_quality import BestEligibility, BestTemplate
from factlab.grounding.judges import TEMPLATES, EligibilityJudge, GroundingJudge, Template
from factlab.grounding.offline_judges import load_grounding_judge
from factlab.grounding.responses import BesideResponder, Responder
from factlab.grounding.span_judge import SpanJudge
from factlab.localization.baselines import RandomClaims, SummaryBaseline
from factlab.localization.fitted import AtThreshold, Chosen, ClaimSupports, Matching, Supports
from factlab.localization.methods import ZERO_SHOT, Binary, FactScore, FactTraces, Localizer, MergedTrace, oracle
from factlab.localization.rejected_claims import RejectedClaims
from factlab.localization.spans import MarkedSpans
from factlab.measures.logistic import Logistic
from factlab.mixed_context.entity_features import EntityFeatures
from factlab.mixed_context.fitted import ChosenSilence, CrossFitted, FittedHybrid, KnownNames, Scored
from factlab.mixed_context.hybrid import ConstantScorer, Hybrid
from factlab.mixed_context.knowledge import KNOWLEDGE
from factlab.mixed_context.labels import NONE
from factlab.mixed_context.retrieval_judges import Lengths, RetrievalJudge, Wording
from factlab.mixed_context.scores import Baseline
from factlab.models.asking import VERDICTS
from factlab.models.interface import Message, ScriptedModel
from factlab.models.prompts import Parsed, Prompt, parse_bullets, parse_lettered
from factlab.retrieval.methods import Evidence, LeastSupport, Recall, WordSupport
from factlab.runs.identity import NO_PREDICTION, method_fields, method_spec
from factlab.runs.plan import Derived, Rows, Step, make_run
from factlab.store.answers import Store
from factlab.studies.oasis.judges import FactualityJudge
from factlab.verification.check_runs import Checker
from factlab.verification.extraction import BY_PASSAGE, BY_SENTENCE, Form
from factlab.verification.methods import ByThreshold, ByWords, Claims, Probabilities, TextVerdicts, text_lengths

ROWS = pl.DataFrame({'id': ['a', 'b'], 'text': ['The mill closed in 1931.', 'Ten ships sailed.'],
                     'summary': ['The mill closed in 1913.', 'A ship sailed.'], 'gold': [['The year.'], []]})


def id_of(method, model=None) -> str: return Step(method, Rows('mine', ROWS), model or ScriptedModel('m', str, revision='1')).id


# ---- fields ------------------------------------------------------------------------------------------------------------------------

class Known:
    "Stands in for a verifier."
    def __init__(self, salt): self.name, self.identity = 'known', {'verifier': 'known', 'salt': salt}


WEIGHTS = Logistic((0.,), (1.,), (1.,), 0.)
EXAMPLES = {'Localizer': lambda: Localizer('mine', ZERO_SHOT[0]), 'MarkedSpans': lambda: MarkedSpans(Known('a')),
            'SpanJudge': lambda: SpanJudge(Known('a')),
            'RejectedClaims': lambda: RejectedClaims(Known('a')),
            'RandomClaims': lambda: RandomClaims(RejectedClaims(Known('a'))), 'SummaryBaseline': lambda: SummaryBaseline('mine', str.split),
            'GroundingJudge': lambda: GroundingJudge(Template('mine', ZERO_SHOT[0], parse_lettered)),
            'VerifierJudge': lambda: VerifierJudge(read_grounding_decision(), verifier=Known('a'), encoder=Known('a')),
            'SentenceJudge': lambda: SentenceJudge(read_grounding_decision()), 'WordsJudge': lambda: load_grounding_judge('words'),
            'AnsweringJudge': lambda: AnsweringJudge(read_eligibility(), Known('a')), 'Responder': lambda: Responder('mine'),
            'Checker': lambda: Checker(Known('a')),
            'LabelledSentences': lambda: LabelledSentences(load_grounding_judge('words')), 'Nearness': lambda: Nearness(Known('a')),
            'BestTemplate': lambda: BestTemplate((GroundingJudge(TEMPLATES['json']),)),
            'BestEligibility': lambda: BestEligibility((EligibilityJudge(),)),
            'EntityFeatures': lambda: EntityFeatures(('missing',), WEIGHTS, WEIGHTS, (.5, .5)),
            'Hybrid': lambda: Hybrid(ConstantScorer(), ConstantScorer()),
            'RetrievalJudge': lambda: RetrievalJudge('reflection', KNOWLEDGE.frame(), encoder=Known('a')),
            'Matching': lambda: Matching(Known('a')), 'Supports': lambda: Supports(Known('a')),
            'Chosen': lambda: Chosen('mine', tuple(Localizer(f'mine{at}', prompt) for at, prompt in enumerate(ZERO_SHOT, 1))),
            'ClaimSupports': lambda: ClaimSupports(RejectedClaims(Known('a'))),
            'AtThreshold': lambda: AtThreshold(RejectedClaims(Known('a'))),
            'Baseline': lambda: Baseline('majority'), 'Scored': lambda: Scored(ConstantScorer()),
            'FittedHybrid': lambda: FittedHybrid('mine'),
            'ChosenSilence': lambda: ChosenSilence('mine'), 'KnownNames': lambda: KnownNames(KNOWLEDGE.frame()),
            'EntityDescriptions': lambda: EntityDescriptions(encoder=Known('a')),
            'Injection': lambda: Injection(encoder=Known('a')),
            'Claims': lambda: Claims(Known('a')), 'Evidence': lambda: Evidence(Known('a')),
            'LeastSupport': lambda: LeastSupport(Known('a')), 'WordSupport': lambda: WordSupport(Known('a')),
            'Recall': lambda: Recall('bm25', (1,), None),
            'TextVerdicts': lambda: TextVerdicts(Known('a'), Known('a')), 'Probabilities': lambda: Probabilities(Known('a')),
            'ByThreshold': lambda: ByThreshold('mine', text_lengths), 'ByWords': lambda: ByWords('mine'),
            'BesideResponder': lambda: BesideResponder('mine'), 'CrossFitted': lambda: CrossFitted(Baseline('majority')),
            'Derived': lambda: Derived('oracle', oracle, VERDICTS), 'FoundErrors': lambda: FoundErrors('m', 'missed', 3),
            'FactTraces': lambda: FactTraces(FactScore()), 'MergedTrace': lambda: MergedTrace(FactScore())}
OSLO = KNOWLEDGE.frame([{'entity': 'Oslo', 'aliases': [], 'description': 'a city', 'text': None}])
OTHERS = {('DecisionQuestions', 'encoder'): Known('a'), ('Checker', 'extractor'): Known('a'), ('SampledPTrue', 'limit'): 3,
          ('Chosen', 'variants'): (Localizer('mine2', ZERO_SHOT[1]),), ('BestTemplate', 'methods'): (GroundingJudge(TEMPLATES['span']),),
          ('BestEligibility', 'methods'): (EligibilityJudge('request_and_document'),), ('Responder', 'prompt'): ZERO_SHOT[1],
          ('LabelledSentences', 'judge'): load_grounding_judge('words', 'span'),
          ('Generated', 'variant'): 'four', ('OneAnswer', 'variant'): 'four',
          ('Recall', 'ks'): (2,), ('Recall', 'encoder'): Known('a'), ('Easiness', 'encoder'): Known('a'),
          ('FactualityJudge', 'task'): 'rag', ('FactualityJudge', 'tokens'): 64, ('FactualityJudge', 'max_tokens'): 64,
          ('FactualityJudge', 'wording'): ZERO_SHOT[1], ('Generated', 'how'): Asking(max_tokens=9),
          ('OneAnswer', 'how'): Asking(max_tokens=9),
          ('EligibilityJudge', 'shown'): 'request_and_document',
          ('EligibilityJudge', 'prompt'): ZERO_SHOT[1], ('VerifierJudge', 'decision'): read_grounding_decision()._replace(bias=9.),
          ('SentenceJudge', 'decision'): read_grounding_decision()._replace(bias=9.), ('SentenceJudge', 'by'): 'sentences',
          ('WordsJudge', 'decision'): read_grounding_decision()._replace(bias=9.), ('WordsJudge', 'by'): 'sentences',
          ('VerifierJudge', 'by'): 'sentences', ('AnsweringJudge', 'decision'): read_eligibility()._replace(bias=9.),
          ('DirectJudge', 'variant'): 'icl', ('DirectJudge', 'prompt'): ZERO_SHOT[1],
          ('EntityFeatures', 'features'): ('quantity',), ('EntityFeatures', 'faithful'): WEIGHTS._replace(bias=1.),
          ('EntityFeatures', 'factual'): WEIGHTS._replace(bias=1.), ('EntityFeatures', 'thresholds'): (.5, .6),
          ('EntityFeatures', 'fitted_on'): {'rows': 3},
          ('Hybrid', 'faithfulness'): ConstantScorer(.1), ('Hybrid', 'factuality'): ConstantScorer(.1), ('Hybrid', 'thresholds'): (.5, .6),
          ('Hybrid', '_name'): 'mine',
          ('RetrievalJudge', 'kind'): 'concurrent', ('RetrievalJudge', 'claims'): 'split', ('RetrievalJudge', 'queries'): 'claim',
          ('RetrievalJudge', 'reflection'): 'claim', ('RetrievalJudge', 'relation'): Known('a'), ('RetrievalJudge', 'silence'): NONE,
          ('RetrievalJudge', 'wording'): Wording(claims=ZERO_SHOT[1]), ('RetrievalJudge', 'lengths'): Lengths(claims=9),
          ('RetrievalJudge', 'pool'): 'claim', ('RetrievalJudge', 'chunk_tokens'): 200,
          ('RetrievalJudge', 'knowledge'): OSLO, ('KnownNames', 'knowledge'): OSLO, ('Scored', 'scorer'): ConstantScorer(.1),
          ('EntityValues', 'features'): ('quantity',), ('EntityValues', 'encoder'): Known('a'),
          ('FittedEntities', 'features'): ('quantity',), ('Injection', 'size'): 3,
          ('CrossFitted', 'method'): Baseline('length'), ('ExactPTrue', 'prompts'): (ZERO_SHOT[1],)}


def shipped_methods() -> dict[str, type]:
    "Every class of the library that predicts, found in the source."
    root, found = Path(factlab.__file__).parent, {}
    for path in root.rglob('*.py'):
        text = path.read_text()
        if 'def predict(' not in text: continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ClassDef) or node.name == 'Method': continue
            names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            if 'predict' not in names: continue
            module = '.'.join(['factlab', *path.relative_to(root).with_suffix('').parts])
            method = getattr(importlib.import_module(module), node.name)
            method_like = hasattr(method, 'prompts') or hasattr(method, 'schema')  # its own, or inherited
            if method_like and node.name != 'Majority': found[node.name] = method
    return found


def other(value):
    "Another value of the same kind."
    match value:
        case bool(): return not value
        case int() | float(): return value + 1
        case str(): return value + '_other'
        case Prompt(): return replace(value, user='Other words. ' + value.user)
        case () | (Prompt(), *_): return (ZERO_SHOT[0],)
        case Schema(): return replace(value, name='other')
        case FactScore(): return replace(value, max_tokens=9)
        case Known(): return Known('b')
        case Form(): return BY_PASSAGE
        case Template(): return replace(value, read=parse_bullets)
        case RejectedClaims(): return replace(value, threshold=.4)
    if callable(value): return parse_bullets
    raise AssertionError(f'say in OTHERS what another value than {value!r} would be')


def test_the_shipped_methods_are_found():
    assert {Localizer, FactScore, Binary, RejectedClaims, FactualityJudge} <= set(shipped_methods().values())


@pytest.mark.parametrize('name', sorted(shipped_methods()))
def test_no_field_of_a_method_can_be_changed_without_another_run(name):
    method = EXAMPLES.get(name, shipped_methods()[name])()
    ids = {'': id_of(method)}
    for each in fields(method):
        if not each.metadata.get('changes_predictions', True): continue
        changed = OTHERS[name, each.name] if (name, each.name) in OTHERS else other(getattr(method, each.name))
        ids[each.name] = id_of(replace(method, **{each.name: changed}))
    assert len({found[-10:] for found in ids.values()}) == len(ids) > 1, ids
    assert id_of(EXAMPLES.get(name, shipped_methods()[name])()) == ids['']


def test_a_field_that_changes_no_prediction_says_so():
    @dataclass(frozen=True)
    class Quick(FactScore):
        batch: int = field(default=32, metadata=NO_PREDICTION)
        depth: int = 1
    assert id_of(Quick()) == id_of(Quick(batch=1)) != id_of(Quick(depth=2))


def test_the_longest_answer_that_a_model_gives_is_part_of_the_run():
    short, long = (ScriptedModel('m', str, revision='1') for _ in range(2))
    short.answer_limit = 64
    assert id_of(FactScore(), short) != id_of(FactScore(), long)


@pytest.mark.parametrize('value', [object(), [object()], {'a': object()}])
def test_what_cannot_be_recorded_is_refused(value):
    method = replace(EXAMPLES['RejectedClaims'](), threshold=value)
    with pytest.raises(UsageError, match="'threshold' of the method 'rejected_claims' holds a object.*identity"): method_fields(method)


def test_values_of_many_kinds_are_told_apart():
    values = [None, True, 1, 1.5, 'x', float('inf'), float('-inf'), b'x', (1, 2), [2, 1], {1, 2}, {'a': 1}, {'a': 2}, re.compile('x'),
              re.compile('x', re.I), Path('x/y'), pl.DataFrame({'x': [1]}), pl.DataFrame({'x': [2]}), pl.String, pl.List(pl.String),
              Parsed('x'), Parsed('y'), ZERO_SHOT[0], ZERO_SHOT[1], BY_SENTENCE, BY_PASSAGE,
              parse_lettered, parse_bullets, str.strip, str.lower,
              partial(int, base=2), partial(int, base=3), (Message(role='user', content='x'),)]
    found = [str(method_fields(replace(EXAMPLES['RejectedClaims'](), threshold=value))['threshold']) for value in values]
    assert len(set(found)) == len(values), sorted(each for each in found if found.count(each) > 1)


# ---- versions ----------------------------------------------------------------------------------------------------------------------

def first_only(text: str) -> Parsed: return Parsed(parse_lettered(text).value[:1])


def test_another_reader_gets_predictions_of_its_own(tmp_path):
    model = ScriptedModel('m', lambda request: 'A. one\nB. two', revision='1')
    with Store(tmp_path/'store.sqlite') as store:
        runs = [make_run(ROWS, Localizer('mine', ZERO_SHOT[0], read), model, dataset='mine', store=store, folder=tmp_path/'runs')
                for read in (parse_lettered, first_only, parse_lettered)]
    assert runs[0].predictions['predicted'].to_list() == [['one', 'two']]*2 and runs[1].predictions['predicted'].to_list() == [['one']]*2
    assert runs[0].id == runs[2].id != runs[1].id and len(model.asked) == ROWS.height


def test_a_version_raised_by_hand_is_another_run_and_code_is_none():
    @dataclass(frozen=True)
    class Mine(FactScore):
        version: int = 9
        def predict(self, *given, **more): return super().predict(*given, **more)
    class_of_the_same_name = type('FactScore', (FactScore,), {'__doc__': 'Written in other words.'})
    assert id_of(class_of_the_same_name()) == id_of(FactScore()) != id_of(FactScore(version=9))
    assert method_spec(Mine())['version'] == 9


def test_a_method_of_a_notebook_is_made_again(tmp_path, monkeypatch):
    "Its code changes from one cell to the next."
    model = ScriptedModel('m', lambda request: 'A. one\nB. two', revision='1')
    def made(read):
        with Store(tmp_path/'store.sqlite') as store:
            return make_run(ROWS, Localizer('mine', ZERO_SHOT[0], read), model, dataset='mine', store=store, folder=tmp_path/'runs')
    def in_notebook(function):
        function.__module__, function.__qualname__ = '__main__', 'read'
        return function
    before = made(in_notebook(lambda text: parse_lettered(text)))
    after = made(in_notebook(first_only_again))
    assert before.id == after.id and after.predictions['predicted'].to_list() == [['one']]*2 and len(model.asked) == ROWS.height


def first_only_again(text: str) -> Parsed: return Parsed(parse_lettered(text).value[:1])


def test_a_function_without_a_name_is_refused():
    with pytest.raises(UsageError, match='define it at the top of a module'): id_of(Localizer('mine', ZERO_SHOT[0], lambda text: text))


def test_what_a_manifest_says_of_a_method_can_be_read():
    spec = method_spec(Localizer('mine', ZERO_SHOT[0]), 64)
    assert spec['fields']['read'] == 'factlab.models.prompts.parse_lettered' and spec['kind'] == 'Localizer' and spec['version'] == 2
    assert spec['fields']['max_tokens'] == 512 and spec['answer_limit'] == 64 and spec['prompts'][0]['id'] == ZERO_SHOT[0].id
