# ruff: noqa: E501
"""Every kind of question that factlab puts into its store, asked about our own sample data; and all that came of it, as JSON.

The store, the runs and the build beside this file were made by factlab at commit fb7755f, before its modules moved into packages. What a user
paid for then must answer now: names of modules and of functions change below, the data never does.

Since then a run is also named by its method's code and by all of its fields. So the runs in this folder can be read, and say what they lack; what is
asked below makes runs of its own, from the answers in the store, and their predictions are byte by byte those of the old runs.

`python ask_everything.py make FOLDER`: ask (a scripted model, and the embedded ones a little) and write store.sqlite, runs/, build/ and expected.json.
`python ask_everything.py check FOLDER`: the same from a copy of that folder, where any new call is an error, and compare.

Within `ask_everything`, $FACTLAB_HOME must be the folder that holds `runs/` and `build/` (both commands see to it). Nothing in here but the imports names a module of factlab."""
import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from factlab.claims.extraction import EXTRACT, EXTRACTOR_PROMPT, load_extractor
from factlab.claims.generation import VARIANTS, build, build_spec, read_build, rebuild
from factlab.claims.rules import rules_digest
from factlab.claims.training_views import mine_neutral
from factlab.core import registry
from factlab.core.registry import Entry, register
from factlab.data.corpora import CLAIM_EVIDENCE_PAIRS, load_oasis_data, oasis_retrieval, verification_pairs
from factlab.data.datasets import fingerprint, load, load_sample
from factlab.error_analysis.categories import MISSED_CATEGORIES, find_errors, propose, propose_by_model
from factlab.error_analysis.categoriser import CATEGORISE, CHOOSE, choose_categories, make_cases
from factlab.localization.classifiers import support_scores
from factlab.localization.matching import MATCH, EncoderJudge, ModelJudge, match_predictions
from factlab.localization.methods import (
    BINARY,
    COT,
    DECOMPOSE,
    DETECT,
    DETECTION_RETRY,
    FACTS_RETRY,
    FEW_SHOT,
    LIST_RETRY,
    MERGE,
    REASONS_RETRY,
    VERDICT_RETRY,
    ZERO_SHOT,
    Binary,
    FactScore,
    binarize,
    hinted,
    oracle,
    prompt_set,
    two_step,
)
from factlab.localization.rejected_claims import RejectedClaims, claim_supports
from factlab.models.encoder import Encoder
from factlab.models.interface import DryRun, Message, Request, Response, ScriptedModel, TokenLogprob, ask, load_model, unload_models
from factlab.models.store import Store
from factlab.models.transformers_backend import tiny_folder
from factlab.probing.added_facts import sample_facts
from factlab.probing.counterfactual import PROPOSE, compare_detection, detection_changes, make_counterfactuals
from factlab.probing.ptrue import ANSWER_QUESTION, PTRUE, answer_likelihood, ptrue_exact, ptrue_sampled, sample_questions, self_consistency
from factlab.probing.questions import WRITE_QUESTION, draft_questions
from factlab.retrieval.corpus import TextEncoder
from factlab.runs.runs import list_runs, load_run, make_run, runs_dir
from factlab.studies.final.consistency import consistency_counts
from factlab.studies.final.illustrations import ASK_QUESTIONS, known_example, pipeline_example, representations
from factlab.studies.final.localization import localization_counts, localization_scores
from factlab.studies.final.probes import counterfactual_detections, missed_questions, ptrue_probes, question_example
from factlab.studies.final.repeats import repeat_counts
from factlab.studies.final.study import Study as FinalStudy
from factlab.studies.final.study import matches, predictions, verdicts
from factlab.studies.oasis.study import Study as OasisStudy
from factlab.studies.oasis.study import judge_answers, verifier_answers
from factlab.studies.oasis.tables import score_answers
from factlab.training.verifier_evaluation import asked_directly, cosines
from factlab.verification.judges import LABEL_RETRY, SETTINGS, FactualityJudge, judge_prompt
from factlab.verification.nli import ASK_VERIFIER, AskedVerifier, cached_probabilities, load_verifier
from factlab.verification.pipeline import verify_texts

TINY = 'tiny?dtype=float32'  # float32: with `auto` the answers' keys would depend on the machine
NAME, REVISION = 'scripted', 'frozen-1'


# what the scripted model answers: decided by the request's label and a digest of its messages

def _number(request) -> int:
    words = '\n\n'.join(f'{message.role}: {message.content}' for message in request.messages) + str(request.repeat)
    return int(hashlib.sha256(words.encode()).hexdigest()[:8], 16)

def _after(request, *heads: str) -> str:
    "What stands under the last of these headings in the last user message that has one."
    for message in reversed(request.messages):
        for head in heads:
            if message.role == 'user' and head in message.content: return message.content.rpartition(head)[2].strip().split('\n\n')[0]
    return ''

def _sentences(text: str) -> list[str]: return [part.strip() for part in re.split(r'(?<=[.!?])\s+', text) if part.strip()]

