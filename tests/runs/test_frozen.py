"A store and runs that an older factlab made (commit fb7755f): every answer is found, every run is read, every prediction is the same."
import json
from pathlib import Path

import pytest

FROZEN = Path(__file__).parents[1]/'frozen'


@pytest.mark.timeout(900)
def test_what_was_paid_for_answers_still(monkeypatch):
    from frozen import ask_everything
    monkeypatch.setenv('FACTLAB_PROGRESS', '0')
    # that factlab's verifier read whole evidence, as tiny?evidence=whole still does
    monkeypatch.setattr('factlab.verification.named_verifiers.read_decision', lambda folder: None)
    # its builds knew no rule of the source: what is built under other rules is another build
    rules = json.loads((FROZEN/'expected.json').read_text(encoding='utf-8'))['building']['rules']
    monkeypatch.setattr('factlab.building.rules.source_faults', lambda passage, claims: [])
    monkeypatch.setattr('factlab.building.generation.rules_digest', lambda: rules)
    monkeypatch.setattr(ask_everything, 'rules_digest', lambda: rules)
    monkeypatch.setattr('factlab.studies.final.localization.FEW', 0)  # it gave intervals for shares of few
    assert ask_everything.check(FROZEN) == []
