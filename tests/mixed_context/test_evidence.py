"""Claims by rule, chunks, retrieval, and what is read of an answer about a piece of evidence."""
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import Letters

from factlab.core.core import UsageError
from factlab.mixed_context.evidence import (
    CONTRADICT,
    RELATION_PROMPT,
    SILENT,
    SUPPORT,
    UNREAD,
    AppositionExtractor,
    Finding,
    Piece,
    asked_relations,
    claim_label,
    document_pieces,
    knowledge_pieces,
    parse_relation,
    retrieve,
    source_verdict,
    token_chunks,
    verified_relations,
)
from factlab.mixed_context.knowledge import KNOWLEDGE, KnowledgeIndex
from factlab.mixed_context.labels import FACTUAL, LABELS, NON_FACTUAL, NONE
from factlab.models.interface import Response, ScriptedModel
from factlab.text.sentences import split_sentences

# --- claims by rule ---------------------------------------------------------------------------------------------------------

def split(*texts: str) -> list[list[str]]: return [found.value for found in AppositionExtractor().extract(texts)]


@pytest.mark.parametrize('text, claims', [
    ('A mill on the Danube, a river of Europe, burnt down.', ['A mill on the Danube burnt down.', 'The Danube is a river of Europe.']),
    ('The team plays in Lyon, a city of France.', ['The team plays in Lyon.', 'Lyon is a city of France.']),
    ('Angela Merkel, chancellor of Germany from 2005 to 2021, met Emmanuel Macron, an English footballer.',
     ['Angela Merkel met Emmanuel Macron.', 'Angela Merkel is chancellor of Germany from 2005 to 2021.',
      'Emmanuel Macron is an English footballer.']),
    ('The mayor of Lund, Ida Berg, was there.', ['The mayor of Lund, Ida Berg, was there.']),
    ('Tea, coffee and milk are sold in Lund.', ['Tea, coffee and milk are sold in Lund.']),
    ('The mill burnt down. The mill burnt down.', ['The mill burnt down.']), ('', [])])
def test_what_stands_beside_a_name_is_a_claim_of_its_own(text, claims):
    found, = split(text)
    assert found == claims


WORDS = st.lists(st.integers(1, 40).map(lambda size: ' '.join(['word']*size) + '.'), max_size=30)


@given(WORDS, st.integers(1, 50), st.integers(0, 20))
@settings(deadline=None)
def test_chunks_of_tokens_hold_every_sentence_in_order_and_are_no_longer(sentences, tokens, overlap):
    overlap = min(overlap, tokens - 1)
    numbered = [sentence.replace('word', f'w{at}') for at, sentence in enumerate(sentences)]
    chunks = token_chunks(numbered, tokens, overlap)
    sizes = [len(chunk.replace('.', ' .').split()) for chunk in chunks]
    assert all(0 < size <= tokens for size in sizes)
    if not overlap: assert ' '.join(chunks).replace(' .', '.') == ' '.join(numbered).replace(' .', '.')
    assert [*dict.fromkeys(word.strip('.') for chunk in chunks for word in chunk.split() if word != '.')] == [
        f'w{at}' for at in range(len(numbered))]


