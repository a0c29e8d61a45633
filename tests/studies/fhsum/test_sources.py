"""From XEnt and FactCollect to a benchmark in one command, with descriptions of a live Wikidata that knows several bearers of a name."""
import json

import polars as pl
import pytest
from building.test_wikidata import serving
from conftest import real_data

from factlab.building import Patience
from factlab.building.wikidata import WikidataKnowledge
from factlab.cli.main import main
from factlab.core.core import DataError
from factlab.mixed_context.knowledge import KNOWLEDGE, KnowledgeIndex, as_knowledge
from factlab.mixed_context.labels import NONE
from factlab.runs.plan import Rows, Step, estimate, execute
from factlab.studies.fhsum.commands import construct, read_sources
from factlab.studies.fhsum.data_sets import read_factcollect

ITEMS = {  # in Wikidata's order, as labels and descriptions
    'Belfast': [('Belfast', 'city in Waldo County, Maine, United States of America'), ('Belfast', 'capital city of Northern Ireland')],
    'Porto': [('Porto', 'harbour city on the Douro')], 'Marie Curie': [('Marie Curie', 'physicist who discovered radium')],
    'Clara Schumann': [('Clara Schumann', 'German pianist and composer')]}
DOCUMENTS = ('Police in Northern Ireland say that {} met a crowd of people on item {}.', 'Schools of Maine heard {} speak about item {}.')


def wikidata(down=lambda name: False):
    "A server of Wikidata's form: wbsearchentities over ITEMS. Gives its address, and how often each name was asked for."
    def script(name: str, before: int) -> tuple[int, bytes, dict]:
        hits = [{'id': f'Q{at}', 'label': label, 'description': text, 'match': {'type': 'label', 'language': 'en', 'text': label}}
                for at, (label, text) in enumerate(ITEMS.get(name, ()))]
        body = json.dumps({'searchinfo': {'search': name}, 'search': hits, 'success': 1}).encode()
        return 503 if down(name) else 200, body, {}
    return serving(script)


@pytest.fixture
def factcollect(tmp_path):
    "A folder as FactGraph's scripts write it."
    folder = tmp_path/'processed_dataset'
    folder.mkdir()
    for split in ('train', 'test'):
        lines = [{'domain': 'xsum', 'source': 'qags', 'id_dataset': f'xsum_qags_{at}', 'id': f'{split}{at}', 'label': 'CORRECT',
                  'article': DOCUMENTS[at % 2].format(who, at), 'summary': f'{who} spoke about item {at} in Belfast.'}
                 for at in range(2) for who in ('Marie Curie', 'Clara Schumann')]
        for at, line in enumerate(lines): line['id'] = f'{split}{at}'
        lines.append(lines[0] | {'id': f'{split}9', 'label': 'INCORRECT', 'summary': 'Nobody spoke in Porto.'})
        (folder/f'{split}.json').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return folder


def test_factcollect_is_read_and_what_is_incorrect_is_no_source(factcollect, tmp_path):
    rows = read_factcollect(factcollect)
    assert rows['split'].value_counts(sort=True)['count'].to_list() == [5, 5] and rows['correct'].sum() == 8
    assert rows['id'][0] == 'factcollect-train0' and rows['label'].drop_nulls().unique().to_list() == [NONE]
    sources = read_sources(f'{factcollect},{factcollect}/test.json')
    assert sources.height == 15 and (sources['label'] == 'incorrect').sum() == 3
    with pytest.raises(DataError, match=r'no train\.json'): read_factcollect(tmp_path)
    (tmp_path/'test.json').write_text(json.dumps({'article': 'a', 'summary': 's', 'label': 'MAYBE'}) + '\n')
    with pytest.raises(DataError, match='expected CORRECT or INCORRECT'): read_factcollect(tmp_path/'test.json')


def test_xent_and_factcollect_are_a_benchmark_in_one_command(factcollect, tmp_path, capsys):
    real_data('entfa')
    out = tmp_path/'bench.jsonl'
    with wikidata() as (url, asked):
        sources = ['--summaries', f'xent,{factcollect}', '--knowledge', 'wikidata', '--endpoint', url]
        arguments = ['build', 'fhsum', *sources, '--paired', '--out', str(out)]
        assert main([*arguments, '--dry-run']) == 0 and not asked
        assert main(arguments) == 0
    rows = pl.read_ndjson(out, infer_schema_length=None)
    told = capsys.readouterr().out
    assert 'several entities bear' in told and rows.height >= 6 and set(rows['label'].value_counts()['count']) == {rows.height//3}
    assert not rows['source_id'].str.ends_with('9').any()  # nothing incorrect
    drops = pl.read_ndjson(tmp_path/'bench.drops.jsonl', infer_schema_length=None)
    assert (drops['reason'] == 'not a correct summary').sum() > 100  # XEnt's hallucinated ones


def test_the_document_says_which_belfast_is_meant_better_than_the_first_does(factcollect, tmp_path):
    with wikidata() as (url, _):
        built = construct(tmp_path/'b.jsonl', factcollect, 'wikidata', endpoint=url, paired=True).rows
        dropped = construct(tmp_path/'c.jsonl', factcollect, 'wikidata', endpoint=url, paired=True, drop_ambiguous=True).drops
    factual = built.filter(pl.col('label') == 'factual hallucination', entity='Belfast')
    assert factual.height and set(built.filter(entity='Belfast')['rivals'].list.len()) == {1}
    right = {'Northern Ireland': ITEMS['Belfast'][1][1], 'Maine': ITEMS['Belfast'][0][1]}
    meant = [next(text for place, text in right.items() if place in document) for document in factual['document']]
    assert factual['description'].to_list() == meant
    assert 'ambiguous name' in dropped.filter(entity='Belfast')['reason'].to_list()  # as the paper has it
    index = KnowledgeIndex(KNOWLEDGE.frame([{'entity': name, 'aliases': [], 'description': text, 'text': None}
                                            for name, text in ITEMS['Belfast']]))
    first = [index.knowledge['description'][index.rows_of('Belfast')[0]] for _ in meant]  # the first of the name
    assert sum(a == b for a, b in zip(first, meant, strict=True)) < len(meant)


def test_judges_are_given_what_a_live_wikidata_has(tmp_path):
    names, down = Rows('names', pl.DataFrame({'id': ['Belfast', 'Porto', 'Nowhere']})), {'Porto'}
    with wikidata(lambda name: name in down) as (url, asked):
        step = Step(WikidataKnowledge(url, patience=Patience(timeout=5, attempts=1, backoff=.01, give_up=9)), names)
        assert estimate(step, store=False).is_empty() and not asked
        first = execute(step, store=False)[step]
        assert first.select('id', 'status').rows() == [('Belfast', 'ok'), ('Belfast', 'ok'), ('Porto', 'failed'), ('Nowhere', 'ok')]
        down.clear()
        again = execute(step, store=False)[step]
        assert asked == {'Belfast': 1, 'Porto': 2, 'Nowhere': 1} and set(again['status']) == {'ok'}
    index = KnowledgeIndex(as_knowledge(again))
    document = 'Police in Northern Ireland were in the city.'
    assert [text for _, text in index.evidence('Belfast', document)] == ['Belfast is capital city of Northern Ireland.']
    assert len(index.evidence('Belfast')) == 2 and not index.evidence('Nowhere')
