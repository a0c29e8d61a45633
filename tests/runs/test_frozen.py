"A store and runs that an older factlab made (commit fb7755f): every answer is found, every run is read, every prediction is the same."
from pathlib import Path

import pytest

FROZEN = Path(__file__).parents[1]/'frozen'


@pytest.mark.timeout(900)
def test_what_was_paid_for_answers_still(monkeypatch):
    from frozen import ask_everything
    monkeypatch.setenv('FACTLAB_PROGRESS', '0')
    # that factlab's verifier read whole evidence, as tiny?evidence=whole still does
    monkeypatch.setattr('factlab.verification.nli.read_decision', lambda folder: None)
    assert ask_everything.check(FROZEN) == []