def _listed(request, how: str = 'lettered') -> str:
    parts = re.split(r',\s+|\s+and\s+', _after(request, 'Summary:\n')) or ['it']
    items = [f'The text does not say "{part.strip(" .")}".' for part in parts[:1 + _number(request) % 3]]
    return '\n'.join(f'{chr(65 + at)}. {item}' if how == 'lettered' else f'- {item}' for at, item in enumerate(items))

def _direct(request) -> str:
    return ('None', _listed(request), 'On the whole it seems fine to me, though I cannot be sure of it.', _listed(request),
            _listed(request))[_number(request) % 5]

def _reasoned(request) -> str:
    thought = 'The summary is compared with the text, one statement after the other.\n'
    return (f'{thought}Final Output:\nNone', f'{thought}Final Output:\n{_listed(request)}', thought,
            f'{thought}**Final Output:**\n{_listed(request)}')[_number(request) % 4]

def _again(request) -> str: return (_listed(request), 'None', 'I have said it already.')[_number(request) % 3]

def _facts(request) -> str:
    if _number(request) % 3 == 2: return 'These are several facts.'
    return '\n'.join(f'- {part.strip(" .")}.' for part in re.split(r',\s+|\s+and\s+|(?<=[.])\s+', _after(request, 'Summary:\n'))[:3])

def _detected(request) -> str:
    fact = _after(request, 'Atomic fact:\n').strip(' .')
    return ('yes', f'no\n- It is not said that {fact}.\n- The text is silent on it.', 'no', 'Perhaps.', 'no',
            f'No.\n- "{fact}" is wrong.')[_number(request) % 6]

def _merged(request) -> str:
    found = re.findall(r'^([A-Z])\. (.*)$', _after(request, 'Inconsistencies:\n'), re.MULTILINE)
    kept = [text for at, (_, text) in enumerate(found) if at % 2 == 0]
    return 'They are all the same.' if _number(request) % 4 == 3 else '\n'.join(f'{chr(65 + at)}. {text}' for at, text in enumerate(kept))

def _matched(request) -> str:
    content = request.messages[-1].content
    gold, predicted = (re.findall(r'^([A-Z]+)\. ', _part, re.MULTILINE) for _part in (
        content.rpartition('Reference list:\n')[2].partition('Predicted list:')[0], content.rpartition('Predicted list:\n')[2].partition('Reason step by step')[0]))
    number = _number(request)
    if number % 7 == 6: return 'It is hard to tell which is which.'
    answer = {letter: ([*gold, None, 'Z'][(number >> at) % (len(gold) + 2)]) for at, letter in enumerate(predicted)}
    return f'Each item was compared.\n{json.dumps(answer)}'

def _label(request) -> str:
    said = ('Factual', 'Not Factual', 'It depends.', 'Factual.', 'not factual')[_number(request) % 5]
    if any('EXPLANATION: your reasons' in message.content for message in request.messages):
        return f'EXPLANATION: It is as it is.\nLABEL: {said}'
    return said

def _claims(request) -> str:
    found = _sentences(_after(request, 'Text:\n').removesuffix('Claims:').strip())
    return 'None' if _number(request) % 11 == 10 else '\n'.join(f'- {" ".join(sentence.split()[:12]).strip(" .,")}.' for sentence in found)

def _sentence_claims(request) -> str:
    parts = re.split(r',\s+', _after(request, 'Sentence: '))
    return '\n'.join(f'{part.strip(" .")}.' for part in parts)

_STEPS = {'step.1': ['Ystad is a town in Sweden.', 'Ystad has a port.'], 'step.2': ['Ystad has a port.', 'Ystad has an airport.'],
          'step.3': 'A Swedish town, Ystad can be reached by ship.', 'step.4': 'A Swedish town, Ystad can be reached by plane.'}

def _unified(request) -> str:
    broken = {**_STEPS, 'step.2': ['Ystad has a port.', 'Ystad does not have a port.'], 'step.4': _STEPS['step.3']}
    if 'Tides are' in request.messages[-1].content: return json.dumps(_STEPS)
    return (json.dumps(_STEPS), json.dumps(broken), '{"step.1": ["Ystad is', 'No.')[_number(request) % 4]

def _falsified(request) -> str:
    first = _after(request, 'Claims:\n').splitlines()[0][2:]
    if first.startswith('Tides are'): return json.dumps({'step.2': [first, first.replace('sea', 'wind')]})
    return json.dumps({'step.2': ['Nobody said so.' if _number(request) % 3 == 2 else first, first.rstrip('.') + ' in spring.']})

def _factual(request) -> str:
    given = _after(request, '\nText:\n')
    if given.startswith('Tides are'):
        return 'Here it is:\nTwice a day the ocean swells beside most shores. Gravity from above is what pulls at it.'
    return ' '.join(reversed(_sentences(given)))

def _scored(request):
    "Log-probabilities of the choices, that sum to less than one."
    weights = [1 + int(hashlib.sha256(f'{_number(request)}/{at}'.encode()).hexdigest()[:4], 16) for at in range(len(request.choices))]
    logprobs = tuple(math.log(weight/(1.1*sum(weights))) for weight in weights)
    return Response(finish_reason='choices', choice_logprobs=logprobs, prompt_tokens=7, completion_tokens=3)

