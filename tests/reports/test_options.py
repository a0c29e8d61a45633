"""Options of exhibits: a mistake costs no kernel and no question, and is said once."""
import json

import pytest

from factlab.cli.main import main
from factlab.core.core import DataError, ModelError, UsageError
from factlab.reports.exhibits import catalog, find_exhibits
from factlab.reports.options import FILES, PARAMETERS, check_name, check_options
from factlab.reports.reproduce import parameters_of, plan_of
from factlab.studies.oasis.study import retrieval_plan

VENDOR_KEY = 'https://api.openai.com/v1 needs a key'


pytestmark = pytest.mark.usefixtures('no_key')


@pytest.mark.parametrize('arguments, code, said', [
    (('final/table4', '--model', 'gpt-4o'), 2, "there is no model 'gpt-4o': did you mean 'openai:gpt-4o'?"),
    (('final/table4', '--model', 'tiny', 'openai/gpt-4o'), 3, VENDOR_KEY),
    (('final/table4', '--verifier', 'asked:yes-no:openai:gpt-4o'), 3, VENDOR_KEY),
    (('facts/leaderboard', '--judge', 'embeded'), 2, "did you mean 'embedded'?"),
    (('oasis/tablec1', '-p', 'encoders=[tiny, bm52]'), 2, "did you mean 'bm25'?"),
    (('oasis/table6', '-p', 'retriever=bm25'), 2, "there is no encoder 'bm25': Known: tiny, retriever"),
    (('oasis/table4', '-p', 'extractors=[tiny, sentenses]'), 2, "did you mean 'sentences'?"),
    (('final/table4', '--classifier', 't5:a/b?batch_tokens=0'), 2, 'a number above 0'),
    (('oasis/table8', '--verifier', 'mpnet?dtyp=float32'), 2, 'did you mean dtype?'),
    (('final/table4', '--data', 'finale'), 2, "did you mean 'final'?"),
    (('final/fig6', '-p', 'labels=nowhere.csv'), 3, 'it was given as labels')])
def test_a_mistake_is_found_before_anything_runs_and_said_once(monkeypatch, capsys, arguments, code, said):
    def never(*_, **__): raise AssertionError('an exhibit was run')
    for name in ('run_exhibits', 'estimate'): monkeypatch.setattr(f'factlab.reports.reproduce.{name}', never)
    assert main(['reproduce', *arguments]) == code
    assert capsys.readouterr().err.count(said) == 1


def test_a_file_that_does_not_fit_is_found_before_anything_runs(tmp_path):
    lacking, unlabelled = tmp_path/'lacking.jsonl', tmp_path/'unlabelled.jsonl'
    lacking.write_text(json.dumps({'text': 'A mill.', 'gold': []}) + '\n')
    unlabelled.write_text(json.dumps({'text': 'A mill.', 'summary': 'A mill.'}) + '\n')
    for path, said in ((lacking, 'summary'), (unlabelled, 'no gold descriptions'), (tmp_path/'nowhere.jsonl', 'there is no file')):
        with pytest.raises(DataError, match=said): check_options(find_exhibits(['final/table4']), {'data': str(path)})
    with pytest.raises(UsageError, match='take sample, oasis'): check_options(find_exhibits(['oasis/table6']), {'data': 'final'})
    for exhibit in ('final/table4', 'facts/leaderboard', 'fhsum/table2', 'oasis/table6'):
        check_options(find_exhibits([exhibit]), {'data': 'sample'})


@pytest.mark.parametrize('name', ['bm25', 'fusion:tiny', 'retreiver'])
def test_the_check_of_a_retriever_says_what_the_plan_would_say(name):
    kind, = [kind for kind, names in PARAMETERS.items() if 'retriever' in names]
    with pytest.raises(UsageError) as early: check_name(kind, name)
    with pytest.raises(UsageError) as late: retrieval_plan(retriever=name, limit=2)
    assert str(early.value) == str(late.value)


def test_a_dry_run_needs_no_key():
    check_name('verifiers', 'align:prompt:openai:gpt-4o', asking=False)
    with pytest.raises(ModelError, match=VENDOR_KEY): check_name('verifiers', 'align:prompt:openai:gpt-4o')
    check_name('models', 'openai:any?base_url=http://127.0.0.1:9/v1')


def test_defaults_pass_and_every_parameter_with_a_name_is_known():
    "A new parameter that holds names or a file is to be added to `options`."
    known = {*FILES, 'data'}.union(*PARAMETERS.values())
    texts = {name for exhibit in catalog() for name, value in parameters_of(exhibit).items()
             if value.strip("[]'\"").startswith(('tiny', 'openai', 'offline', 'embedded', 'sample', 'retriever', 'verifier'))}
    assert texts <= known, texts - known


@pytest.mark.parametrize('exhibit', [each for each in catalog() if each.plan], ids=lambda each: each.id)
def test_numbers_that_cannot_be_are_refused_while_the_plan_is_made(exhibit):
    known = parameters_of(exhibit)
    for name, wrong in {'seed': -1, 'draws': 0, 'temperature': -1, 'limit': 0, 'runs': 0, 'k': 0}.items():
        if name not in known: continue
        with pytest.raises(UsageError, match=name): plan_of(exhibit, {name: wrong})
