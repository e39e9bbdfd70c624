"""The best of each row without sorting it."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icpe.ranking import Lists, best_of_rows


def sorted_rows(values, n):
    """All scores sorted, the plain way."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :n]
    items, best = np.full((len(values), n), -1, np.int32), np.full((len(values), n), -np.inf, np.float32)
    best[:, : order.shape[1]] = np.take_along_axis(values, order, axis=1)
    items[:, : order.shape[1]] = order
    items[best == -np.inf] = -1
    return items, best


@settings(max_examples=300, deadline=None)
@given(
    rows=st.integers(0, 5),
    width=st.integers(1, 900),
    n=st.integers(1, 40),
    levels=st.sampled_from([1, 4, 10**6]),
    hidden=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 2**32),
)
@example(rows=3, width=800, n=3, levels=10**6, hidden=0.0, seed=1)
@example(rows=1, width=800, n=3, levels=1, hidden=0.99, seed=2)
def test_equals_a_full_sort(rows, width, n, levels, hidden, seed):
    rng = np.random.default_rng(seed)
    values = (rng.integers(-levels, levels + 1, (rows, width)) / 4).astype(np.float32)
    values[rng.random(values.shape) < hidden] = -np.inf
    values[rng.random(values.shape) < 0.01] = np.inf
    before = values.copy()
    items, best = best_of_rows(values, n)
    expected_items, expected = sorted_rows(values, n)
    assert (items.dtype, best.dtype) == (np.int32, np.float32)
    assert items.tolist() == expected_items.tolist()
    assert best.tolist() == expected.tolist()
    assert (values == before).all()


def test_parts_of_lists_are_joined_and_repeated():
    one = Lists(np.array([7], np.int32), np.array([[1, 2]], np.int32), np.array([[0.5, 0.25]], np.float32))
    joined = Lists.concatenated([Lists.empty(2), one, one])
    assert joined.users.tolist() == [7, 7]
    assert joined.items.tolist() == [[1, 2], [1, 2]]
    twice = one.repeated(2)
    assert (twice.users.tolist(), twice.scores.tolist()) == ([0, 1], [[0.5, 0.25], [0.5, 0.25]])