def _letters(request):
    if not request.top_logprobs: return ('A', 'B', ' A', 'Both')[_number(request) % 4]
    top = ((('A', -0.4), ('B', -1.3), (' A', -4.0)), (('A', -0.1), (' The', -3.0)), (('The', -0.2), ('It', -2.0)))[_number(request) % 3]
    return Response(text=top[0][0], finish_reason='length', prompt_tokens=5, completion_tokens=1,
                    logprobs=(TokenLogprob(token=top[0][0], logprob=top[0][1], top=top),))

def _many_claims(request):
    return Response(text=_claims(request), finish_reason=('stop', 'stop', 'length')[_number(request) % 3], prompt_tokens=20,
                    completion_tokens=9)

def _json_items(request) -> str: return ('{"items": ["One thing is wrong with the date.", "Another thing is missing."]}', 'no items',
                                         '{"items": ["The first of them is cut off.", "The sec')[_number(request) % 3]
def _json_verdict(request) -> str: return ('{"consistent": "yes", "items": ["Nothing at all is wrong."]}',
                                           '{"consistent": "no", "items": ["The date is not in the text."]}', '{}')[_number(request) % 3]
def _json_question(request) -> str: return ('{"question": "Where did it happen?", "answer": "in Leeds"}',
                                            '{"question": "It happened.", "answer": "x"}')[_number(request) % 4 == 3]

ANSWERS = {
    **{prompt.name: _direct for prompt in (*ZERO_SHOT, *FEW_SHOT)}, **{prompt.name: _reasoned for prompt in COT},
    'final/cot1_hint': _reasoned, 'final/cot2_hint': _reasoned, LIST_RETRY.prompt.name: _again,
    DECOMPOSE.name: _facts, DETECT.name: _detected, MERGE.name: _merged,
    FACTS_RETRY.prompt.name: _json_items, REASONS_RETRY.prompt.name: _json_items, DETECTION_RETRY.prompt.name: _json_verdict,
    BINARY.name: lambda request: ('Final answer: yes', 'It is not.\nFinal answer: no', 'Who knows.')[_number(request) % 3],
    MATCH.name: _matched, ASK_QUESTIONS.name: lambda request: '\n'.join(f'- What is it? {line[2:]}'
                                                                        for line in _after(request, 'Facts:\n').splitlines()),
    **{judge_prompt(task, fs, ex).name: _label for task in ('text', 'rag', 'claim') for fs in (False, True) for ex in (False, True)},
    EXTRACT.name: _many_claims, EXTRACTOR_PROMPT.name: _sentence_claims, VARIANTS['unified'][0].name: _unified,
    VARIANTS['four'][1].name: _falsified, VARIANTS['four'][2].name: _factual,
    VARIANTS['four'][3].name: lambda request: _after(request, '\nText:\n').replace('swells',
                                                                                   'shrinks') + ' It ends.'*(_number(request) % 2),
    PTRUE.name: _letters, f'{PTRUE.name}/sampled': _letters,
    'final/self_consistency': lambda request: ('in Leeds', 'Germany', 'Cape Canaveral, Florida', '1969')[_number(request) % 4],
    WRITE_QUESTION.name: _json_question, PROPOSE.name: lambda request: ('- Leeds\n- Hull\n- Madrid', '- Peter Smith\n- 1850',
                                                             'nothing fits')[_number(request) % 3],
    CATEGORISE.name: lambda request: ('Reason: it is new.\nCategory: A', 'Reason: it is altered.\nCategory: C',
                                      'Category: intrinsic composition', 'A or B')[_number(request) % 4]}
SCORED = {VERDICT_RETRY.name, LABEL_RETRY.name, ASK_VERIFIER.name, PTRUE.name, CHOOSE.name, 'final/answer_likelihood', 'verifier/asked'}

def answer(request):
    "The scripted answer to a request."
    if request.choices:
        assert request.label in SCORED, request.label
        return _scored(request)
    return ANSWERS[request.label](request)

def refuse(request): raise AssertionError(f'a new question reached the model: {request.label}: {request.messages[-1].content[:300]}')

def scripted(how=answer): return ScriptedModel(NAME, how, revision=REVISION)


# the scripted model under a name, as studies want it

_current = []

def load_current(name, target, options): return _current[-1]

@contextlib.contextmanager
def known(model):
    _current.append(model)
    register('models', Entry(NAME, load_current))
    try: yield
    finally:
        unload_models(NAME)
        _current.pop()
        del registry._entries['models'][NAME]


# results as JSON

def plain(value):
    "A result as JSON: frames as lists of rows, numbers to six digits."
    if isinstance(value, pl.DataFrame): return plain(value.to_dicts())
    if isinstance(value, pl.Series): return plain(value.to_list())
    if isinstance(value, np.ndarray | np.generic): return plain(value.tolist())
    if hasattr(value, 'model_dump'): return plain(value.model_dump(mode='json', exclude_defaults=True))
    if hasattr(value, '_asdict'): return plain(value._asdict())
    if isinstance(value, dict): return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float): return str(value) if not math.isfinite(value) else round(value, 6) + 0.0
    if value is None or isinstance(value, str | int | bool): return value
    if hasattr(value, '__dataclass_fields__'): return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    raise TypeError(f'{type(value)} is not for JSON')

