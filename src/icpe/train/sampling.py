"""Batches of an epoch, from the seed and the position alone.

Nothing random is carried along: every epoch and block has its own named stream, so that a run continues anywhere from
its step number, and several workers could each draw their share.
"""

from collections.abc import Callable, Iterator

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.rng import random_keys, stream
from icpe.train.drawing import Drawn, SeenPairs, uniform_items
from icpe.train.method import Negatives
from icpe.types import IntArray

Draw = Callable[[Drawn, int, np.random.Generator], Drawn]

_STEPS_PER_BLOCK = 64  # batches are drawn for so many steps at a time: few calls, little memory


class Sampler:
    """Shuffled positives with fresh negatives.

    Args:
        train: the training part.
        negatives: what to draw.
        batch_size: positives of a step.
        seed: of the run.
        draw: changes what was drawn for a step; see :meth:`icpe.methods.Method.draw`.

    Raises:
        DataError: a user has used every item, so that no negative can be drawn.
    """

    def __init__(
        self, train: Interactions, negatives: Negatives, batch_size: int, seed: int, draw: Draw | None = None
    ) -> None:
        self._train, self._negatives, self._batch_size, self._seed = train, negatives, batch_size, seed
        self._draw, self._seen = draw, SeenPairs(train)
        self.steps = -(-len(train) // batch_size)
        self._unseen = not (negatives.shared or negatives.seen)
        if self._unseen and int(train.user_counts.max()) >= len(train.items):
            user = train.users[int(train.user_counts.argmax())]
            raise DataError(
                f"user {user!r} has used all {len(train.items)} items, so that none is left to stand against them. "
                "Remove such users, or take shared negatives (loss 'softmax')"
            )

    def epoch(self, number: int, first_step: int = 0) -> Iterator[Drawn]:
        """The batches of an epoch from ``first_step`` on."""
        order = stream(self._seed, f"train/shuffle/{number}").permutation(len(self._train))
        keys = random_keys(self._seed, f"train/draw/{number}", self.steps if self._draw else 0)
        block, drawn = -1, Drawn(order, order, order, order)
        for step in range(first_step, self.steps):
            if step // _STEPS_PER_BLOCK != block:
                block = step // _STEPS_PER_BLOCK
                drawn = self._draw_block(number, block, order)
            place = step % _STEPS_PER_BLOCK
            rows = slice(place * self._batch_size, (place + 1) * self._batch_size)
            mine = place if self._negatives.shared else rows
            made = Drawn(drawn.users[rows], drawn.items[rows], drawn.negatives[mine], drawn.rows[rows])
            if self._draw is not None:
                made = self._draw(made, number, np.random.Generator(np.random.Philox(key=int(keys[step]))))
            yield made

    def _draw_block(self, epoch: int, block: int, order: IntArray) -> Drawn:
        """Codes of all steps of a block, those of a step in a row."""
        items, count = len(self._train.items), self._negatives.count
        length = _STEPS_PER_BLOCK * self._batch_size
        rows = order[block * length : (block + 1) * length]
        shape = (_STEPS_PER_BLOCK if self._negatives.shared else len(rows), count)
        keys = random_keys(self._seed, f"train/negatives/{epoch}/{block}", shape[0] * count).reshape(shape)
        drawn, users = uniform_items(keys, items), self._train.user[rows]
        if self._unseen:
            self._seen.replace(users, drawn, keys)
        return Drawn(users.astype(np.int64), self._train.item[rows].astype(np.int64), drawn.astype(np.int64), rows)
