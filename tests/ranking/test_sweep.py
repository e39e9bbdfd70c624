"""One pass over the scores gives the same lists as ranking each setting of the dial by itself."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe import IcpeError, Interactions
from icpe.ranking import top_n
from icpe.ranking.sweep import item_bias, sweep_top_n
from icpe.ranking.tables import BiasedScores, DotScores, with_bias


class Matrix:
    """Table of fixed scores that counts how many it has computed."""

    def __init__(self, scores):
        self.scores = np.asarray(scores, np.float32)
        self.users, self.items = self.scores.shape
        self.computed = 0

    def block(self, users, start, stop):
        self.computed += len(users) * (stop - start)
        return self.scores[users, start:stop].copy()


def log_of(mask):
    users, items = (pl.Series(np.arange(size)) for size in mask.shape)
    return Interactions.from_codes(users, items, *(codes.astype(np.int32) for codes in np.nonzero(mask)))


def swept(table, direction, multiples, n, hide=(), compiled=True):
    users = np.arange(table.users, dtype=np.int32)
    chunks = list(sweep_top_n(table, users, n, direction, multiples, hide, compiled))
    assert np.concatenate([chunk.users for chunk in chunks]).tolist() == users.tolist()
    return np.concatenate([chunk.items for chunk in chunks], axis=1)


def one_by_one(table, direction, multiples, n, hide=()):
    users = np.arange(table.users, dtype=np.int32)
    return np.stack([top_n(with_bias(table, item_bias(direction, t)), users, n, hide).items for t in multiples])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("base", ["products", "products and bias", "any table"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_every_setting_has_the_lists_of_a_ranking_of_its_own(compiled, base, data):
    seed, users, items = data.draw(st.integers(0, 2**31)), data.draw(st.integers(1, 9)), data.draw(st.integers(1, 300))
    n = data.draw(st.integers(1, 25))
    rng = np.random.default_rng(seed)
    # Whole numbers have many ties, in the scores as well as in the direction.
    vectors = [rng.integers(-2, 3, (size, 3)).astype(np.float32) for size in (users, items)]
    if data.draw(st.booleans()):
        vectors = [rng.normal(size=one.shape).astype(np.float32) for one in vectors]
    direction = rng.choice([rng.normal(size=items), rng.integers(0, 3, items)]).astype(np.float32)
    multiples = np.sort(rng.choice([0.0, 1.0, *rng.normal(scale=3, size=12)], rng.integers(1, 12)))
    table = DotScores(*vectors, rng.normal(size=items).astype(np.float32) if base == "products and bias" else None)
    if base == "any table":
        table = BiasedScores(Matrix(vectors[0] @ vectors[1].T), np.zeros(items, np.float32))
    hide = [log_of(rng.random((users, items)) < rng.choice([0.0, 0.3, 0.95])) for _ in range(2)]
    found = swept(table, direction, multiples, n, hide, compiled)
    assert np.array_equal(found, one_by_one(table, direction, multiples, n, hide))


def test_popular_directions_and_wide_ranges_of_settings():
    rng = np.random.default_rng(5)
    vectors = [rng.normal(size=(size, 16)).astype(np.float32) for size in (40, 3000)]
    direction = np.log(rng.zipf(1.7, 3000)).astype(np.float32)
    multiples = np.linspace(-30, 30, 13)
    table = DotScores(*vectors)
    assert np.array_equal(swept(table, direction, multiples, 20), one_by_one(table, direction, multiples, 20))


def test_exact_scores_decide_where_those_of_the_matrix_product_are_too_rough():
    rng = np.random.default_rng(7)
    users, one = rng.normal(size=(30, 64)).astype(np.float32), rng.normal(size=64).astype(np.float32)
    items = np.nextafter(one, rng.choice([-9, 9], (400, 64)).astype(np.float32))  # all differ in the last digit
    direction, multiples = rng.integers(0, 3, 400).astype(np.float32), [-1e-6, 0.0, 1e-6, 1.0]
    rough = np.argsort(-(users @ items.T), axis=1, kind="stable")[:, :20]
    found = swept(DotScores(users, items), direction, multiples, 20)
    assert not np.array_equal(found[1], rough)  # the example is hard enough
    assert np.array_equal(found, one_by_one(DotScores(users, items), direction, multiples, 20))


@pytest.mark.parametrize("settings_", [2, 40])
def test_scores_are_computed_once_whatever_the_number_of_settings(settings_):
    table = Matrix(np.random.default_rng(0).normal(size=(30, 200)))
    swept(table, np.arange(200.0), np.linspace(-1, 1, settings_), 5)
    assert table.computed == 30 * 200


@pytest.mark.parametrize("compiled", [True, False])
def test_a_score_that_is_not_a_number_is_an_error(compiled):
    scores = np.zeros((3, 50))
    scores[2, 17] = np.nan
    with pytest.raises(IcpeError, match=r"user 2 for item 17 \(codes\) is NaN"):
        swept(Matrix(scores), np.arange(50.0), [0.0, 1.0], 5, compiled=compiled)
