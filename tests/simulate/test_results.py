"""Summaries of a simulation, computed by hand."""

import polars as pl
import pytest

from icpe.report.simulation_sentences import headline
from icpe.simulate.results import band, quality_tenths, source_of
from icpe.simulate.settings import LoopSettings
from icpe.simulate.simulation import MEASURES, Simulation


def test_a_band_covers_the_seeds():
    rows = pl.DataFrame({"arm": ["b", "b", "a", "a"], "seed": [0, 1, 0, 1], "gini": [0.2, 0.6, 0.5, 0.5]})
    found = band(rows, "gini", ["arm"])
    assert found["arm"].to_list() == ["b", "a"]
    assert found.row(0)[1:] == pytest.approx((0.4, 0.2, 0.6, 0.08**0.5))
    assert found.row(1)[1:] == (0.5, 0.5, 0.5, 0.0)


def test_shares_of_the_niche_items_by_quality():
    # Twenty niche items in descending quality, shown 0, 1, … 19 times, and a head item that was shown 190 times.
    items = pl.DataFrame(
        {
            "arm": "normal",
            "seed": 0,
            "quality": [0.9, *(0.8 - 0.01 * place for place in range(20))],
            "head": [True] + [False] * 20,
            "shown": [190, *range(20)],
        }
    )
    found = quality_tenths(items)
    assert found["tenth"].to_list() == list(range(1, 11))
    assert found["share"].to_list() == pytest.approx([(37 - 4 * place) / 380 for place in range(10)])


def test_arms_that_must_be_equal_are_one_trajectory():
    assert source_of("icpe", 0.0, 3) == source_of("none", 0.5, 3) == source_of("none", 0.0, 3)
    assert source_of("icpe", 0.5, 3) != source_of("icpe", 1.0, 3) != source_of("icpe", 1.0, 4)
    assert source_of("icpe", 0.25, 3).name == "icpe-adoption-0.25-seed-3"


@pytest.mark.parametrize(
    ("of_icpe", "said"),
    [
        ({"all": 0.60, "niche": 0.66, "mixed": 0.60, "blockbuster": 0.55}, "users who like hits gain least."),
        ({"all": 0.40, "niche": 0.49, "mixed": 0.35, "blockbuster": 0.40}, "users with mixed tastes lose most."),
    ],
)
def test_the_headline_says_who_gains_least_or_loses_most(tmp_path, of_icpe, said):
    useful = {"icpe": of_icpe, "none": dict.fromkeys(of_icpe, 0.5), "oracle": dict.fromkeys(of_icpe, 0.9)}
    rows = [
        {"arm": arm, "adoption": 0.5, "seed": 0, "round": 3, "group": group, "log_gini": 0.5, "consumed_utility": value}
        for arm, groups in useful.items()
        for group, value in groups.items()
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / MEASURES)
    found = Simulation(tmp_path, list(useful), [0.0, 0.5], [0], LoopSettings(rounds=3))
    ((_, details),) = headline(found)
    assert details.endswith(said)
