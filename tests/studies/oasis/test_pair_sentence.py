"""What stands in the place of a figure of all pairs while there are two systems."""
import polars as pl
import pytest

from factlab.studies.oasis.tables import pair_sentence


def pair(p: float) -> pl.DataFrame: return pl.DataFrame({'first': ['a'], 'second': ['b'], 'p': [p]})


@pytest.mark.parametrize('p, said', [(.791, 'a and b do not differ beyond chance on 1,200 texts (McNemar’s test, exact: p = 0.791).'),
                                     (.05, 'do not differ beyond chance'), (.049, 'a and b differ beyond chance'), (1e-9, 'p < 0.001)')])
def test_two_systems_are_a_sentence(p, said): assert said in pair_sentence(pair(p), 'exact', 1200)


def test_one_system_is_compared_with_none(): assert pair_sentence(pair(.5).head(0), 'mid-p', 60).startswith('There is only one system')
