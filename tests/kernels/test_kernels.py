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


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_packed_order(monkeypatch, seed, timed):
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 9, 60).astype(np.int32), rng.integers(0, 9, 60).astype(np.int32)
    time = rng.integers(0, 4, 60) if timed else None
    plain = order_pairs(user, item, 9, 9, time)
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 0)
    packed = order_pairs(user, item, 9, 9, time)
    too_many_bits = order_pairs(user, item, 2**31 - 1, 2**31 - 1, time)
    for one, two, three in zip(plain, packed, too_many_bits, strict=True):
        assert one.tolist() == two.tolist() == three.tolist()
    assert (user[packed[2]] == packed[0]).all()
    assert (item[packed[2]] == packed[1]).all()