# of a manifest: when and how long, what the run is named after, and what was not recorded when the runs here were made
NOT_TOLD = {'versions', 'started', 'seconds', 'pid', 'id', 'method', 'columns'}

def told(run) -> dict:
    "What a run is."
    manifest = {name: value for name, value in run.manifest.items() if name not in NOT_TOLD}
    return {'manifest': manifest, 'predictions': run.predictions}

def vectors_told(vectors) -> list:  # a vector is told by its length, its first four numbers and its sum
    return [[len(vector), *np.asarray(vector)[:4].tolist(), round(float(np.sum(vector)), 4)] for vector in vectors]


# the questions

def localizing(store, folder, model) -> dict:
    "Every localization method of the library by itself, and runs of some."
    rows, out = load('sample').filter(pl.col('id').is_in(['s01', 's03', 's09'])).with_columns(pl.col('text').str.slice(0, 250)), {}
    own = prompt_set()
    methods = [method for style in ('zero_shot', 'few_shot', 'cot') for method in own.localizers(style)]
    methods += [hinted(method) for method in own.localizers('cot')] + [FactScore(), Binary()]
    found = {method.name: method.predict(rows, model, store) for method in methods}
    plainly = prompt_set('ours', retry_unparsed=False)
    found |= {f'{method.name}, once': method.predict(rows, model, store)
              for method in (*plainly.localizers('zero_shot'), FactScore(retry_unparsed=False), Binary(retry_unparsed=False))}
    found['zero_shot1, seed 3, repeat 1'] = methods[0].predict(rows, model, store, seed=3, repeat=1)
    out['predictions'] = found
    out['two_step'] = {first: two_step(step, found['cot1']) for first,
                       step in (('binary', found['binary']), ('oracle', oracle(rows)), ('binarized', binarize(found['few_shot1'])))
                       if step['status'].eq('ok').all() or first != 'binarized'}
    verifier = load_verifier(TINY)
    forms = {'passage': load_extractor(model).form, 'sentence': load_extractor('trained:tiny').form, 'none': None}
    claims = {name: RejectedClaims(verifier, threshold=0.67, form=form) for name, form in forms.items()}
    out['rejected'] = {name: method.predict(rows.head(2), model, store) for name, method in claims.items()}
    out['supports'] = claim_supports(claims['none'], rows.head(2), model, store)
    asked = RejectedClaims(AskedVerifier(model), form=None)
    out['rejected, asked'] = asked.predict(rows.head(1), model, store)
    out['support'] = {name: support_scores(rows.head(1), name if name != 'asked' else AskedVerifier(model), store)
                      for name in (TINY, 'encoder', 'cosine', 'asked')}
    runs = [methods[0], FactScore(), Binary(), hinted(own.localizers('cot')[1]), claims['passage'], claims['none']]
    out['runs'] = [told(make_run(rows.head(2), method, model, dataset='sample', store=store, folder=folder)) for method in runs]
    out['runs'] += [told(make_run(rows.head(2), methods[0], model, dataset='sample', store=store, folder=folder, seed=3, repeat=1))]
    dry = DryRun(model)
    for method in (methods[0], Binary()): method.predict(rows, dry, store)
    out['estimate'] = dry.estimate().drop('batch_cost')  # which that factlab did not know
    judges = {'model': ModelJudge(model), 'model, repeat 2': ModelJudge(model, repeat=2), 'encoder': EncoderJudge()}
    out['judges'] = {name: judge.identity for name, judge in judges.items()}
    out['matches'] = {f'{name} on {which}': match_predictions(rows, found[which], judge, store) for name, judge in judges.items()
                      for which in ('zero_shot1', 'cot2')}
    return out

METHODS = ('zero_shot', 'few_shot', 'cot', 'factscore', 'self_cot', 'self_cot_hint', 'classifier_cot', 'classifier_cot_hint', 'oracle_cot',
           'oracle_cot_hint', 'rejected_claims')  # the rows of that factlab; a later one has nothing to be compared with

