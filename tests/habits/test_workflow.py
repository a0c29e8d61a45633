"""The workflow that others' CI reads runs what ours runs, and asks for no secret."""
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_the_workflow_runs_our_ci_within_its_time_and_without_secrets():
    text = (ROOT/'.github'/'workflows'/'ci.yml').read_text(encoding='utf-8')
    job, = yaml.safe_load(text)['jobs'].values()
    assert job['steps'][-1]['run'] == 'bash .ci/run' and (ROOT/'.ci'/'run').is_file()
    assert job['timeout-minutes'] == 90 and 'secrets' not in text.replace('no secrets', '')
    assert any(step.get('with', {}).get('python-version') == '3.11' for step in job['steps'])
