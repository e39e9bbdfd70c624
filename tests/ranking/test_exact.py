"""Inner products are ranked with the same bits for any division of the work and any number of threads."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
import torch

from icpe import Interactions, NeuMF
from icpe.ranking import Blocks, Lists, top_n
from icpe.ranking.chunk import Chunk
from icpe.ranking.exact import ExactProducts, best_exactly, exact_of
from icpe.ranking.tables import DotScores
from icpe.testing import skewed_log

USERS, ITEMS = 130, 700


def cut(compiled, chunk=512, tile=2048):
    """Rank with the compiled loops or by sorting, in other chunks and tiles."""
    return Blocks(users=chunk, items=tile, compiled=compiled)


def same(one, two):
    return all(getattr(one, name).tobytes() == getattr(two, name).tobytes() for name in ("users", "items", "scores"))


class Matrix:
    """Scores that are there already."""

    def __init__(self, scores):
        self.scores = scores
        self.users, self.items = scores.shape

    def block(self, users, start, stop):
        return self.scores[users, start:stop]


def close_vectors(kind, dim=37):
    """Vectors whose scores are equal, or differ by no more than rounding, for many items."""
    rng = np.random.default_rng(8)
    users, items = rng.normal(size=(USERS, dim)), rng.normal(size=(ITEMS, dim))
    if kind == "ties":
        items = items[rng.integers(0, 9, ITEMS)]
    elif kind == "near ties":
        items = items[rng.integers(0, 9, ITEMS)] * (1 + 1e-7 * rng.integers(-2, 3, (ITEMS, 1)))
    elif kind == "turned":  # equal in exact arithmetic, but every order of summation rounds differently
        order = rng.permutation(dim)
        users[:] = users[:, :1]
        items = np.where(rng.random((ITEMS, 1)) < 0.5, items[:1], items[:1, order])
    elif kind == "zero":
        items[:] = 0
    bias = None if kind != "bias" else (1e-6 * rng.integers(-3, 4, ITEMS)).astype(np.float32)
    if kind == "bias":
        items[:] = items[0]
    return DotScores(users.astype(np.float32), items.astype(np.float32), bias)


KINDS = ["apart", "ties", "near ties", "turned", "zero", "bias"]


def exact_table(table):
    """All scores by rational numbers, rounded once."""
    scores = np.empty((table.users, table.items), np.float32)
    bias = np.zeros(table.items, np.float32) if table.item_bias is None else table.item_bias
    users, items = (
        [[Fraction(float(x)) for x in row] for row in one] for one in (table.user_vectors, table.item_vectors)
    )
    for user, row in enumerate(users):
        for item, column in enumerate(items):
            total = sum((x * y for x, y in zip(row, column, strict=True)), Fraction(float(bias[item])))
            scores[user, item] = np.float32(float(total))
    return scores


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 64])
def test_compiled_and_plain_products_are_the_same_bits(dim):
    rng = np.random.default_rng(dim)
    vectors = [(rng.normal(size=(30, dim)) * 10.0 ** rng.integers(-3, 4, (30, 1))).astype(np.float32) for _ in range(2)]
    table = DotScores(*vectors, rng.normal(size=30).astype(np.float32))
    codes = rng.integers(-1, 30, (30, 11)).astype(np.int32)
    users = rng.permutation(30)
    plain, fast = (ExactProducts(table, compiled).pairs(users, codes) for compiled in (False, True))
    assert plain.tobytes() == fast.tobytes()
    assert (plain[codes < 0] == -np.inf).all()
    right = exact_table(table)[users[:, None], codes]
    np.testing.assert_array_max_ulp(plain[codes >= 0], right[codes >= 0], 1)
    block = ExactProducts(table, True).block(users, 3, 9)
    assert block.tobytes() == ExactProducts(table, False).block(users, 3, 9).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_no_cut_changes_a_bit(kind, compiled):
    table = close_vectors(kind)
    pairs = np.nonzero(np.random.default_rng(0).random((USERS, ITEMS)) < 0.05)
    ids = (pl.Series(np.arange(size)) for size in (USERS, ITEMS))
    hide = [Interactions.from_codes(*ids, *(codes.astype(np.int32) for codes in pairs))]
    whole = top_n(table, np.arange(USERS), 20, hide, blocks=cut(compiled=False))
    best = ExactProducts(table, compiled=False).block(np.arange(USERS), 0, ITEMS)
    assert same(whole, top_n(Matrix(best), np.arange(USERS), 20, hide, blocks=cut(compiled=True))), (
        "the order of the exact scores"
    )
    for chunk, tile in ((3, 700), (16, 100), (31, 333), (64, 65), (130, 700), (512, 2048)):
        assert same(whole, top_n(table, np.arange(USERS), 20, hide, blocks=cut(compiled, chunk, tile))), (chunk, tile)
    for user in range(6, USERS, 13):
        alone = top_n(table, np.array([user]), 20, hide, blocks=cut(compiled, tile=user))
        assert same(alone, Lists(whole.users[[user]], whole.items[[user]], whole.scores[[user]])), user
    order = np.random.default_rng(1).permutation(USERS)
    mixed = top_n(table, order, 20, hide, blocks=cut(compiled, chunk=50))
    assert same(mixed, Lists(whole.users[order], whole.items[order], whole.scores[order]))


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_within_the_margin(kind):
    table = close_vectors(kind, dim=64)
    exact, users = ExactProducts(table, compiled=True), np.arange(USERS)
    fine, margin = exact.block(users, 0, ITEMS).astype(float), exact.margin(users)
    for rows, width in ((1, 700), (130, 700), (16, 64), (5, 3)):
        rough = table.block(users[:rows], 0, width)
        assert (np.abs(rough - fine[:rows, :width]) <= margin[:rows, None]).all()
    sizes = [np.linalg.norm(one, axis=1) for one in (table.user_vectors, table.item_vectors)]
    assert (margin <= 1e-5 * (1 + sizes[0] * sizes[1].max())).all(), "and not so wide that everything is open"


class Wrong(DotScores):
    """A product that errs by as much as it may, in favour of items that do not deserve it."""

    def block(self, users, start, stop):
        exact = ExactProducts(self, compiled=False)
        scores = exact.block(users, start, stop).astype(float)
        away = np.where(np.arange(start, stop) % 2, 1, -1) * exact.margin(users)[:, None]
        return (scores + 0.9 * away).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_worst_rounding_changes_nothing(kind, compiled):
    table = close_vectors(kind)
    wrong = Wrong(table.user_vectors, table.item_vectors, table.item_bias)
    assert same(
        top_n(table, np.arange(USERS), 9, blocks=cut(compiled)), top_n(wrong, np.arange(USERS), 9, blocks=cut(compiled))
    )


def test_only_open_ends_are_computed_anew():
    """Where candidates decide, whole rows are not looked at again."""
    table = close_vectors("apart")
    asked = []

    class Counting(ExactProducts):
        def block(self, users, start, stop):
            asked.append(len(users))
            return super().block(users, start, stop)

    none = (np.zeros(USERS + 1, np.int64), np.empty(0, np.int32))
    chunk = Chunk(np.arange(USERS, dtype=np.int32), *none, None, compiled=True)
    best_exactly(chunk, table, Counting(table, compiled=True), 20)
    assert asked == []
    tied = close_vectors("zero")
    best_exactly(chunk, tied, Counting(tied, compiled=True), 20)
    assert asked == [USERS]


def test_short_lists_and_what_may_not_be_listed():
    table = close_vectors("apart")
    bias = np.zeros(ITEMS, np.float32)
    bias[::2] = -np.inf
    table = DotScores(table.user_vectors, table.item_vectors, bias)
    for compiled in (False, True):
        lists = top_n(table, np.arange(USERS), 360, allow=np.arange(0, ITEMS, 5), blocks=cut(compiled))
        assert ((lists.items >= 0).sum(1) == ITEMS // 10).all()
        assert (lists.items[lists.items >= 0] % 10 == 5).all()
        assert (lists.scores[lists.items < 0] == -np.inf).all()


def test_other_tables_are_taken_at_their_word():
    assert exact_of(Matrix(np.zeros((2, 3))), compiled=False) is None
    assert exact_of(DotScores(*(np.zeros((2, 3)) for _ in range(2))), compiled=False) is None


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_of_a_tower_do_not_depend_on_the_company(threads):
    """NeuMF has no exact form; its blocks are computed user by user."""
    backbone = NeuMF(dim=24, layers=(20, 10), init_std=0.5)
    backbone.build(skewed_log(users=40, items=3000, pairs=5000), np.random.default_rng(0))
    with torch.no_grad():
        table = backbone.scores(*backbone.reps())
    whole = top_n(table, np.arange(40), 20, blocks=cut(compiled=False))
    torch.set_num_threads(threads)
    try:
        for compiled, chunk in ((False, 1), (True, 7), (True, 39), (True, 512)):
            assert same(whole, top_n(table, np.arange(40), 20, blocks=cut(compiled, chunk))), (compiled, chunk)
    finally:
        torch.set_num_threads(1)


def test_threads_of_the_matrix_product_do_not_matter():
    code = """
import hashlib, numpy as np
from icpe.ranking.tables import DotScores
from icpe.ranking import top_n
rng = np.random.default_rng(0)
items = rng.normal(size=(9000, 64)).astype(np.float32)[rng.integers(0, 60, 9000)]
items *= (1 + 1e-7 * rng.integers(-2, 3, (9000, 1))).astype(np.float32)
lists = top_n(DotScores(rng.normal(size=(900, 64)).astype(np.float32), items), np.arange(900), 20)
print(hashlib.sha256(lists.items.tobytes() + lists.scores.tobytes()).hexdigest())
"""
    found = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **dict.fromkeys(names, threads)},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1