def final_study(store, folder, model) -> dict:
    "FINAL's experiment with every method, and what its other exhibits ask."
    study = FinalStudy('sample', judge=NAME, limit=2, verifier=TINY, store=store)
    out = {'predictions': {method: predictions(study, method, NAME) for method in METHODS},
           'matches': {method: matches(study, method, NAME) for method in METHODS}}
    out |= {'verdicts': {step: verdicts(study, step, NAME) for step in ('self', 'classifier', 'oracle')},
            'scores': localization_scores(study, NAME, METHODS).drop('of'), 'counts': localization_counts(study, NAME, METHODS)}
    out |= {'consistency': consistency_counts(study, NAME), 'manifest': study.manifest([NAME])}
    out |= {'known': {key: value for key, value in known_example(study).items() if key != 'right'}, 'pipeline': pipeline_example(study, NAME, max_summaries=2),
            'representations': representations(study, NAME)}
    out['repeats'] = repeat_counts(study, [NAME], ['zero_shot'], runs=2)
    by_encoder = FinalStudy('sample', judge='encoder', limit=1, verifier=TINY, classifier='encoder', store=store, retry_unparsed=False)
    out['encoder judge'] = {method: matches(by_encoder, method, NAME) for method in ('zero_shot', 'classifier_cot')}
    asked = sample_questions(load_sample()).head(2)
    out['ptrue'] = ptrue_probes(study, asked, NAME, samples=2)
    out['question'] = question_example(study, NAME, write=True)
    out['missed'] = missed_questions(study, NAME, errors=3, writer=NAME)
    cases = make_counterfactuals(sample_facts(load_sample()).head(3), model=model, store=store)
    out |= {'counterfactuals': cases.counterfactuals, 'proposals': cases.proposals}
    found = counterfactual_detections(study, cases.counterfactuals.head(2), NAME)
    out |= {'detections': found, 'changes': detection_changes(found)}
    return out

def probing(store, folder, model) -> dict:
    "P(True) and the other probes; questions; counterfactuals; categories."
    asked, facts = sample_questions(load_sample()).head(4), sample_facts(load_sample()).head(3)
    out = {f'ptrue, {reading}': ptrue_exact(asked, model, store, reading=reading) for reading in ('auto', 'choices', 'top')}
    out['ptrue, 5 alternatives'] = ptrue_exact(asked.head(2), model, store, reading='top', top_logprobs=5)
    out['ptrue, sampled'] = ptrue_sampled(asked.head(3), model, store, samples=3, seed=1)
    out |= {'likelihood': answer_likelihood(asked, model, store), 'consistency': self_consistency(asked.head(2), model, store, samples=3)}
    out['drafts'] = draft_questions(facts, model, store)
    made = make_counterfactuals(facts, model=model, store=store, seed=2)
    out |= {'counterfactuals': made.counterfactuals, 'rules alone': make_counterfactuals(facts).counterfactuals}
    out['detection'] = compare_detection(made.counterfactuals.head(2), prompt_set().localizers('few_shot')[0], ModelJudge(model), model,
                                         store)
    sample = load('sample').filter(pl.col('id').is_in(['s01', 's03', 's09']))
    zero_shot = prompt_set().localizers('zero_shot')[0]
    said = zero_shot.predict(sample, model, store)
    errors = find_errors(sample, said, match_predictions(sample, said, ModelJudge(model), store), NAME)
    out |= {'errors': errors, 'categories, rules': propose(errors.head(2), store=store),
            'categories, model': propose_by_model(errors, model, store)}
    cases = make_cases(facts.select('id', 'text', 'summary', 'description', 'span'))
    out['categories, scored'] = choose_categories(cases, MISSED_CATEGORIES, model, store)
    return out

def judging(store, folder, model) -> dict:
    "Texts and claims of OASIS' shape: judges in all settings, the pipeline, verifiers."
    data = load_oasis_data('sample')
    pages = data.head(1)
    texts = pl.DataFrame({'id': ['a', 'b'], 'text': [pages['factual'][0], pages['unfactual'][0]]})
    beside = texts.with_columns(evidence=pl.Series([pages['page_passages'][0].to_list()[:2], pages['page_passages'][0].to_list()[2:3]],
                                                   dtype=pl.List(pl.String)))
    claims = verification_pairs(pages).head(2).select('id', 'evidence', text='claim')
    rows, out = {'text': texts, 'rag': beside, 'claim': claims}, {}
    judges = [FactualityJudge(task, **how) for task in rows for how in SETTINGS.values()]
    judges += [FactualityJudge('rag', tokens=20), FactualityJudge('text', temperature=0.7), FactualityJudge('claim', retry_unparsed=False),
               FactualityJudge('text', explain=True, max_tokens=40)]
    out['verdicts'] = {f'{judge.name} {judge.max_tokens} {judge.retry_unparsed}': judge.predict(rows[judge.task], model, store, seed=5)
                       for judge in judges}
    out['runs'] = [told(make_run(rows[judge.task], judge, model, dataset='sample', store=store, folder=folder))
                   for judge in (judges[0], judges[5], judges[10], judges[13])]
    study = OasisStudy('sample', limit=2, verifier=TINY, store=store)
    answers = {task: judge_answers(study, FactualityJudge(task), NAME, runs=2) for task in ('text', 'claim')}
    scores = {task: score_answers(found)._asdict() for task, found in answers.items()}
    for score in scores.values(): score.pop('forced')  # told since: how many answers were replaced by the likelier label
    out |= {'answers': {task: found.drop('forced') for task, found in answers.items()}, 'accuracy': scores,
            'used': study.used['models'], 'verified': verifier_answers(study).drop('forced')}
    return out

