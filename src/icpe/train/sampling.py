"""The batches of an epoch, determined by the seed and the step number alone.

No random state is carried from step to step: every epoch and block has its own named stream. A run can therefore resume
at any step, and several workers could each sample their own part.
"""

from collections.abc import Callable, Iterator

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.rng import random_keys, stream
from icpe.train.batch import Negatives, SampledBatch
from icpe.train.drawing import SeenPairs, uniform_items
from icpe.types import IntArray

Resample = Callable[[SampledBatch, int, np.random.Generator], SampledBatch]

STEPS_PER_BLOCK = 64  # steps whose batches are sampled together; a compromise between the number of calls and memory


class Sampler:
    """Sampler of batches: shuffled positives, each epoch with new negatives.

    Args:
        train: the training part.
        negatives: which negatives to sample.
        batch_size: number of positives in a step.
        seed: seed of the run.
        resample: function that changes what was sampled for a step; see :class:`icpe.train.abilities.CustomSampling`.

    Raises:
        DataError: a user has used every item, so that no negative exists.
    """

    def __init__(
        self, train: Interactions, negatives: Negatives, batch_size: int, seed: int, resample: Resample | None = None
    ) -> None:
        self._train, self._negatives, self._batch_size, self._seed = train, negatives, batch_size, seed
        self._resample, self._seen = resample, SeenPairs(train)
        self.steps = -(-len(train) // batch_size)
        self._unseen = not (negatives.shared or negatives.seen)
        if self._unseen and int(train.user_counts.max()) >= len(train.items):
            user = train.users[int(train.user_counts.argmax())]
            raise DataError(
                f"user {user!r} has used all {len(train.items)} items, so no negative is left to sample. "
                "Remove such users, or use shared negatives (--method.loss softmax)"
            )

    def epoch(self, number: int, first_step: int = 0) -> Iterator[SampledBatch]:
        """Yield the batches of an epoch, starting at ``first_step``."""
        order = stream(self._seed, f"train/shuffle/{number}").permutation(len(self._train))
        keys = random_keys(self._seed, f"train/draw/{number}", self.steps if self._resample else 0)
        block, drawn = -1, SampledBatch(order, order, order, order)
        for step in range(first_step, self.steps):
            if step // STEPS_PER_BLOCK != block:
                block = step // STEPS_PER_BLOCK
                drawn = self._draw_block(number, block, order)
            place = step % STEPS_PER_BLOCK
            rows = slice(place * self._batch_size, (place + 1) * self._batch_size)
            mine = place if self._negatives.shared else rows
            made = SampledBatch(drawn.users[rows], drawn.items[rows], drawn.negatives[mine], drawn.rows[rows])
            if self._resample is not None:
                made = self._resample(made, number, np.random.Generator(np.random.Philox(key=int(keys[step]))))
            yield made

    def _draw_block(self, epoch: int, block: int, order: IntArray) -> SampledBatch:
        """Return the codes of all steps of a block, one step after the other."""
        items, count = len(self._train.items), self._negatives.count
        length = STEPS_PER_BLOCK * self._batch_size
        rows = order[block * length : (block + 1) * length]
        shape = (STEPS_PER_BLOCK if self._negatives.shared else len(rows), count)
        keys = random_keys(self._seed, f"train/negatives/{epoch}/{block}", shape[0] * count).reshape(shape)
        drawn, users = uniform_items(keys, items), self._train.user[rows]
        if self._unseen:
            self._seen.replace(users, drawn, keys)
        return SampledBatch(
            users.astype(np.int64), self._train.item[rows].astype(np.int64), drawn.astype(np.int64), rows
        )
