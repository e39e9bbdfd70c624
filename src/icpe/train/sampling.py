"""Batches of an epoch, from the seed and the position alone.

Nothing random is carried along: every epoch and block has its own named stream, so that a run continues anywhere from
its step number, and several workers could each draw their share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.kernels import WORTH_COMPILING
from icpe.methods.base import Negatives
from icpe.rng import random_keys, stream
from icpe.types import IntArray, UIntArray

_STEPS_PER_BLOCK = 64  # batches are drawn for so many steps at a time: few calls, little memory


@dataclass(frozen=True)
class Drawn:
    """Codes of one step: users [batch], items [batch], negatives [batch, count] or [count]; all int64."""

    users: IntArray
    items: IntArray
    negatives: IntArray


class Sampler:
    """Shuffled positives with fresh negatives.

    Raises:
        DataError: a user has used every item, so that no negative can be drawn.
    """

    def __init__(self, train: Interactions, negatives: Negatives, batch_size: int, seed: int) -> None:
        self._train, self._negatives, self._batch_size, self._seed = train, negatives, batch_size, seed
        self.steps = -(-len(train) // batch_size)
        self._starts = np.concatenate([[0], np.cumsum(train.user_counts)])
        if not negatives.shared and int(train.user_counts.max()) >= len(train.items):
            user = train.users[int(train.user_counts.argmax())]
            raise DataError(
                f"user {user!r} has used all {len(train.items)} items, so that none is left to stand against them. "
                "Remove such users, or take shared negatives (loss 'softmax')"
            )

    def epoch(self, number: int, first_step: int = 0) -> Iterator[Drawn]:
        """The batches of an epoch from ``first_step`` on."""
        order = stream(self._seed, f"train/shuffle/{number}").permutation(len(self._train))
        block, drawn = -1, Drawn(order, order, order)
        for step in range(first_step, self.steps):
            if step // _STEPS_PER_BLOCK != block:
                block = step // _STEPS_PER_BLOCK
                drawn = self._draw_block(number, block, order)
            place = step % _STEPS_PER_BLOCK
            rows = slice(place * self._batch_size, (place + 1) * self._batch_size)
            mine = place if self._negatives.shared else rows
            yield Drawn(drawn.users[rows], drawn.items[rows], drawn.negatives[mine])

    def _draw_block(self, epoch: int, block: int, order: IntArray) -> Drawn:
        """Codes of all steps of a block, those of a step in a row."""
        items, count = len(self._train.items), self._negatives.count
        length = _STEPS_PER_BLOCK * self._batch_size
        rows = order[block * length : (block + 1) * length]
        shape = (_STEPS_PER_BLOCK if self._negatives.shared else len(rows), count)
        keys = random_keys(self._seed, f"train/negatives/{epoch}/{block}", shape[0] * count).reshape(shape)
        drawn, users = uniform_items(keys, items), self._train.user[rows]
        if not self._negatives.shared:
            reject_seen(self._train, self._starts, users, drawn, keys)
        return Drawn(users.astype(np.int64), self._train.item[rows].astype(np.int64), drawn.astype(np.int64))


def uniform_items(keys: UIntArray, items: int) -> IntArray:
    """Item codes from 64 random bits each: the upper half, scaled. int32, in the shape of ``keys``."""
    return (((keys >> np.uint64(32)) * np.uint64(items)) >> np.uint64(32)).astype(np.int32)


def reject_seen(train: Interactions, starts: IntArray, users: IntArray, drawn: IntArray, keys: UIntArray) -> None:
    """Draw anew, in place, where a drawn item is a training item of its user, until none is."""
    if len(train) >= WORTH_COMPILING // 10:
        from icpe.kernels.negatives import reject_seen as compiled  # late: numba takes a while to import

        compiled(users, drawn, starts, train.item, len(train.items), keys)
        return
    seen = train.user.astype(np.int64) * len(train.items) + train.item
    rows, places = np.indices(drawn.shape).reshape(2, -1)
    while len(rows):
        asked = users[rows].astype(np.int64) * len(train.items) + drawn[rows, places]
        found = np.minimum(np.searchsorted(seen, asked), len(seen) - 1)
        again = seen[found] == asked
        rows, places = rows[again], places[again]
        keys[rows, places] += np.uint64(0x9E3779B97F4A7C15)
        drawn[rows, places] = uniform_items(_mix(keys[rows, places]), len(train.items))


def _mix(state: UIntArray) -> UIntArray:
    """splitmix64's output for a state: a stream of its own for each place."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