def verifying(store, folder, model) -> dict:
    "Claims extracted, verifiers asked, and the pipeline over a few passages."
    data = load_oasis_data('sample')
    text = data['factual'][1]
    passages = oasis_retrieval(data.head(2)).passages.head(6)
    out = {f'claims, {name}': load_extractor(what).extract([text, 'Ystad, a Swedish town, has a port.', ''], store)
           for name, what in {'scripted': model, 'sentences': 'sentences'}.items()}
    out['claims, trained'] = load_extractor(TINY).extract(['Ystad, a Swedish town, has a port.'], store)
    pairs = [(passages['text'][0], data['claims'][0][0]), (passages['text'][1], data['claims'][0][1]), ('', 'Ystad has a port.')]
    verifiers = {'asked': AskedVerifier(model), 'asked in both orders': AskedVerifier(model, both_orders=True),
                 'tiny': load_verifier(TINY), 'cosine': load_verifier('cosine')}
    out['probabilities'] = {name: verifier.probabilities(pairs, store) for name, verifier in verifiers.items()}
    out['probabilities']['long claim'] = verifiers['tiny'].probabilities([('Ystad has a port.',
                                                                           'Ystad has a port, and ' * 30 + 'ferries.')], store)
    out['probabilities']['keys of an NLI model'] = cached_probabilities(pairs[:2], 'nli:demo', {'backend': 'nli', 'weights': 'demo'},
                                                                        _computed(model), store)
    out['identities'] = {name: verifier.identity for name, verifier in verifiers.items()}
    out |= {'asked directly': asked_directly(pairs[:2], model, store), 'cosines': cosines(pairs[:1], store)}
    frame = pl.DataFrame({'id': ['a', 'b'], 'text': ['Ystad, a Swedish town, has a port.', ' '.join(data['claims'][0].to_list()[:2])]})
    for name, (extractor, verifier, method) in {'trained': (TINY, verifiers['tiny'], 'algorithm1'),
                                                'asked': (load_extractor(model), verifiers['asked'], 'max-entailment'),
                                                'mean': ('sentences', verifiers['tiny'], 'mean-entailment')}.items():
        made = verify_texts(frame, passages, extractor=extractor, retriever='bm25', verifier=verifier, k=3, method=method, store=store)
        out[f'pipeline, {name}'] = {'texts': made.texts, 'claims': made.claims, 'evidence': made.evidence.drop('passage'),
                                    'settings': made.settings}
    out['neutral'] = mine_neutral(data.head(1).with_columns(pl.col('claims').list.head(2), pl.lit(0).cast(pl.Int64).alias('altered'),
                                                            pl.col('page_passages').list.head(2)), verifiers['tiny'], store,
                                  related=None, min_neutral=0).select(*CLAIM_EVIDENCE_PAIRS.columns)
    out['vectors'] = {name: vectors_told(Encoder(name).encode(['Ystad has a port.', text[:60]], store))
                      for name in ('tiny', 'retriever', 'tiny?similarity=dot')}
    out['queries'] = vectors_told(TextEncoder('retriever').queries(['Ystad has a port.', 'Ferries leave it daily.'], store))
    out['identities'] |= {f'encoder {name}': Encoder(name).identity for name in ('tiny', 'retriever', 'tiny?similarity=dot')}
    return out

def _computed(model):
    "Probabilities in the place of a model's; a new question where the scripted model refuses."
    def compute(pairs):
        if model.answer is refuse: raise AssertionError(f'{len(pairs)} pairs of a verifier are not in the store')
        return np.array([[.5, .3, .2]]*len(pairs), np.float32)
    return compute

def building(store, folder, model) -> dict:
    "Data sets made by a model."
    data = load_oasis_data('sample').head(4)
    out = {'rules': rules_digest(),
           'spec': {variant: build_spec(data.select('page', text='passage'), model, variant) for variant in VARIANTS}}
    for variant in VARIANTS:
        made = rebuild(data, model, variant, store)
        out[variant] = {'manifest': made.manifest, 'data': made.data, 'rejected': made.rejected}
    made = build(data.select('page', text='passage'), model, folder.parent/'build', size=3, store=store, strict=True)
    out['build'] = {'manifest': {name: value for name, value in made.manifest.items() if name != 'finished'},
                    'read': read_build(folder.parent/'build').data}
    return out

