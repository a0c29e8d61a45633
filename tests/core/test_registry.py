"""One registry of names: the grammar, the hints, and names that another package brings to the command line."""
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factlab.core import registry
from factlab.core.core import ModelError, UsageError
from factlab.core.registry import Entry, Option, load_named, nearest, one_of, read_name, read_options, register, split_options, suggest

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    'test_models': (Entry('plain', lambda *given: given, 'one alone'),
                    Entry('hub', lambda *given: given, 'of a hub', 'ORG/NAME', like=r'\w+/\w+'),
                    Entry('open', lambda *given: given, 'behind an address', '[NAME]', like=r'gpt.*')),
    'test_verifiers': (Entry('nested', lambda *given: given, 'over another', 'VERIFIER', nested=True),
                       Entry('', lambda *given: given, 'a model', 'MODEL', also='test_models')),
    'test_encoders': (Entry('short', lambda *given: given, 'ships'),
                      Entry('', lambda *given: given, 'of a hub', 'ORG/NAME', like=r'.*/.*'))}
for kind, entries in KINDS.items(): register(kind, *entries)

targets = st.text('abcXYZ019._-/:', min_size=1).filter(lambda text: text.strip('/:'))
keys = st.text('abc_', min_size=1)
values = st.text('abc019.:/=', min_size=1)
options = st.dictionaries(keys, values, max_size=3)

def written(bare: str, given: dict) -> str: return bare + ('?' + '&'.join(f'{key}={value}' for key, value in given.items()))*bool(given)


@given(targets, options)
def test_what_is_written_is_read(target, given):
    name = written(f'hub:{target}', given)
    found = read_name('test_models', name)
    assert (found.text, found.entry.name, found.target, found.options) == (name, 'hub', target, given)
    assert load_named('test_models', name, 'more') == (name, target, given, 'more')
    assert read_name('test_models', found.text) == found


@given(targets, options)
def test_a_nested_name_keeps_its_options(target, given):
    inner = written(f'hub:{target}', given)
    found = read_name('test_verifiers', f'nested:{inner}')
    assert (found.target, found.options) == (inner, {})
    assert read_name('test_verifiers', inner).target == inner == read_name('test_verifiers', inner).text


@given(st.text('abcXYZ019._-', min_size=1), options)
def test_a_slash_is_read_as_a_colon_where_a_target_may_follow(target, given):
    name = written(f'hub/{target}', given)
    assert read_name('test_models', name).text == read_name('test_verifiers', name).text == written(f'hub:{target}', given)
    with pytest.raises(UsageError): read_name('test_models', f'plain/{target}')
    assert read_name('test_encoders', f'short/{target}').target == f'short/{target}'


@given(st.text())
def test_any_text_is_a_name_or_refused(text):
    for kind in KINDS:
        try: found = read_name(kind, text)
        except UsageError as error: assert repr(text) in str(error)
        else: assert read_name(kind, found.text) == found


@given(st.text('abcdefgh', min_size=4, max_size=12), st.integers(0, 11), options)
def test_a_name_with_a_letter_too_few_gets_the_whole_one_as_a_hint(name, at, given):
    assume(at < len(name))
    short = name[:at] + name[at + 1:]
    assume(short != name and nearest(short, ['plain', 'hub', 'open', name]) == name)
    registry._entries['test_models'][name] = Entry(name, print, '', '[X]')
    try:
        with pytest.raises(UsageError) as raised: read_name('test_models', written(short, given))
    finally: del registry._entries['test_models'][name]
    assert f'did you mean {written(name, given)!r}?' in str(raised.value)


@given(options, st.dictionaries(keys, st.integers(), max_size=4))
def test_options_are_read_or_refused(given, defaults):
    known = {key: Option(str.upper, default, f'about {key}') for key, default in defaults.items()}
    if set(given) <= set(known):
        assert read_options('n', given, known) == defaults | {key: value.upper() for key, value in given.items()}
        return
    with pytest.raises(UsageError) as raised: read_options('n', given, known)
    assert all(f'about {key}' in str(raised.value) for key in known)


