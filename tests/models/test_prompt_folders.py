"""A study's prompts as files: what is written is read again, and what cannot be meant is refused by name."""
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core.core import DataError, UsageError
from factlab.core.papers import contributed
from factlab.models.prompt_folders import export_prompts, folder_prompts, placeholders
from factlab.models.prompts import Prompt
from factlab.studies import base

OURS = Prompt('demo/detect', 3, 'Text: {text}\nFact: {fact}\nAnswer {{"ok": true}}.', ('text', 'fact'), system='Be brief: {fact}',
              example_answer='{"ok": true}', trusted=('fact',))
PLAIN = Prompt('demo/say', 1, 'Yes or no?', ())


@given(st.text(st.sampled_from('{}ab \n\\')))
def test_placeholders_are_what_a_prompt_fills(template):
    filled = Prompt('p', 1, template + ' {a}', ('a',)).render(a='\N{SNOWMAN}')[0].content
    assert (filled.count('\N{SNOWMAN}') > 1) == ('a' in placeholders(template))


def test_what_is_written_is_read(tmp_path):
    files = export_prompts([OURS, PLAIN], tmp_path/'new'/'folder', 'demo')
    assert sorted(file.name for file in files) == ['README.md', 'detect.system.txt', 'detect.txt', 'say.txt']
    read = folder_prompts(tmp_path/'new'/'folder', [OURS, PLAIN])
    for ours in (OURS, PLAIN):
        assert read[ours.name].sha256 == ours.sha256 and read[ours.name].source == 'yours'
        assert (read[ours.name].version, read[ours.name].example_answer, read[ours.name].trusted) == (
            ours.version, ours.example_answer, ours.trusted)
    page = (tmp_path/'new'/'folder'/'README.md').read_text(encoding='utf-8')
    assert '`{text}`, `{fact}`' in page and '    {"ok": true}' in page and 'Placeholders: none' in page


def test_nothing_is_overwritten(tmp_path):
    (tmp_path/'say.txt').write_text('mine', encoding='utf-8')
    with pytest.raises(UsageError, match=r'already holds say\.txt'): export_prompts([OURS, PLAIN], tmp_path, 'demo')
    assert [file.name for file in tmp_path.iterdir()] == ['say.txt']
    with pytest.raises(DataError, match='is a file'): export_prompts([OURS], tmp_path/'say.txt', 'demo')
    whole = export_prompts([OURS, PLAIN], tmp_path/'stopped', 'demo')
    whole[0].unlink()
    assert export_prompts([OURS, PLAIN], tmp_path/'stopped', 'demo') == whole  # stopped midway, it goes on


@pytest.mark.parametrize('raw', [b'\xef\xbb\xbf{text} and {fact}\r\n', '{text} and {fact}\n'.encode('utf-16')])
def test_files_as_editors_save_them(raw, tmp_path):
    (tmp_path/'detect.txt').write_bytes(raw)
    (tmp_path/'notes.md').write_text('{anything}', encoding='utf-8')
    (tmp_path/'.detect.txt').write_text('a copy that an editor keeps', encoding='utf-8')
    found = folder_prompts(tmp_path, [OURS, PLAIN])
    assert list(found) == ['demo/detect'] and found['demo/detect'].system == OURS.system
    assert found['demo/detect'].user == '{text} and {fact}\n'


@pytest.mark.parametrize('name, text, said', [
    ('detect.txt', 'Is {text} so?', None),  # the system message shows the fact
    ('detect.txt', 'Is {fact} so?', r'detect\.txt lacks the placeholder \{text\}'),
    ('detect.txt', '{text} {fact} {claim}', r'the placeholder \{claim\}, and the prompt demo/detect is given'),
    ('detect.txt', '{text} {{fact}} {{claim}}', None),
    ('detect.system.txt', 'You know {claims}.', r'detect\.system\.txt has the placeholder \{claims\}'),
    ('say.txt', ' \n', 'is empty'),
    ('detects.txt', '{text} {fact}', "did you mean 'detect'"),
    ('say.txt', b'\xff\xfe\xfd', None),
])
def test_what_cannot_be_meant(name, text, said, tmp_path):
    (tmp_path/name).write_bytes(text if isinstance(text, bytes) else text.encode())
    if isinstance(text, bytes):
        with pytest.raises(DataError, match='Save the file as UTF-8'): folder_prompts(tmp_path, [OURS, PLAIN])
    elif said:
        with pytest.raises(UsageError, match=said): folder_prompts(tmp_path, [OURS, PLAIN])
    else: assert folder_prompts(tmp_path, [OURS, PLAIN])


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(UsageError, match='there is no folder'): folder_prompts(tmp_path/'no', [OURS])
    with pytest.raises(UsageError, match='holds no prompt'): folder_prompts(tmp_path, [OURS])


@dataclass(frozen=True)
class Demo(base.Settings):
    PROMPTS = (OURS, PLAIN)
    PUBLISHED = {'demo/say': lambda: Prompt('demo/say', 1, 'Say!', (), source='paper')}
    PRINTED = {'demo/detect': 'Appendix Z'}


def test_settings_give_the_wording_that_was_asked_for(tmp_path):
    assert Demo().worded(OURS) is OURS
    assert Demo(prompts='paper').worded(PLAIN).user == 'Say!'
    with pytest.raises(UsageError, match=r'no file of the prompt demo/detect; the paper prints it in Appendix Z.*detect\.txt'):
        Demo(prompts='paper').worded(OURS)
    (tmp_path/'say.txt').write_text('Speak!', encoding='utf-8')
    mine = Demo(prompts=str(tmp_path))
    assert mine.worded(PLAIN).user == 'Speak!' and mine.worded(OURS) is OURS
    with pytest.raises(UsageError, match='there is no folder'): Demo(prompts='papers')


@pytest.mark.parametrize('study', sorted(contributed('study')))
def test_each_study_writes_what_it_reads(study, tmp_path):
    prompts = contributed('study')[study].Settings.PROMPTS
    if not prompts: pytest.skip('this study words no prompt yet')
    export_prompts(prompts, tmp_path/study, study)
    read = folder_prompts(tmp_path/study, prompts)
    assert {name: prompt.sha256 for name, prompt in read.items()} == {each.name: each.sha256 for each in prompts}
