"""Figures of a log against hand computation and their definitions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icpe import Interactions, describe
from icpe.data.popularity import decile_shares, gini, head_mask, lorenz

COUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60).map(np.array)


def test_by_hand():
    """Items 1 to 5 with 4, 1, 1, 1, 1 interactions of 4 users; one row is there twice."""
    rows = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 2), ("b", 3), ("c", 4), ("d", 5), ("d", 5)]
    log = Interactions.read({"user_id": [u for u, _ in rows], "item_id": [i for _, i in rows]})
    figures = describe(log)
    assert (figures.users, figures.items, figures.interactions, figures.duplicates) == (4, 5, 8, 1)
    assert figures.density == 8 / 20
    assert figures.top20_share == 0.5  # one of five items
    assert figures.gini == pytest.approx(2 * (1 + 2 + 3 + 4 + 5 * 4) / (5 * 8) - 6 / 5)
    assert figures.item_quantiles == {
        "0%": 1,
        "5%": 1,
        "25%": 1,
        "50%": 1,
        "75%": 1,
        "95%": pytest.approx(3.4),
        "100%": 4,
    }
    assert figures.first is None
    assert "no timestamps" in figures.as_text()
    assert "1 repeated pairs dropped" in figures.as_text()


def test_time_span_and_json(skewed):
    figures = describe(skewed)
    assert "2017-07-14" <= figures.first < figures.last <= "2020-09-14"
    assert json.loads(json.dumps(figures.as_dict()))["gini"] == figures.gini


@given(COUNTS)
def test_gini_equals_mean_difference(counts):
    """The definition: mean absolute difference of two items, relative to twice the mean."""
    expected = np.abs(counts[:, None] - counts).mean() / (2 * counts.mean()) if counts.sum() else 0.0
    assert gini(counts) == pytest.approx(expected, abs=1e-12)


@given(COUNTS)
def test_head_is_a_fifth_and_on_top(counts):
    head = head_mask(counts)
    assert head.sum() == int(np.ceil(len(counts) / 5))
    if not head.all():
        assert counts[head].min() >= counts[~head].max()
    tied = counts == counts[head].min()
    assert (np.diff(head[tied].astype(int)) <= 0).all(), "of equal items the smaller ids are head"


@given(COUNTS)
def test_shares_add_up(counts):
    assert lorenz(counts)[-1] == pytest.approx(1.0 if counts.sum() else 0.0)
    assert decile_shares(counts).sum() == pytest.approx(1.0 if counts.sum() else 0.0)
    assert (np.diff(decile_shares(counts)) <= 1e-12).all()