def test_what_cannot_be_is_refused_with_what_there_is():
    for name, said in (('plain:x', 'nothing follows'), ('hub', 'write hub:ORG/NAME'), ('gpt-4', "mean 'open:gpt-4'"),
                       ('org/x', "mean 'hub:org/x'"), ('hub:x?y', 'name.option=value'), ('', 'Known: plain, hub:ORG/NAME, open.:NAME')):
        with pytest.raises(UsageError, match=said): read_name('test_models', name)
    assert suggest('bm52', ['bm25', 'fusion']) == "did you mean 'bm25'? Known: bm25, fusion" and suggest('x', []) == 'Known: none'
    assert [one_of(kind) for kind in ('models', 'matching_judges', 'data')] == ['model', 'matching judge', 'data set']
    assert split_options('x?a=1&b=') == ('x', {'a': '1', 'b': ''})
    register('test_models', Entry('gone', 'no_such_package_here:load'))
    with pytest.raises(ModelError, match='no_such_package_here'): load_named('test_models', 'gone')


# ---- names of another package --------------------------------------------------------------------------------------------------------

PACKAGE = '''
    """A package of somebody else's: a model that says Yes, and a verifier that supports everything."""
    import numpy as np
    from factlab.models.interface import ScriptedModel

    def load_parrot(name, target, options):
        def answer(request): return request.choices[0] if request.choices else options.get('says', target or 'Yes')
        return ScriptedModel(name, answer, revision='1')

    class Agreeing:
        def __init__(self, name): self.name, self.identity = name, {'verifier': 'agreeing'}
        def probabilities(self, pairs, store=None): return np.tile(np.array([.9, .1, 0], np.float32), (len(pairs), 1))

    def load_agreeing(name, target, options): return Agreeing(name)

    def load_tiny(name, target, options): raise AssertionError('a name of factlab stays its own')
'''
ENTRY_POINTS = '''
    [factlab.models]
    parrot = parrotlab:load_parrot
    tiny = parrotlab:load_tiny
    broken = parrotlab_gone:load

    [factlab.verifiers]
    agreeing = parrotlab:load_agreeing
'''

@pytest.fixture(scope='module')
def installed(tmp_path_factory):
    "A folder with a package as pip leaves it, and what says so to a command."
    place = tmp_path_factory.mktemp('site')
    info = place/'parrotlab-1.0.dist-info'
    info.mkdir()
    (place/'parrotlab.py').write_text(textwrap.dedent(PACKAGE))
    (info/'entry_points.txt').write_text(textwrap.dedent(ENTRY_POINTS))
    (info/'METADATA').write_text('Metadata-Version: 2.1\nName: parrotlab\nVersion: 1.0\n')
    return os.environ | {'PYTHONPATH': os.pathsep.join([str(ROOT), str(place)]), 'FACTLAB_HOME': str(place/'home')}

def said(environment, *arguments, code=0) -> str:
    program = 'import sys; from factlab.cli.main import main; sys.exit(main())'
    ran = subprocess.run([sys.executable, '-c', program, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_another_packages_verifier_is_reached_from_the_command_line(installed):
    told = said(installed, 'verify', 'Otters read newspapers.', '--corpus', 'sample', '--extractor', 'sentences', '--retriever', 'bm25',
                '--verifier', 'agreeing', '--json')
    assert '"verifier": "agreeing"' in told and '"p_ent": 0.8999' in told  # .9 as float32


def test_another_packages_model_is_reached_from_the_command_line(installed):
    told = said(installed, 'verify', 'Otters read newspapers.', '--corpus', 'sample', '--extractor', 'sentences', '--retriever', 'bm25',
                '--verifier', 'prompt:parrot:any?says=x', '--json')
    assert 'parrot:any' in told


def test_another_packages_names_are_listed_and_proposed(installed):
    told = said(installed, 'list', 'models')
    assert 'from parrotlab 1.0' in told and told.count('\ntiny ') == 1 and 'SmolLM2' in told
    program = 'from factlab.models.interface import load_model\nfor name in ("parrot", "parrot/x", "tiny", "broken", "parot"):\n' \
              '    try: print(load_model(name).name)\n    except Exception as error: print(type(error).__name__, error)'
    ran = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, env=installed, check=True).stdout.splitlines()
    assert ran[:3] == ['parrot', 'parrot:x', 'tiny'] and ran[3].startswith('ModelError') and 'parrotlab_gone' in ran[3]
    assert "did you mean 'parrot'" in ran[4]
