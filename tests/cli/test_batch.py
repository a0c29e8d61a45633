"""`--batch` on the command line reaches the models, and ends with the command."""
import os

import pytest

from factlab.cli.main import parser
from factlab.cli.output import run_command
from factlab.models.openai_backend import load_openai

COMMANDS = [['reproduce', '--batch'], ['build', 'oasis', '--texts', 'x', '--model', 'tiny', '--out', 'y', '--batch'],
            ['build', 'fhsum', '--out', 'y', '--batch']]


@pytest.mark.parametrize('words', COMMANDS)
def test_batch_holds_for_the_command_alone(words, monkeypatch):
    monkeypatch.delenv('FACTLAB_BATCH', raising=False)
    model = load_openai('openai:any', 'any', {'base_url': 'http://127.0.0.1:9/v1'})
    grammar, seen = parser(), []
    given = grammar.parse_args(words)
    given.run = lambda arguments: seen.append(model.batches) or 0
    monkeypatch.setattr(grammar, 'parse_args', lambda arguments: given)
    assert run_command(grammar, words) == 0 and seen == [True]
    assert not model.batches and 'FACTLAB_BATCH' not in os.environ
