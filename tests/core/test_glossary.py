"""The glossary's file, its page, and the tooltips of tables: one and the same sentence."""
import json
from pathlib import Path

import pytest

from factlab.core.glossary import glossary, glossary_table, meaning, tooltip
from factlab.reports.tables import text_table

PAGE = Path(__file__).resolve().parents[2]/'nbs'/'glossary.ipynb'


def test_the_page_has_the_words_of_the_file_and_no_others():
    groups = dict.fromkeys(word.group for word in glossary())
    shown = [''.join(cell['source']) for cell in json.loads(PAGE.read_text(encoding='utf-8'))['cells']]
    assert shown[1:] == [f'## {group}\n\n{glossary_table(group)}' for group in groups], 'make its cells anew by glossary_table'


@pytest.mark.parametrize(('head', 'words'), [('tiny F1', 'precision, recall, F1'), ('balanced_accuracy', 'balanced accuracy'),
    ('Recall (%)', 'precision, recall, F1'), ("Cohen's κ", 'kappa, alpha'), ('published', 'printed'), ('n', 'n'),
    ('Summaries P (%)', 'precision, recall, F1'), ('p', 'p'), ('P(True)', 'P(True)')])
def test_the_head_of_a_column_finds_its_word(head, words): assert meaning(head).words == words


@pytest.mark.parametrize('head', ['', ' ', 'AF1', 'in fact', 'no such word', '()', 'F1F1'])
def test_what_the_glossary_does_not_have_gets_no_tooltip(head): assert meaning(head) is None and tooltip(head) == ''


def test_a_table_says_what_its_heads_mean_in_html_alone():
    view = text_table(('Verifier', 'Recall "<b>', 'recall'), [('mpnet', '1', '2')])
    assert view.html.count(' title="') == 2 and meaning('recall').said in view.html and meaning('verifier').said in view.html
    assert '<b>' not in view.html and meaning('recall').said not in view.markdown + view.text
