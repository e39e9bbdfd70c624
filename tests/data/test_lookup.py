"""Positions of ids."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe.data.lookup import IdIndex, positions
from icpe.data.pair_order import in_order, order_pairs

TEXTS = st.text(alphabet="aäb€z0", max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    known=st.lists(TEXTS, unique=True) | st.lists(st.integers(-(2**62), 2**62), unique=True),
    ordered=st.booleans(),
    data=st.data(),
)
def test_an_index_finds_what_a_join_finds(known, ordered, data):
    kind = pl.String if known and isinstance(known[0], str) else pl.Int64
    ids = pl.Series(known, dtype=kind)
    ids = ids.sort() if ordered else ids
    wanted = pl.Series(data.draw(st.lists(TEXTS if kind == pl.String else st.integers(-9, 9), max_size=40)), dtype=kind)
    wanted = pl.concat([wanted, ids.sample(fraction=0.5, seed=0)])
    found = IdIndex(ids).codes(wanted)
    assert found.dtype == np.int32
    assert found.tolist() == positions(wanted, ids).tolist()


def test_an_index_of_ids_in_several_pieces():
    ids = pl.concat([pl.Series(["a", "b"]), pl.Series(["c"])], rechunk=False)
    assert IdIndex(ids).codes(pl.Series(["c", "a", "d", "0"])).tolist() == [2, 0, -1, -1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12), st.booleans())
def test_in_order_if_ordering_changes_nothing(pairs, ordered):
    pairs = sorted(set(pairs)) if ordered else pairs
    user, item = (np.array([pair[at] for pair in pairs], np.int32) for at in (0, 1))
    users, items, _ = order_pairs(user, item, 5, 5, None)
    assert in_order(user, item) == (users.tolist() == user.tolist() and items.tolist() == item.tolist())


@pytest.mark.parametrize("place", [2**20 - 1, 2**20, 2**20 + 1])
def test_order_across_the_pieces_of_a_check(place):
    user = np.arange(2**20 + 5, dtype=np.int32)
    item = np.zeros_like(user)
    assert in_order(user, item)
    user[place] = user[place - 1]
    assert not in_order(user, item)
