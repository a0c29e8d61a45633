"""`factlab build fhsum`, and the exhibit of the construction."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import polars as pl
import pytest
from misbehaving_server import MisbehavingServer, answer

from factlab.cli.main import main
from factlab.core.core import DataError, UsageError
from factlab.data.datasets import load
from factlab.mixed_context import LABELS
from factlab.reports.exhibits import find_exhibits, headline
from factlab.runs.plan import execute
from factlab.studies.fhsum.commands import construct, read_summaries, sample_sources, wanted_names
from factlab.studies.fhsum.construction import apposition_answers, construction_cells, construction_plan, coverage_of


@pytest.fixture
def files(tmp_path):
    lines = [
        {'document': f'A note on item {at}.', 'summary': f'{who} spoke about item {at} in Belfast.'}
        for at in range(3)
        for who in ('Marie Curie', 'Clara Schumann')
    ]
    known = {
        'Marie Curie': 'a physicist who discovered radium',
        'Clara Schumann': 'a German pianist',
        'Belfast': 'the capital of Northern Ireland',
        'Porto': 'a harbour on the Douro',
        'Alfred Nobel': 'the inventor of dynamite',
    }
    (tmp_path / 'summaries.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    (tmp_path / 'known.jsonl').write_text('\n'.join(json.dumps({'entity': name, 'description': text}) for name, text in known.items()))
    return tmp_path


def test_the_command_writes_rows_and_drops(files, capsys):
    arguments = [
        'build',
        'fhsum',
        '--summaries',
        files / 'summaries.jsonl',
        '--knowledge',
        files / 'known.jsonl',
        '--out',
        files / 'out' / 'bench.jsonl',
    ]
    assert main([*map(str, arguments)]) == 0
    assert '2 factual hallucination, 2 no hallucination, 2 non-factual hallucination' in capsys.readouterr().out
    rows = [json.loads(line) for line in (files / 'out' / 'bench.jsonl').read_text().splitlines()]
    assert {row['label'] for row in rows} == set(LABELS) and (files / 'out' / 'bench.drops.jsonl').is_file()
    assert all(
        row['summary'][: row['start']] + row['summary'][row['end'] :] in (files / 'summaries.jsonl').read_text()
        for row in rows
        if row['start']
    )
    before = (files / 'out' / 'bench.jsonl').read_bytes()
    assert main([*map(str, arguments)]) == 0 and (files / 'out' / 'bench.jsonl').read_bytes() == before


@pytest.mark.parametrize('summaries, known, words', [
    ([], 'Belfast', ('mine.jsonl is empty',)),
    (['It rained.', 'It snowed.'], 'Belfast', ('none of 2', 'no entity', '2', "'It rained.'", 'that name people')),
    (['Marie Curie spoke.'], 'Porto', ('none of 1', 'Marie Curie: no description', '--knowledge')),
    (['Belfast is old.'], 'Belfast', ('none of 1', 'no description of another meaning', '--max-cosine'))])
def test_a_build_without_a_row_says_why_and_writes_nothing(tmp_path, capsys, summaries, known, words):
    (tmp_path / 'mine.jsonl').write_text('\n'.join(json.dumps({'document': 'A note.', 'summary': text}) for text in summaries))
    (tmp_path / 'known.jsonl').write_text(json.dumps({'entity': known, 'description': 'a harbour'}))
    arguments = ['--summaries', tmp_path / 'mine.jsonl', '--knowledge', tmp_path / 'known.jsonl', '--out', tmp_path / 'made.jsonl']
    assert main(['build', 'fhsum', *map(str, arguments)]) == 3
    errors = capsys.readouterr().err
    assert all(word in errors for word in words), errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ['known.jsonl', 'mine.jsonl']


def test_a_dry_run_counts_and_writes_nothing(files, capsys):
    for knowledge, said in (('tiny', 'fhsum/describe_entity'), ('wikidata', 'wikidata.org')):
        assert (
            main(
                [
                    'build',
                    'fhsum',
                    '--summaries',
                    str(files / 'summaries.jsonl'),
                    '--knowledge',
                    knowledge,
                    '--out',
                    str(files / 'x.jsonl'),
                    '--dry-run',
                ]
            )
            == 0
        )
        told = capsys.readouterr().out
        assert said in told and (knowledge != 'wikidata' or told.split('\n')[2].split()[-3:] == ['3', '0', '3'])  # names, kept, calls
    assert not list(files.glob('x*')) and len(wanted_names(read_summaries(files / 'summaries.jsonl'))) == 3


def test_wrong_spans_are_removed_and_bad_rows_named(tmp_path):
    path = tmp_path / 'own.jsonl'
    path.write_text(json.dumps({'text': 'd', 'summary': 'Ann met Bob in Oslo.', 'wrong_spans': [{'start': 15, 'end': 18, 'text': 'Oslo'}]}))
    assert read_summaries(path)['wrong_spans'].to_list() == [[{'start': 15, 'end': 19}]]
    path.write_text('{"text": 4, "summary": "x"}\n{"text": "d", "summary": "x", "wrong_spans": [{"start": 0, "end": 1, "text": "y"}]}')
    with pytest.raises(DataError, match='line 1: document is int.*line 2: the span'):
        read_summaries(path)
    (tmp_path/'own.doc').write_text('a')
    with pytest.raises(UsageError, match='expected a file that ends in'):
        read_summaries(tmp_path / 'own.doc')


def test_refusals(files):
    with pytest.raises(UsageError, match='ends in .jsonl'):
        construct(files / 'x.csv', files / 'summaries.jsonl', str(files / 'known.jsonl'))
    with pytest.raises(DataError, match='there is no file'):
        construct(files / 'x.jsonl', files / 'summaries.jsonl', str(files / 'none.jsonl'))
    (files / 'empty.jsonl').write_text('')
    with pytest.raises(UsageError, match='knowledge base is empty'):
        construct(files / 'x.jsonl', files / 'summaries.jsonl', str(files / 'empty.jsonl'))
    assert not list(files.glob('x*'))


def test_an_endpoint_that_answers_web_pages_is_named(files):
    class Portal(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'<!DOCTYPE html><p>Please log in.')

        def log_message(self, *_): pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), Portal)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(DataError, match='of 3 names was found.*answered with a web page'):
            endpoint = f'http://127.0.0.1:{server.server_port}/api.php'
            construct(files / 'x.jsonl', files / 'summaries.jsonl', 'wikidata', endpoint=endpoint)
    finally:
        server.shutdown()
        server.server_close()
    assert not (files / 'x.jsonl').exists()


def test_a_name_that_a_line_end_divides_is_asked_for_once(tmp_path):
    path = tmp_path / 'own.jsonl'
    lines = [{'document': f'd {at}', 'summary': f'Marie{space}Curie spoke on Monday.'} for at, space in enumerate(' \n')]
    path.write_text('\n'.join(map(json.dumps, lines)))
    assert wanted_names(read_summaries(path)) == ['Marie Curie']


def test_the_sample_is_built_from_correct_summaries_alone():
    sample, sources = load('fhsum-sample'), sample_sources()
    injected = sample.filter(kind='injected')
    assert set(sources['id']) == set(sample.filter(pl.col('label') == 'no hallucination')['id']) | set(injected['id'])
    assert sources['wrong_spans'].is_not_null().sum() == injected.height


def test_the_exhibit_restores_every_summary_and_covers_what_it_should():
    sources, knowledge = sample_sources(), load('fhsum-knowledge')
    plan = construction_plan()
    cells = construction_cells(plan, execute(plan))
    assert cells.filter(row='Rows', column='Source summary restored')['measured'].item() == 1
    assert cells.filter(column='Entities found')['published'].item() == 0.359
    assert (
        0
        < coverage_of(sources, knowledge).estimate
        < 1
        == coverage_of(
            sources.head(2), knowledge.vstack(knowledge.head(1).with_columns(aliases=pl.Series([wanted_all(sources.head(2))])))
        ).estimate
    )
    guess = cells.filter(row='Baseline: apposition between commas', column='Macro-F1')['measured'].item()
    assert 1 / 3 < guess < 2 / 3  # it can tell two of three labels apart
    noticed = cells.filter(column='Balanced accuracy of hallucinated', row='Baseline: apposition between commas')
    assert noticed['measured'].item() > 0.8 and noticed['low'].item() > 0.7  # README warns of it
    guesses = cells.filter(pl.col('column').is_in(['Macro-F1', 'Balanced accuracy of hallucinated']))
    assert set(guesses['status']) == {'baseline'} and 'difference' not in set(cells['kind'])
    checks = cells.filter(pl.col('column').is_in(['Source summary restored', 'Description matches the entity (by rule)']))
    assert checks['status'].to_list() == ['illustrated'] * 2 and checks['low'].null_count() == 2  # they hold by construction
    shown = headline(*find_exhibits(['fhsum/construction']), cells)
    assert (shown['column'], shown['published']) == ('Entities found', 0.359)  # no giveaway stands for the whole
    assert apposition_answers(pl.DataFrame({'summary': ['It fell.']})).to_list() == ['no hallucination']


def wanted_all(rows):
    from factlab.building.injection import correct_summaries
    from factlab.mixed_context import mentions

    return [mention.text for found in mentions(correct_summaries(rows)[0]['summary'].to_list()) for mention in found]


def test_a_model_describes_what_a_dry_run_counted(files, capsys):
    said = json.dumps({'ambiguous': False, 'known': True, 'description': 'a thing of some fame'})
    with MisbehavingServer(lambda call: answer(said)) as server:
        model = f'openai:any?base_url={server.url}'
        told = construct(files / 'b.jsonl', files / 'summaries.jsonl', model, dry_run=True).estimate
        assert not server.calls
        with pytest.raises(DataError, match='no summary has a name'):
            path = files / 'plain.jsonl'
            path.write_text(json.dumps({'document': 'A note.', 'summary': 'It rained.'}))
            construct(files / 'b.jsonl', path, model)
        with pytest.raises(DataError, match='no description of another meaning'):  # all are described in the same words
            construct(files / 'b.jsonl', files / 'summaries.jsonl', model, paired=True)
        assert told['calls'].sum() == len(server.calls) == 6  # three names, each twice
    assert (files / 'b.knowledge.jsonl').is_file() and not (files / 'b.jsonl').exists()
