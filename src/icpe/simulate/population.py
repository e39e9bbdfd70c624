"""What stays the same in all arms and rounds: tastes, activity, groups of users and the quality of items."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from icpe.data.popularity import head_mask
from icpe.data.world import World
from icpe.ranking.tables import DotScores
from icpe.rng import stream
from icpe.simulate.choices import utility
from icpe.types import BoolArray, FloatArray, IntArray

GROUPS = ("niche", "mixed", "blockbuster")
_GROUP_SHARE = 0.2  # the fifth of the users with the smallest and with the largest share of head items
_PAIRS = 2000  # of users whose consumption is compared
_CELLS = 1 << 22  # preferences held in memory at once


@dataclass(frozen=True, eq=False)
class Population:
    """The users and items of a world, as they are before the first round.

    Attributes:
        world: the world with its true preferences.
        activity: float64 [users], probability of each possible visit.
        group: int8 [users], place in :data:`GROUPS`.
        head: bool [items], the head items of the log before the first round.
        quality: float64 [items], mean true utility over all users.
        pairs: int64 [pairs, 2], users whose consumption is compared, the same in all arms.
        directions: float64 [items, traits], traits of the items with norm 1.
    """

    world: World
    activity: FloatArray
    group: IntArray
    head: BoolArray
    quality: FloatArray
    pairs: IntArray
    directions: FloatArray

    @classmethod
    def of(cls, world: World) -> Self:
        """The population of a world.

        A user with c interactions in the log visits with probability c / (c + mean c). The fifth of the users with the
        smallest share of head items in their history is the group *niche*, the fifth with the largest is *blockbuster*.
        """
        log = world.log
        counts, head = log.user_counts, head_mask(log.item_counts)
        of_head = np.bincount(log.user, head[log.item], len(log.users)) / np.maximum(counts, 1)
        return cls(
            world,
            counts / (counts + counts.mean()),
            _groups(of_head),
            head,
            _quality(world),
            _sample_pairs(len(log.users)),
            _unit(world.item_traits),
        )

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.world.log.users)

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.world.log.items)

    @property
    def truth(self) -> DotScores:
        """The true preferences as a table of scores."""
        return DotScores(self.world.user_tastes, self.world.item_traits, self.world.item_appeal)

    def preference(self, users: IntArray, items: IntArray) -> FloatArray:
        """True preference of each user for the items in their row, float64 [rows, k]; of item -1 it is -inf."""
        world = self.world
        total = world.item_appeal[items].astype(np.float64)
        for taste, trait in zip(world.user_tastes.T, world.item_traits.T, strict=True):
            total += taste[users, None] * trait[items]
        return np.asarray(np.where(items >= 0, total, -np.inf))


def _groups(of_head: FloatArray) -> IntArray:
    group, size = np.ones(len(of_head), np.int8), round(_GROUP_SHARE * len(of_head))
    order = np.argsort(of_head, kind="stable")
    group[order[:size]] = 0
    group[order[len(order) - size :]] = 2
    return group


def _quality(world: World) -> FloatArray:
    table = DotScores(world.user_tastes, world.item_traits, world.item_appeal)
    total, rows = np.zeros(table.items), max(1, _CELLS // table.items)
    for start in range(0, table.users, rows):
        users = np.arange(start, min(start + rows, table.users))
        total += utility(table.block(users, 0, table.items)).sum(axis=0)
    return np.asarray(total / table.users)


def _sample_pairs(users: int) -> IntArray:
    """Distinct partners for each pair; the same pairs whatever the seed of the simulation."""
    rng = stream(0, "simulate/pairs")
    first = rng.integers(users, size=_PAIRS)
    return np.stack([first, (first + rng.integers(1, users, size=_PAIRS)) % users], axis=1)


def _unit(vectors: FloatArray) -> FloatArray:
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12))
