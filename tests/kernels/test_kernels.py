"""Every kernel gives what its plain twin gives."""

import numpy as np
import polars as pl
import pytest

from icpe import Interactions, split
from icpe.data.core import core_mask
from icpe.data.encode import _factorize
from icpe.kernels.core import peel
from icpe.kernels.factorize import factorize
from icpe.kernels.latest import latest_per_item
from icpe.split._unbiased import latest_rows
from icpe.testing import skewed_log


@pytest.mark.parametrize("rows", [0, 1, 7, 200_000])
@pytest.mark.parametrize("distinct", [1, 50, 150_000])
def test_factorize(rows, distinct):
    values = pl.Series(np.random.default_rng(rows).integers(0, distinct, rows)).cast(pl.String)
    codes, firsts = factorize(values.hash(1).to_numpy(), values.hash(2).to_numpy())
    plain_distinct, plain_codes = _factorize(values)
    assert (codes == plain_codes).all()
    assert values.gather(firsts).equals(plain_distinct)


def test_factorize_tells_equal_first_hashes_apart():
    """Two values whose first hash collides are told apart by the second."""
    first = np.array([5, 5, 5, 5], np.uint64)
    second = np.array([1 << 40, 2 << 40, 1 << 40, 2 << 40], np.uint64)
    codes, firsts = factorize(first, second)
    assert codes.tolist() == [0, 1, 0, 1]
    assert firsts.tolist() == [0, 1]


@pytest.mark.parametrize("k", [1, 2, 4, 6, 1000])
def test_peel(k):
    log = skewed_log(users=900, items=400, pairs=8000, seed=k)
    sizes = len(log.users), len(log.items)
    kept = peel(log.user, log.item, k, *sizes)
    assert (kept == core_mask(log.user, log.item, k, *sizes)).all()
    if kept.any():
        for codes in (log.user[kept], log.item[kept]):
            assert np.unique(codes, return_counts=True)[1].min() >= k
    else:
        assert k > 6, "the log should have a core to compare"


@pytest.mark.parametrize("seed", range(5))
def test_latest_per_item(seed):
    rng = np.random.default_rng(seed)
    item = rng.integers(0, 200, 5000).astype(np.int32)
    time, tie = rng.integers(0, 30, 5000), rng.integers(0, 2**63, 5000).astype(np.uint64)
    quota = rng.integers(0, np.bincount(item, minlength=200) + 1)
    assert (latest_per_item(item, time, tie, quota) == latest_rows(item, time, tie, quota)).all()


def test_large_logs_take_the_kernels_and_end_the_same(monkeypatch):
    frame = skewed_log(users=900, items=400, pairs=8000).to_frame().with_columns(pl.col("user_id").cast(pl.String))
    plain = split.unbiased(Interactions.read(frame).k_core(5)).manifest
    for room in ("data.encode", "data.core", "split._unbiased"):
        monkeypatch.setattr(f"icpe.{room}.WORTH_COMPILING", 0)
    assert split.unbiased(Interactions.read(frame).k_core(5)).manifest == plain