def embedded(store, folder, model) -> dict:
    "A few questions to the embedded language model: greedy and sampled, scored, within a schema, with alternatives; and one run."
    tiny, user = load_model(TINY), (Message(role='user', content='Say hello.'),)
    schema = {'type': 'object', 'properties': {'word': {'enum': ['yes', 'no']}}, 'required': ['word'], 'additionalProperties': False}
    requests = [Request(messages=user, max_tokens=6, label='frozen/greedy'),
                Request(messages=user, max_tokens=4, top_logprobs=3, label='frozen/alternatives'),
                Request(messages=user, max_tokens=4, temperature=1, top_p=.9, seed=3, label='frozen/sampled'),
                Request(messages=user, max_tokens=4, temperature=1, top_p=.9, seed=3, repeat=1, label='frozen/sampled'),
                Request(messages=user, choices=('Hello', 'No'), label='frozen/choices'),
                Request(messages=user, json_schema=schema, max_tokens=12, label='frozen/schema'),
                Request(messages=(Message(role='system', content='Be brief.'), *user), stop=('!',), max_tokens=6, label='frozen/stop')]
    out = {'identity': tiny.identity, 'responses': ask(requests, tiny, store), 'keys': [request.key(tiny.identity) for request in requests]}
    short = pl.DataFrame({'id': ['x'], 'text': ['Ystad has a port. Ferries leave it daily.'], 'summary': ['Ystad has an airport.']})
    judge = FactualityJudge('text')
    out['runs'] = [told(make_run(short.select('id', text='summary'), judge, tiny, dataset='own', store=store, folder=folder)),
                   told(make_run(short, RejectedClaims(load_verifier(TINY), form=None), tiny, dataset='own', store=store, folder=folder))]
    questions = sample_questions(load_sample()).head(1)
    out |= {'ptrue': ptrue_exact(questions, tiny, store), 'likelihood': answer_likelihood(questions, tiny, store)}
    out['verifier'] = AskedVerifier(tiny).probabilities([('Ystad has a port.', 'Ystad is a port.')], store)
    return out

def names(store, folder, model) -> dict:
    "What is in keys and ids without being asked: prompts, identities, fingerprints, the runs on the disk."
    own = prompt_set()
    prompts = [*ZERO_SHOT, *FEW_SHOT, *COT, *[hinted(each).prompt for each in own.localizers('cot')], DECOMPOSE, DETECT, MERGE, BINARY,
               VERDICT_RETRY, MATCH, ASK_QUESTIONS,
               LIST_RETRY.prompt, FACTS_RETRY.prompt, DETECTION_RETRY.prompt, REASONS_RETRY.prompt, EXTRACT, EXTRACTOR_PROMPT,
               *VARIANTS['unified'], *VARIANTS['four'],
               ASK_VERIFIER, PTRUE, ANSWER_QUESTION, WRITE_QUESTION, PROPOSE, CATEGORISE, CHOOSE, LABEL_RETRY,
               *[judge_prompt(task, fs, ex) for task in ('text', 'rag', 'claim') for fs in (False, True) for ex in (False, True)]]
    endpoint = load_model('openai:demo?base_url=http://127.0.0.1:9/v1')
    out = {'prompts': {prompt.id: prompt.sha256 for prompt in prompts}, 'fields': {prompt.id: sorted(prompt.fields) for prompt in prompts}}
    out['identities'] = {'endpoint': endpoint.identity, 'scripted': model.identity, 'trained extractor': load_extractor(TINY).identity,
                         'extractor': load_extractor(model).identity,
                         'endpoint as a verifier': AskedVerifier(endpoint).identity,
                         'tiny with an adapter': load_model(f'{TINY}&adapter=extractor').identity}
    out['key'] = Request(messages=(Message(role='user', content='Häé\u2028?'),), max_tokens=3, json_schema='{"type": "object"}',
                         temperature=.5, seed=1, repeat=2, stop=('\n',)).key(endpoint.identity)
    out['data'] = {'sample': fingerprint(load('sample')), 'oasis sample': fingerprint(load_oasis_data('sample'))}
    listed = list_runs(folder)
    found = listed.filter(pl.col('note') != '').drop('seconds', 'started', 'note').sort('id')
    assert found.height and listed.height > found.height, 'the runs of old say what they lack, those of today lack nothing'
    return out | {'runs': found, 'loaded': {id: load_run(id, folder).predictions.height for id in found['id']}}

PARTS = (localizing, final_study, probing, judging, verifying, building, embedded, names)

def ask_everything(store, runs_folder, model) -> dict:
    "Ask everything and give all results as JSON. `runs_folder` is `runs` in $FACTLAB_HOME; `model` is of `scripted()`."
    assert runs_dir() == Path(runs_folder), f'set FACTLAB_HOME to the folder above {runs_folder}'
    with known(model): return {part.__name__: plain(part(store, Path(runs_folder), model)) for part in PARTS}


# making and checking

def contents(path: Path) -> dict:
    "How many rows of each kind the store holds, by label where there is one."
    connection = sqlite3.connect(path)
    counted: dict[str, int] = {}
    if connection.execute('PRAGMA user_version').fetchone()[0] < 3:  # as it was frozen
        rows = connection.execute('SELECT model, kind, request FROM responses').fetchall()
        vectors = connection.execute('SELECT model, count(*) FROM vectors GROUP BY model').fetchall()
    else:  # as today's factlab keeps it: requests in pieces
        with Store(path) as store:
            store.export(path.with_name('contents.jsonl'))
            vectors = store.stats().filter(pl.col('kind') == 'vector').select('model', 'responses').rows()
        lines = map(json.loads, path.with_name('contents.jsonl').read_text(encoding='utf-8').split('\n')[:-1])
        rows = [(line['model'], line['kind'], json.dumps(line['request'])) for line in lines]
    connection.close()
    for model, kind, request in rows:
        counted[name] = counted.get(name := f'{model} {kind} {json.loads(request)["label"]}', 0) + 1
    for model, n in vectors: counted[f'vectors {model}'] = n
    return dict(sorted(counted.items()))

