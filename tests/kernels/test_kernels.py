"""Every kernel returns the same as its equivalent without compilation."""

import numpy as np
import polars as pl
import pytest

from icpe import Interactions, kernels, split
from icpe.data.factorize import HASH_SEEDS, ColumnFactorizer, factorize
from icpe.data.k_core import k_core_mask
from icpe.data.pair_order import order_pairs
from icpe.kernels.core import peel
from icpe.kernels.factorize import Factorizer
from icpe.kernels.pairs import sort_pairs
from icpe.testing import skewed_log


@pytest.mark.parametrize("rows", [0, 1, 7, 200_000])
@pytest.mark.parametrize("distinct", [1, 50, 150_000])
@pytest.mark.parametrize("piece", [3000, 1_000_000])
def test_factorize(rows, distinct, piece):
    values = pl.Series(np.random.default_rng(rows).integers(0, distinct, rows)).cast(pl.String)
    coder = ColumnFactorizer()
    for start in range(0, max(rows, 1), piece):
        part = values.slice(start, piece)
        coder.add(part, part.hash(HASH_SEEDS[0]), part.hash(HASH_SEEDS[1]))
    coded, plain = coder.finish(), factorize(values)
    assert (coded.codes == plain.codes).all()
    assert (coded.first_rows == plain.first_rows).all()
    assert coded.distinct.equals(plain.distinct)
    assert coded.distinct.gather(coded.codes).equals(values)


def test_factorizer_tells_equal_first_hashes_apart():
    """Two values whose first hash collides are distinguished by the second."""
    first = np.array([5, 5, 5, 5], np.uint64)
    second = np.array([1 << 40, 2 << 40, 1 << 40, 2 << 40], np.uint64)
    factorizer, codes = Factorizer(), np.empty(4, np.int32)
    assert factorizer.add(first, second, codes).tolist() == [0, 1]
    assert codes.tolist() == [0, 1, 0, 1]
    assert factorizer.add(first[:2] + np.uint64(1), second[:2], codes[:2]).tolist() == [0, 1]
    assert codes.tolist() == [2, 3, 0, 1]
    assert factorizer.add(first, second, codes).tolist() == []
    assert codes.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("k", [1, 2, 4, 6, 1000])
def test_peel(k):
    log = skewed_log(users=900, items=400, pairs=8000, seed=k)
    sizes = len(log.users), len(log.items)
    kept = peel(log.user, log.item, k, *sizes)
    assert (kept == k_core_mask(log.user, log.item, k, *sizes)).all()
    if kept.any():
        for codes in (log.user[kept], log.item[kept]):
            assert np.unique(codes, return_counts=True)[1].min() >= k
    else:
        assert k > 6, "the log should have a core to compare"


def test_large_logs_take_the_kernels_and_end_the_same(monkeypatch):
    frame = skewed_log(users=900, items=400, pairs=8000).to_frame().with_columns(pl.col("user_id").cast(pl.String))
    plain = split.unbiased(Interactions.read(frame).k_core(5)).manifest
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 0)
    assert split.unbiased(Interactions.read(frame).k_core(5)).manifest == plain


def distinct_pairs(user, item, time):
    """Oracle: the pairs in order, each with its earliest row, and the first of these for equal times."""
    best = {}
    for row, pair in enumerate(zip(user.tolist(), item.tolist(), strict=True)):
        if pair not in best or (time is not None and time[row] < time[best[pair]]):
            best[pair] = row
    return [[user for user, _ in sorted(best)], [item for _, item in sorted(best)], [best[one] for one in sorted(best)]]


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_order_of_pairs(monkeypatch, seed, timed):
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 9, 60).astype(np.int32), rng.integers(0, 9, 60).astype(np.int32)
    time = rng.integers(0, 4, 60) if timed else None
    expected = distinct_pairs(user, item, time)
    for compiled_from in (2_000_000, 0):
        monkeypatch.setattr(kernels, "WORTH_COMPILING", compiled_from)
        for users, items in ((9, 9), (2**31 - 1, 2**31 - 1), (9, 2**31 - 1)):
            found = order_pairs(user, item, users, items, time)
            assert [one.tolist() for one in found] == expected


@pytest.mark.parametrize("block", [1, 5, 17, 1000])
@pytest.mark.parametrize("users", [9, 50, 2**20])
def test_the_order_does_not_depend_on_the_size_of_blocks(block, users):
    rng = np.random.default_rng(block)
    user, item = (rng.integers(0, 9, 200).astype(np.int32) for _ in range(2))
    user = (user * (users // 9)).astype(np.int32)  # far apart, so that most blocks are empty
    time = rng.integers(0, 4, 200)
    assert [one.tolist() for one in sort_pairs(user, item, users, 9, time, block)] == distinct_pairs(user, item, time)


def test_no_rows_have_an_order():
    none = np.empty(0, np.int32)
    assert [len(one) for one in sort_pairs(none, none, 0, 0, None)] == [0, 0, 0]
