"""`factlab examples`: small files for the lessons, which the commands read as README.txt says."""
import shlex

import pytest

from factlab.cli.main import main
from factlab.core.core import DataError, UsageError
from factlab.data.datasets import read_frame
from factlab.data.examples import write_examples


def test_nothing_is_written_over_unasked(tmp_path, capsys):
    files = write_examples(tmp_path/'new'/'folder')
    assert main(['examples', str(tmp_path/'new'/'folder')]) == 0 and str(files[0]) in capsys.readouterr().out
    files[2].write_text('mine')
    files[3].unlink()
    with pytest.raises(UsageError, match=f'already holds {files[2].name}, '): write_examples(tmp_path/'new'/'folder')
    assert files[2].read_text() == 'mine' and not files[3].exists(), 'all or none'
    assert main(['examples', str(tmp_path/'new'/'folder'), '--force']) == 0 and files[2].read_text() != 'mine' and files[3].exists()
    with pytest.raises(DataError, match='is a file'): write_examples(files[0])


def test_the_examples_are_whole(tmp_path):
    frames = {file.stem: read_frame(file) for file in write_examples(tmp_path) if file.suffix == '.csv'}
    assert frames['summaries'].height == 30 and frames['summary_labels']['gold'].n_unique() == 2
    assert set(frames['summaries']['id']) == set(frames['summary_labels']['id']) == set(frames['other_tool']['id'])
    assert set(frames['judge_labels']['id']) < set(frames['judge_verdicts']['id'])
    assert set(frames['system_a']['id']) == set(frames['system_b']['id']) and frames['system_b']['predicted'].null_count() == 2


def test_what_the_page_says_works(tmp_path, monkeypatch, capsys):
    write_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = [shlex.split(line)[1:] for line in (tmp_path/'README.txt').read_text().splitlines() if line.startswith('factlab ')]
    assert [line[0] for line in lines] == ['check', 'score', 'judge', 'compare']
    for line in lines: assert main([*line, *['--verifier', 'cosine']*(line[0] == 'check')]) == 0
    shown = capsys.readouterr().out
    assert 'report.html' in shown and 'prediction-powered' in shown and 'system_a and system_b' in shown
