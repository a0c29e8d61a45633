"A store and runs that an older factlab made (commit fb7755f) answer everything: no key, no run id and no result has changed."
from pathlib import Path

import pytest

FROZEN = Path(__file__).parents[1]/'frozen'


@pytest.mark.timeout(900)
def test_what_was_paid_for_answers_still(monkeypatch):
    from frozen import ask_everything
    monkeypatch.setenv('FACTLAB_PROGRESS', '0')
    assert ask_everything.check(FROZEN) == []
