"""Batches contain every positive once and no false negatives, and depend on the seed and the step only."""

import re

import numpy as np
import polars as pl
import pytest

from icpe import DataError, Interactions
from icpe.kernels.negatives import reject_seen as compiled
from icpe.methods import Negatives
from icpe.rng import random_keys
from icpe.testing import skewed_log
from icpe.train import drawing
from icpe.train.batch import SampledBatch
from icpe.train.drawing import SeenPairs, reject_seen, uniform_items
from icpe.train.sampling import STEPS_PER_BLOCK, Sampler

LOG = skewed_log(users=20, items=11, pairs=180)


def seen_pairs(log):
    return set(zip(log.user.tolist(), log.item.tolist(), strict=True))


def equal(one, two):
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("users", "items", "negatives"))


def log_of(counts, items):
    """Return a log in which user k has used the first ``counts[k]`` items."""
    user = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    item = np.concatenate([np.arange(count) for count in counts]).astype(np.int32)
    return Interactions.from_codes(pl.Series(range(len(counts))), pl.Series(range(items)), user, item)


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
@pytest.mark.parametrize("count", [1, 3])
def test_an_epoch_has_every_positive_once_and_no_false_negative(batch_size, count):
    known = seen_pairs(LOG)
    sampler = Sampler(LOG, Negatives(count), batch_size, seed=0)
    for epoch in range(3):
        batches = list(sampler.epoch(epoch))
        assert len(batches) == sampler.steps == -(-len(LOG) // batch_size)
        assert all(len(batch.users) == batch_size for batch in batches[:-1])
        pairs = [pair for batch in batches for pair in zip(batch.users.tolist(), batch.items.tolist(), strict=True)]
        assert sorted(pairs) == sorted(known)
        for batch in batches:
            assert batch.negatives.shape == (len(batch.users), count)
            assert {array.dtype for array in (batch.users, batch.items, batch.negatives)} == {np.dtype(np.int64)}
            for user, negatives in zip(batch.users.tolist(), batch.negatives.tolist(), strict=True):
                assert all(0 <= item < len(LOG.items) and (user, item) not in known for item in negatives)


def test_batches_come_in_random_order():
    users = np.concatenate([batch.users for batch in Sampler(LOG, Negatives(1), 10, seed=0).epoch(0)])
    assert abs(np.corrcoef(users, np.arange(len(users)))[0, 1]) < 0.3


def test_users_with_a_single_item_left_get_it():
    log = log_of([10, 10, 1], items=11)
    for batch in Sampler(log, Negatives(2), 4, seed=1).epoch(0):
        crowded = batch.users < 2
        assert (batch.negatives[crowded] == 10).all()


def test_negatives_are_uniform_over_unused_items():
    """Chi-square test over the unused items of users with few and with many items, each at level 1/10,000."""
    log = log_of([1, 4, 8, 2, 6], items=12)
    sampler = Sampler(log, Negatives(40), 8, seed=5)
    counts = np.zeros((5, 12))
    for epoch in range(20):
        for batch in sampler.epoch(epoch):
            np.add.at(counts, (np.repeat(batch.users, 40), batch.negatives.ravel()), 1)
    limits = {3: 21.1, 5: 25.7, 7: 29.9, 9: 33.7, 10: 35.6}  # 0.9999 quantiles of χ² by degrees of freedom
    for user, used in enumerate((1, 4, 8, 2, 6)):
        free = counts[user, used:]
        assert counts[user, :used].sum() == 0
        expected = free.sum() / len(free)
        assert expected > 60
        assert ((free - expected) ** 2 / expected).sum() < limits[len(free) - 1]


def test_shared_negatives():
    sampler = Sampler(LOG, Negatives(6, shared=True), 10, seed=2)
    batches = list(sampler.epoch(0))
    assert all(batch.negatives.shape == (6,) for batch in batches)
    assert len({batch.negatives.tobytes() for batch in batches}) == len(batches), "fresh for every step"
    drawn = np.concatenate([batch.negatives for epoch in range(80) for batch in sampler.epoch(epoch)])
    counts = np.bincount(drawn, minlength=11)
    expected = len(drawn) / 11
    assert len(counts) == 11
    assert ((counts - expected) ** 2 / expected).sum() < 35.6  # 0.9999 quantile of χ² with 10 degrees of freedom


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_an_epoch_can_start_at_any_step(shared, batch_size):
    negatives = Negatives(2, shared)
    whole = list(Sampler(LOG, negatives, batch_size, seed=4).epoch(1))
    fresh = Sampler(LOG, negatives, batch_size, seed=4)
    starts = {0, 1, len(whole) - 1, len(whole), min(STEPS_PER_BLOCK, len(whole)), min(STEPS_PER_BLOCK + 1, len(whole))}
    for first in starts:
        rest = list(fresh.epoch(1, first))
        assert len(rest) == len(whole) - first
        assert all(equal(one, two) for one, two in zip(rest, whole[first:], strict=True))
    assert batch_size > 1 or len(whole) > STEPS_PER_BLOCK + 1, "the log is long enough to cross a block"


def test_seed_and_epoch_determine_batches():
    def batches(seed, epoch):
        return list(Sampler(LOG, Negatives(2), 10, seed).epoch(epoch))

    first = batches(0, 0)
    assert all(equal(one, two) for one, two in zip(first, batches(0, 0), strict=True))
    for other in (batches(1, 0), batches(0, 1)):
        assert not any(np.array_equal(one.items, two.items) for one, two in zip(first, other, strict=True))
        assert not any(np.array_equal(one.negatives, two.negatives) for one, two in zip(first, other, strict=True))


def test_negatives_differ_from_block_to_block():
    """Each block of steps has its own random stream."""
    batches = list(Sampler(LOG, Negatives(8, shared=True), 1, seed=0).epoch(0))
    assert not np.array_equal(batches[0].negatives, batches[STEPS_PER_BLOCK].negatives)


@pytest.mark.parametrize("count", [1, 5])
def test_compiled_and_plain_sampling_agree_bit_for_bit(count, monkeypatch):
    log = log_of([39, 30, 1, 20, 38], items=40)
    starts = np.concatenate([[0], np.cumsum(log.user_counts)])
    users = np.random.default_rng(0).integers(0, 5, 2000).astype(np.int32)
    keys = random_keys(0, "keys", 2000 * count).reshape(2000, count)
    plain, fast = uniform_items(keys, 40), uniform_items(keys, 40)
    reject_seen(log, starts, users, plain, keys.copy())
    compiled(users, fast, starts, log.item, 40, keys.copy())
    assert not np.array_equal(plain, uniform_items(keys, 40))
    np.testing.assert_array_equal(plain, fast)
    whole = list(Sampler(LOG, Negatives(count), 10, seed=3).epoch(0))
    monkeypatch.setattr(drawing, "WORTH_COMPILING", 0)
    again = list(Sampler(LOG, Negatives(count), 10, seed=3).epoch(0))
    assert all(equal(one, two) for one, two in zip(whole, again, strict=True))


def test_items_from_random_bits():
    ends = np.array([0, 2**64 - 1, 2**63], np.uint64)
    assert uniform_items(ends, 10).tolist() == [0, 9, 5]
    assert uniform_items(ends, 3_000_000).tolist() == [0, 2_999_999, 1_500_000]


def test_a_user_who_has_used_everything():
    log = log_of([3, 5], items=5)
    with pytest.raises(DataError, match=re.escape("user 1 has used all 5 items, so no negative is left")):
        Sampler(log, Negatives(1), 4, seed=0)
    assert len(list(Sampler(log, Negatives(3, shared=True), 4, seed=0).epoch(0))) == 2


def test_pairs_that_were_seen():
    seen, known = SeenPairs(LOG), seen_pairs(LOG)
    users, items = np.indices((20, 11)).reshape(2, -1)
    assert seen.contain(users, items).tolist() == [pair in known for pair in zip(users, items, strict=True)]


def test_negatives_from_all_items_may_be_seen():
    log = log_of([10, 3], items=10)
    drawn = np.concatenate([batch.negatives for batch in Sampler(log, Negatives(50, seen=True), 4, seed=1).epoch(0)])
    assert set(drawn.ravel().tolist()) == set(range(10))


def test_a_method_with_its_own_sampling():
    """The generator depends on the step only: it is the same wherever the epoch starts, and differs between steps."""

    def draw(drawn, epoch, rng):
        marks = np.concatenate([[epoch], rng.integers(1000, size=3)])
        return SampledBatch(drawn.users, drawn.items, drawn.negatives, drawn.rows, marks)

    whole = list(Sampler(LOG, Negatives(1), 10, seed=4, resample=draw).epoch(2))
    late = list(Sampler(LOG, Negatives(1), 10, seed=4, resample=draw).epoch(2, first_step=5))
    assert [one.labels.tolist() for one in whole[5:]] == [one.labels.tolist() for one in late]
    assert len({tuple(one.labels) for one in whole}) == len(whole)
    assert {one.labels[0] for one in whole} == {2}
    for batch in whole:
        assert np.array_equal(LOG.user[batch.rows], batch.users)
        assert np.array_equal(LOG.item[batch.rows], batch.items)
