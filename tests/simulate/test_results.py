"""Summaries of a simulation, computed by hand."""

import polars as pl
import pytest

from icpe.simulate.results import band, quality_tenths, source_of


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
