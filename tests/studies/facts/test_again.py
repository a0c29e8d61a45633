"""A second run of `factlab facts`: the same bytes from the store, and nothing that computes is loaded."""
import json
import subprocess
import sys

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.models.transformers_backend import _for_processors_alone
from factlab.studies.facts.study import FactsStudy, study_beside
from factlab.verification.tiny_verifier import TinyVerifier

AGAIN = '''
import sys
from factlab.cli.main import parser
from factlab.cli.output import run_command
assert run_command(parser(), sys.argv[1:]) == 0
print('loaded:', *(name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules))
'''


def test_a_run_from_the_store_loads_no_model(tmp_path, capsys):
    row = {'request_id': 'a', 'document': 'The mill opened in 1901. Its wheel is of wood.', 'request': 'When did the mill open?'}
    said = {'short': 'The mill opened in 1901.', 'long': f'The mill, {"which is the oldest of all mills by the river, "*4}opened in 1901.'}
    rows = [row | {'responder': name, 'response': text} for name, text in said.items()]
    (tmp_path/'answers.jsonl').write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
    given = ['facts', '--judges', 'embedded', 'words', '--responses', str(tmp_path/'answers.jsonl')]
    assert run_command(parser(), [*given, '--out', str(tmp_path/'first.csv')]) == 0
    again = subprocess.run([sys.executable, '-c', AGAIN, *given, '--out', str(tmp_path/'second.csv')], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert (tmp_path/'second.csv').read_bytes() == (tmp_path/'first.csv').read_bytes()
    loaded = again.stdout.rpartition('loaded:')[2].split()
    assert set(loaded) <= (set() if _for_processors_alone() else {'torch'})  # which alone knows whether there is another device


def test_judges_of_a_study_read_each_pair_once(monkeypatch):
    "Templates and the development split share it; the verdicts are those of judges that remember nothing."
    asked = []
    real = TinyVerifier.probabilities
    monkeypatch.setattr(TinyVerifier, 'probabilities', lambda self, asks, store=None: asked.append((*asks,)) or real(self, asks, store))
    def study(): return FactsStudy(judges=['embedded', 'words'], templates=['response', 'span'], split='dev', limit=1, eligibility='none')
    shared = study()
    found = [shared.judgements(), study_beside(shared, templates=['span']).judgements()]
    batches = [batch for batch in asked if batch]
    assert len(batches) == 1  # every passage of one reading
    alone = []
    for template in ('response', 'span'):
        alone.append(study_beside(study(), templates=[template]).judgements())
    assert found[1].equals(alone[1])
    chosen = found[0].select('judge', 'template').unique()
    each = {name: frame for frame in alone for name in frame['template'].unique()}
    for judge, template in chosen.iter_rows():
        assert found[0].filter(judge=judge).equals(each[template].filter(judge=judge))
