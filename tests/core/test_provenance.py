"""Digests of code: what changes a number changes them, and what does not leaves them alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factlab.core import provenance
from factlab.core.core import project_dir
from factlab.core.provenance import code_digest, definitions, notebook_code, plain_code, reached

SOURCE = '''"""A module."""
from factlab.measures.stats import wilson

LIMIT = 3  # of rows

@staticmethod
def first(x):  # a comment
    "What it does."
    def inner():
        """Inside."""
        return '# not a comment', f"{x} # neither"
    return inner()

class Second:
    "A class."
    field: int = LIMIT
    def method(self): return first(self.field) + wilson()
'''


@given(st.text(alphabet=st.characters(blacklist_categories=['Cs', 'Cc'], blacklist_characters='"\\\\'), max_size=20))
def test_comments_docstrings_and_spaces_do_not_count(words):
    other = SOURCE.replace('(x):  # a comment', f'(x):  # {words}').replace('"A class."', f'"{words}"')
    other = other.replace('"""Inside."""', f"'''x{words.replace(chr(39), '')}'''")
    assert plain_code(other.replace('LIMIT = 3', 'LIMIT   =\t3')) == plain_code(SOURCE)


@pytest.mark.parametrize('old, new', [
    ('LIMIT = 3', 'LIMIT = 4'), ("'# not a comment'", "'# a comment'"), ('{x} # neither', '{x} # both'), ('first(self', 'inner(self'),
    ('@staticmethod', '@classmethod')])
def test_code_counts(old, new):
    assert SOURCE.count(old) == 1 and plain_code(SOURCE.replace(old, new)) != plain_code(SOURCE)


def test_definitions_and_what_they_use():
    found = definitions(SOURCE, 'factlab')
    assert set(found) == {'', 'LIMIT', 'first', 'Second'}
    assert set(found['Second'].uses) == {('', 'LIMIT'), ('', 'first'), ('factlab.measures.stats', 'wilson')}
    assert found['first'].code.startswith('@staticmethod') and not found['LIMIT'].uses
    assert definitions('from .core import digest\nx = digest(1)', 'factlab.core')['x'].uses == (('factlab.core.core', 'digest'),)
    inside = definitions('def f():\n    from .stats import wilson\n    return wilson()', 'factlab.measures')
    assert inside['f'].uses == (('factlab.measures.stats', 'wilson'),)


CODE = 'from factlab.audit.recomputed import recomputed_cells\nrecomputed_cells("final/table6")'

@pytest.mark.parametrize('module, old, new, changed', [
    ('audit.checks', 'return 2*p*r/(p + r)', 'return p*r/(p + r)', True),
    ('audit.checks', 'All F1 scores that', 'Every F1 score that', False),
    ('audit.checks', 'Z95 = NormalDist()', 'Z95 = 1 + NormalDist()', True),
    ('audit.report', 'Every printed number', 'Each printed number', False),
    ('reports.tables', 'SIGNIFICANT = .05', 'SIGNIFICANT = .01', False)])
def test_the_digest_follows_what_the_code_reaches(monkeypatch, module, old, new, changed):
    "A library with one definition changed, in memory."
    before, read = code_digest(CODE), provenance._module.__wrapped__
    def other(name):
        if name != f'factlab.{module}': return read(name)
        source = provenance._file(name).read_text(encoding='utf-8').replace(old, new)
        return definitions(source, name.rpartition('.')[0])
    assert old in provenance._file(f'factlab.{module}').read_text(encoding='utf-8') or not changed
    monkeypatch.setattr(provenance, '_module', other)
    assert (code_digest(CODE) != before) == changed


NOTEBOOKS = sorted((project_dir()/'nbs'/'papers').rglob('*.ipynb'))

@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: f'{path.parent.name}/{path.stem}')
def test_every_notebook_has_a_digest_that_its_parameters_do_not_change(path, tmp_path):
    code, text = notebook_code(path), path.read_text(encoding='utf-8')
    (tmp_path/'other.ipynb').write_text(text.replace('out = None', 'out = 1 '), encoding='utf-8')
    assert code_digest(code) == code_digest(notebook_code(tmp_path/'other.ipynb')) and reached(code)
    assert not {module.split('.')[1] for module, _ in reached(code)} & set(provenance.APART)
