"""Users and items as all arms meet them: tastes, activity, groups of users and the quality of items."""

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
_CELLS = 1 << 22  # numbers held in memory at once


@dataclass(frozen=True, eq=False)
class Population:
    """The users and items of a world in one round, the same in all arms.

    The arrays also hold those who join in later rounds, at their ends; see :mod:`icpe.simulate.changes`.

    Attributes:
        world: the world with the true preferences of the round.
        activity: float64 [users], probability of each possible visit.
        group: int8 [users], place in :data:`GROUPS`.
        head: bool [items], the head items of the log before the first round.
        quality: float64 [items], mean true utility over all users.
        pairs: int64 [pairs, 2], users whose consumption is compared, the same in all arms.
        directions: float64 [items, traits], traits of the items with norm 1.
        users_present: number of users who have joined; they are the first ones.
        items_present: number of items that have joined.
    """

    world: World
    activity: FloatArray
    group: IntArray
    head: BoolArray
    quality: FloatArray
    pairs: IntArray
    directions: FloatArray
    users_present: int
    items_present: int

    @classmethod
    def of(cls, world: World) -> Self:
        """The population of a world in the first round.

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
            item_quality(world),
            _sample_pairs(len(log.users)),
            item_directions(world),
            len(log.users),
            len(log.items),
        )

    @property
    def users(self) -> int:
        """Number of users, including those who join later."""
        return len(self.world.log.users)

    @property
    def items(self) -> int:
        """Number of items, including those that join later."""
        return len(self.world.log.items)

    @property
    def truth(self) -> DotScores:
        """The true preferences of the users for the items who are present, as a table of scores."""
        world, users, items = self.world, slice(self.users_present), slice(self.items_present)
        return DotScores(world.user_tastes[users], world.item_traits[items], world.item_appeal[items])

    def preference(self, users: IntArray, items: IntArray) -> FloatArray:
        """True preference of each user for the items in their row, float64 [rows, k]; of item -1 it is -inf."""
        world = self.world
        total = world.item_appeal[items].astype(np.float64)
        rows = max(1, _CELLS // max(items.shape[1] * world.item_traits.shape[1], 1))
        for start in range(0, len(users), rows):
            part = slice(start, start + rows)
            tastes, traits = world.user_tastes[users[part]], world.item_traits[items[part]]
            total[part] += np.einsum("rd,rkd->rk", tastes, traits, dtype=np.float64)
        return np.asarray(np.where(items >= 0, total, -np.inf))


def _groups(of_head: FloatArray) -> IntArray:
    group, size = np.ones(len(of_head), np.int8), round(_GROUP_SHARE * len(of_head))
    order = np.argsort(of_head, kind="stable")
    group[order[:size]] = 0
    group[order[len(order) - size :]] = 2
    return group


def item_quality(world: World) -> FloatArray:
    """Mean true utility of each item over all users, float64 [items]."""
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


def item_directions(world: World) -> FloatArray:
    """Traits of the items with norm 1, float64 [items, traits]."""
    wide = world.item_traits.astype(np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12))
