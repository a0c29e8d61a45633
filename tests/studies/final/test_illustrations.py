"""FINAL's illustrations on a scripted detector: which example is chosen, what its boxes and links are."""
import pytest

from factlab.core.core import UsageError
from factlab.data.datasets import load_sample
from factlab.models.interface import ScriptedModel
from factlab.runs.plan import execute
from factlab.studies.final.example import clauses, detector_answer, scripted_parts
from factlab.studies.final.illustrations import (
    fact_boxes,
    illustration_plan,
    known_example,
    match_boxes,
    pipeline_example,
    protocol_example,
    representations,
)


@pytest.fixture
def shown(home):
    "Gives an illustration's plan, of a scripted model, and what its steps gave."
    def shown(exhibit: str, model: str = 'detector', answer=None, **chosen):
        loaded = scripted_parts() | ({model: ScriptedModel(model, answer, revision='1')} if answer else {})
        plan = illustration_plan(exhibit, models=[model], loaded=loaded, **{'judge': 'judge', 'limit': 4} | chosen)
        return plan, execute(plan, store=False)
    return shown


def test_the_protocol_is_shown_where_there_is_a_match_and_a_miss(shown):
    documents = {document['id']: document for document in load_sample().to_dicts()}
    def answer(request):  # a detector that knows one error of the third test document alone
        known = documents['s11']
        found = known['summary'] in request.messages[0].content
        return f'A. {known["inconsistencies"][1]["paraphrase"]}' if found else 'A. Something is wrong.'
    example = protocol_example(*shown('final/fig3', 'some', answer))
    assert example['id'] == 's11' and example['matched'] == [1]
    assert example['predicted'] == [documents['s11']['inconsistencies'][1]['paraphrase']]
    boxes, links = match_boxes(example['predicted'], example['gold'], example['matched'])
    assert boxes['tag'].to_list() == ['match', 'missed', 'found'] and links.rows() == [('A', 'B')]


def test_boxes_of_an_answer_that_could_not_be_read():
    boxes, links = match_boxes(None, ['one'], None)
    assert boxes.select('side', 'tag').rows() == [('right', 'missed')] and links.is_empty()


def test_the_known_example_is_matched_as_it_must_be(shown):
    example = known_example(*shown('final/fig10'))
    document = load_sample().filter(id=example['id']).to_dicts()[0]
    assert example['matched'] == [*range(1, len(example['gold'])), None, 0] and len(document['inconsistencies']) >= 3


def test_the_pipeline_takes_a_summary_apart(shown):
    example = pipeline_example(*shown('final/fig9', limit=1))
    document = load_sample().filter(split='test').to_dicts()[0]
    assert example['id'] == document['id'] and example['facts'] == clauses(document['summary'])
    errors = [sum(error['span'] in fact for error in document['inconsistencies']) for fact in example['facts']]
    assert [len(found) for found in example['found']] == errors
    boxes, links = fact_boxes(example)
    assert links.height == sum(map(len, example['found'])) and set(boxes.filter(side='right')['tag']) == {'kept'}


def test_of_equal_descriptions_as_many_are_kept_as_the_merged_list_holds():
    example = {'facts': ['1', '2', '3', '4'], 'found': [['1. a', 'b'], ['b'], None, []], 'merged': ['a', 'b']}
    tags = fact_boxes(example)[0]['tag'].to_list()
    assert tags == ['inconsistent', 'inconsistent', 'unparsed', 'consistent', 'kept', 'kept', 'merged away']
    assert fact_boxes(example | {'merged': None})[0].filter(side='right')['tag'].to_list() == [None]*3


def test_without_an_error_there_is_no_example(shown, tmp_path):
    path = tmp_path/'mine.jsonl'
    path.write_text('{"text": "The bridge opened.", "summary": "It opened.", "gold": [], "split": "test"}')
    for exhibit in ('final/fig3', 'final/fig9'):
        with pytest.raises(UsageError, match='no inconsistent summary'): shown(exhibit, data=str(path))


def test_representations_of_one_summary(shown):
    document, frame = representations(*shown('final/table1'))
    errors, facts = document['inconsistencies'], clauses(document['summary'])
    count = dict(frame.group_by('representation').len().iter_rows())
    assert count['Spans'] == len(errors) == 3 and count['Atomic facts'] == count['QA pairs'] == len(facts)
    assert count['Descriptions'] == len(errors) + len(errors) + 1  # the sample's, and the detector's with its false alarm
    flagged = frame.filter(representation='Atomic facts')['inconsistent'].to_list()
    assert flagged == [any(error['span'] in fact for error in errors) for fact in facts]
    with pytest.raises(UsageError, match="no document 'nobody'"): shown('final/table1', example='nobody')


def test_questions_that_are_too_few_say_nothing(shown):
    def answer(request): return '- Who? They.' if request.label == 'final/questions' else detector_answer(load_sample().to_dicts(), request)
    _, frame = representations(*shown('final/table1', 'short', answer))
    assert frame.filter(representation='QA pairs')['inconsistent'].to_list() == [None]