@given(st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_text_raises_and_no_word_is_made_up(texts):
    for text, claims in zip(texts, split(*texts), strict=True):
        known = {*re.findall(r'\w+', text.encode('utf-8', 'replace').decode().lower()), 'is', 'are'}
        assert all({*re.findall(r'\w+', claim.lower())} <= known for claim in claims)


# --- evidence ---------------------------------------------------------------------------------------------------------------

@given(st.lists(st.sampled_from(['The mill burnt down.', 'It was old!', 'Who saw it?', 'Ida Berg did.', 'Nobody else.']), max_size=9),
       st.integers(1, 5))
def test_chunks_hold_every_sentence_in_order(sentences, size):
    document = ' '.join(sentences)
    chunks = [piece.text for piece in document_pieces(document, size)]
    split = split_sentences(document)
    assert [' '.join(split[at:at + size]) for at in range(0, len(split), size)] == chunks or len(set(chunks)) < -(-len(split)//size)
    assert len(set(chunks)) == len(chunks) and ''.join(dict.fromkeys(split)) == ''.join(dict.fromkeys(
        each for chunk in chunks for each in split_sentences(chunk)))


def test_knowledge_comes_once_and_of_every_entity_of_a_name():
    base = KNOWLEDGE.frame([{'entity': 'Lund', 'aliases': ['Lunda'], 'description': 'a city', 'text': None},
                            {'entity': 'Lund', 'aliases': [], 'description': 'a village', 'text': None},
                            {'entity': 'Ystad', 'aliases': [], 'description': '', 'text': None}])
    found = knowledge_pieces(['Lunda', 'the Lund', 'Ystad', 'Paris'], KnowledgeIndex(base))
    assert found == [Piece('knowledge', 'Lund is a city.', 'Lund'), Piece('knowledge', 'Lund is a village.', 'Lund')]


@given(st.lists(st.tuples(st.text('abcde ', max_size=8), st.lists(st.text('abcde ', min_size=1, max_size=8), max_size=6)), max_size=5),
       st.integers(1, 4))
@settings(deadline=None)
def test_retrieval_is_the_argmax_of_the_cosines(searches, top_k):
    pools = [(query, [Piece('document', text) for text in texts]) for query, texts in searches]
    found = retrieve(pools, Letters(), top_k, False)
    for (query, pool), hits in zip(pools, found, strict=True):
        scores = [float(Letters().encode([piece.text])[0] @ Letters().encode([query])[0]) for piece in pool]
        assert [hit.rank for hit in hits] == list(range(1, min(top_k, len(pool)) + 1))
        np.testing.assert_allclose([hit.score for hit in hits], sorted(scores, reverse=True)[:top_k], atol=1e-6)
        assert all(hit.piece in pool for hit in hits)


def test_a_search_needs_room():
    with pytest.raises(UsageError, match='1 or more'): retrieve([], Letters(), 0)
    with pytest.raises(UsageError, match='1 or more'): document_pieces('A.', 0)
    with pytest.raises(UsageError, match='overlap must be smaller'): document_pieces('A.', tokens=20)


# --- relations --------------------------------------------------------------------------------------------------------------

RELEVANT = {True: ['Yes', 'yes.', '**Yes**', 'YES', '"Yes"', 'True'], False: ['No', 'no', '**No**', 'NO.', '[No]']}
RELATED = {SUPPORT: ['Support', 'supports', 'SUPPORTED', '**Support**', '"Support"', 'Entailed'],
           CONTRADICT: ['Contradict', 'contradicts.', 'Contradiction', '**Contradicted**', 'Refutes'],
           None: ['None', 'none.', 'N/A', 'Neutral', 'Not applicable']}
HEADS = ['{}: ', '**{}:** ', '- {}: ', '{} : ', '### {}: ', '"{}": ', '2. {}: ']


@given(relevant=st.booleans(), relation=st.sampled_from([SUPPORT, CONTRADICT, None]), data=st.data())
@settings(max_examples=400, deadline=None)
def test_relations_are_read_in_every_dress(relevant, relation, data):
    head, lines = data.draw(st.sampled_from(HEADS)), []
    if data.draw(st.booleans()): lines.append(head.format('Rationale') + 'It says so')
    lines.append(head.format('Relevant') + data.draw(st.sampled_from(RELEVANT[relevant])))
    lines.append(head.format('Relation') + data.draw(st.sampled_from(RELATED[relation])))
    text = '\n'.join(lines) + data.draw(st.sampled_from(['', '\n\nClaim: x\nEvidence: y\nAnswer:\nRelevant: No\nRelation: None']))
    found = parse_relation(text)
    assert found.ok and (found.value.relevant, found.value.relation) == (relevant, relation if relevant else None)


@pytest.mark.parametrize('answer', ['', '  ', 'Support', 'The evidence supports the claim.', 'Relevant: Yes', 'Relevant: maybe',
                                    'Relevant: Yes\nRelation: unsure', 'Relevant: Yes\nRelation: does not support',
                                    'Relevant: Yes / No\nRelation: Support / Contradict',
                                    'Relevant: Yes or No\nRelation: Support or Contradict',
                                    'Relation: Support | Contradict', 'Rationale: it is relevant and supports the claim',
                                    'Relevant:\nRelation:',
                                    'Relevant: Yes\nRelation: Not support'])
def test_no_relation_is_guessed(answer):
    found = parse_relation(answer)
    assert (found.value, found.status) == (None, 'unparsed') and found.reason


@given(st.lists(st.one_of(st.sampled_from(['Relevant', 'Relation', ':', ' ', '\n', 'Yes', 'No', 'Support', 'Contradict', '/', '*', '"', '{',
                                           'or', '\ud800', 'Rationale: ']), st.text(max_size=6)), max_size=14).map(''.join))
@settings(max_examples=500, deadline=None)
def test_no_answer_raises_and_no_relation_comes_from_a_text_without_it(text):
    found = parse_relation(text)
    words = {SUPPORT: 'support|entail', CONTRADICT: 'contradict|refut'}
    if found.ok and found.value.relation: assert re.search(words[found.value.relation], text, re.IGNORECASE)
    if found.ok and found.value.relevant is False: assert re.search('no|false|irrelevant|not|neutral|null|neither|n/a', text, re.IGNORECASE)


def test_the_prompts_own_examples_are_read_as_they_stand():
    blocks = RELATION_PROMPT.user.split('Answer:\n')[1:-1]
    read = [parse_relation(block.split('\n\n')[0]).value for block in blocks]
    assert [(each.relevant, each.relation) for each in read] == [(False, None), (True, SUPPORT), (True, CONTRADICT)]
    assert not parse_relation(RELATION_PROMPT.user.partition('\n\n')[0]).ok  # the form is no answer


def test_equal_pairs_are_asked_once_and_failures_stay():
    def answer(request): return Response.failed('down') if 'bad' in request.messages[0].content else 'Relevant: Yes\nRelation: Support'
    model = ScriptedModel('m', answer, '1')
    findings, responses = asked_relations([('e', 'c'), ('e', 'c'), ('bad', 'c')], model, False, seed=0, repeat=0)
    assert len(model.asked) == 2 and len(responses) == 3
    assert [(each.status, each.relation) for each in findings] == [('ok', SUPPORT), ('ok', SUPPORT), ('failed', None)]
    assert asked_relations([], model, False) == ([], [])


def test_a_verifier_says_support_contradict_or_nothing():
    class Fixed:
        name, identity = 'fixed', {}
        def probabilities(self, pairs, store=None):
            said = {'e': [.8, .1, .1], 'n': [.1, .8, .1], 'c': [.2, .2, .6], 'u': [.45, .35, .2]}
            return np.array([said[evidence] for evidence, _ in pairs])
    found = verified_relations([(each, 'x') for each in 'encu'], Fixed())
    assert [each.relation for each in found] == [SUPPORT, None, CONTRADICT, None]
    assert verified_relations([('u', 'x')], Fixed(), threshold=.4)[0].relation == SUPPORT


# --- labels of claims -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('document, knowledge', list(product((SUPPORT, CONTRADICT, SILENT, UNREAD), repeat=2)))
def test_labels_of_claims(document, knowledge):
    label = claim_label(document, knowledge)
    assert label in (*LABELS, None) and (label == NONE) == (document == SUPPORT)
    if document != SUPPORT and UNREAD in (document, knowledge): assert label is None
    elif document != SUPPORT: assert label == {SUPPORT: FACTUAL, CONTRADICT: NON_FACTUAL}.get(
        knowledge, NON_FACTUAL if document == CONTRADICT else None)
    silent = claim_label(document, knowledge, silence=NON_FACTUAL)
    assert silent == (NON_FACTUAL if document == knowledge == SILENT else label)


@given(st.lists(st.tuples(st.sampled_from(['ok', 'unparsed', 'failed']), st.sampled_from([SUPPORT, CONTRADICT, None])), max_size=5))
def test_the_first_decided_piece_speaks_for_its_source(pieces):
    findings = [Finding(None, relation if status == 'ok' else None, '', status) for status, relation in pieces]
    decided = [relation for status, relation in pieces if status == 'ok' and relation]
    expected = decided[0] if decided else UNREAD if any(status != 'ok' for status, _ in pieces) else SILENT
    assert source_verdict(findings) == expected