def kept_files(home: Path) -> set:  # name and digest; nothing is written where all is there
    return {(str(path.relative_to(home)), hashlib.sha256(path.read_bytes()).hexdigest()) for name in ('runs', 'build')
            for path in (home/name).rglob('*') if path.is_file()}

def with_weights(home: Path) -> None:
    "Lend a home the embedded model's converted weights (its tokenizer divides long claims), which take every new home 20 seconds to make."
    folder = tiny_folder()
    (home/'cache').mkdir(parents=True, exist_ok=True)
    if not (link := home/'cache'/folder.name).exists(): link.symlink_to(folder)

def make(folder: Path) -> None:
    with_weights(folder)
    os.environ['FACTLAB_HOME'] = str(folder)
    model, path = scripted(), folder/'store.sqlite'
    with Store(path) as store: found = ask_everything(store, folder/'runs', model)
    print(f'{len(model.asked)} calls of the scripted model')
    connection = sqlite3.connect(path)  # one file, as small as it gets
    for table in ('leases', 'owners'): connection.execute(f'DELETE FROM {table}')
    connection.commit()
    for pragma in ('wal_checkpoint(TRUNCATE)', 'journal_mode = DELETE', 'page_size = 1024'):
        connection.execute(f'PRAGMA {pragma}').fetchall()
    connection.execute('VACUUM')
    connection.execute('PRAGMA journal_mode = WAL').fetchall()
    connection.close()
    for left in ('store.sqlite.lock', 'cache'): shutil.rmtree(folder/left) if (folder/left).is_dir() else (folder/left).unlink()
    (folder/'expected.json').write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + '\n', encoding='utf-8')
    (folder/'contents.json').write_text(json.dumps(contents(path), indent=1) + '\n', encoding='utf-8')

def differences(expected, found, where: str = '') -> list[str]:
    if type(expected) is not type(found) and not (isinstance(expected, int | float) and isinstance(found, int | float)):
        return [f'{where}: expected {expected!r:.200}, found {found!r:.200}']
    if isinstance(expected, dict):
        lost, new = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
        return [f'{where}/{key}: lost' for key in lost] + [f'{where}/{key}: new' for key in new] + [
            line for key in expected if key in found for line in differences(expected[key], found[key], f'{where}/{key}')]
    if isinstance(expected, list):
        more = [f'{where}: expected {len(expected)} items, found {len(found)}']*(len(expected) != len(found))
        return more + [line for at, pair in enumerate(zip(expected, found, strict=False)) for line in differences(*pair, f'{where}[{at}]')]
    same = math.isclose(expected, found, rel_tol=0, abs_tol=2e-6) if isinstance(expected, float) else expected == found
    return [] if same else [f'{where}: expected {expected!r:.200}, found {found!r:.200}']

def check(folder: Path) -> list[str]:  # differences; none when all is as it was
    "Ask everything anew of a copy of the frozen folder, where nobody answers."
    before = os.environ.get('FACTLAB_HOME')
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)/'home'
        copy.mkdir()
        shutil.copy(folder/'store.sqlite', copy)
        for name in ('runs', 'build'): shutil.copytree(folder/name, copy/name)
        with_weights(copy)
        os.environ['FACTLAB_HOME'] = str(copy)
        model, held = scripted(refuse), contents(copy/'store.sqlite')
        files = kept_files(copy)
        try:
            with Store(copy/'store.sqlite') as store: found = ask_everything(store, copy/'runs', model)
            now = contents(copy/'store.sqlite')
            after = kept_files(copy)
        finally:
            if before is None: del os.environ['FACTLAB_HOME']
            else: os.environ['FACTLAB_HOME'] = before
    assert not model.asked
    expected = json.loads((folder/'expected.json').read_text(encoding='utf-8'))
    parameters = expected['final_study']['manifest']['parameters']  # told to readers of a result, read by nothing: this name changed
    parameters['retry_unparsed'] = parameters.pop('repair')
    for part in ('localizing', 'embedded', 'judging'):
        for run in expected[part]['runs']:
            for name in NOT_TOLD & run['manifest'].keys(): del run['manifest'][name]
    changed = [f'file changed or lost: {name}' for name in sorted({name for name, _ in files - after})]
    changed += [f'new file: {name}' for name in sorted({name for name, _ in after - files if name.startswith('build')})]
    changed += [f'new predictions: {name}' for name, sha in sorted(after - files) if name.endswith('.parquet') and sha not in {old for _, old in files}]
    return [f'store, {line}' for line in differences(held, now)] + changed + differences(expected, json.loads(json.dumps(found)))

if __name__ == '__main__':
    import factlab
    print(factlab.__file__)
    action, place = sys.argv[1], Path(sys.argv[2]).resolve()
    if action == 'make': place.mkdir(parents=True, exist_ok=True); make(place)
    else:
        lines = check(place)
        print('\n'.join(lines) or 'as it was, and nobody was asked')
        sys.exit(bool(lines))
