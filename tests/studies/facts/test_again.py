"""A second run of `factlab facts`: the same bytes from the store, and nothing that computes is loaded."""
import json
import subprocess
import sys

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.models.transformers_backend import _for_processors_alone

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
