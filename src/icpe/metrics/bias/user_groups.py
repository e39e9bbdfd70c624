"""Groups of users by how much of their profile is popular, as in Abdollahpouri et al. (2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import BoolArray, FloatArray, IntArray

_AT_ONCE = 1 << 22  # pairs that are counted at a time


@dataclass(frozen=True, eq=False)
class Profiles:
    """What the items of each user's profile have in common. A profile is the pairs of a user in the log.

    Attributes:
        sizes: int64 [users], number of items.
        head: int64 [users], number of head items.
        popularity: float64 [users], mean number of interactions of the items; NaN for users without a profile.
    """

    sizes: IntArray
    head: IntArray
    popularity: FloatArray

    @classmethod
    def of(cls, log: Interactions, head: BoolArray) -> "Profiles":
        """Return the profiles of all users of a log; ``head`` is a mask [items]."""
        sizes = log.user_counts
        total = sums_by_user(log, log.item_counts)
        popularity = np.divide(total, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
        return cls(sizes, sums_by_user(log, head).astype(np.int64), popularity)


def sums_by_user(log: Interactions, of_item: IntArray | BoolArray) -> FloatArray:
    """Return the sum of a whole number of each item over the profile of each user, float64 [users].

    It counts some million pairs at a time, because NumPy copies what it counts to 16 bytes per pair.
    """
    total = np.zeros(len(log.users))
    for first in range(0, len(log), _AT_ONCE):
        piece = slice(first, first + _AT_ONCE)
        total += np.bincount(log.user[piece], of_item[log.item[piece]], len(log.users))
    return total


@dataclass(frozen=True, eq=False)
class UserGroups:
    """A fifth of the users as niche users, a fifth as blockbuster users, and those between as mixed users.

    Attributes:
        codes: int8 [users]: 0 for niche, 1 for mixed, 2 for blockbuster users, and -1 for users without a profile.
    """

    NAMES: ClassVar = ("niche_users", "mixed_users", "blockbuster_users")
    codes: IntArray

    @classmethod
    def of(cls, profiles: Profiles) -> "UserGroups":
        """Return the groups: users are sorted by the share of head items in their profile.

        Users with equal shares are sorted by the mean popularity of their items, then by their code. The fifths are
        rounded to whole users, so fewer than three users are all mixed.

        Example:
            >>> heads, sizes = np.array([4, 0, 2, 2, 2]), np.full(5, 4)
            >>> UserGroups.of(Profiles(sizes, heads, np.arange(5.0))).codes.tolist()
            [2, 0, 1, 1, 1]
        """
        known = np.flatnonzero(profiles.sizes)
        share = profiles.head[known] / profiles.sizes[known]
        order = known[np.lexsort((profiles.popularity[known], share))]
        fifth = (2 * len(known) + 5) // 10
        codes = np.full(len(profiles.sizes), -1, np.int8)
        codes[order] = 1
        codes[order[:fifth]] = 0
        codes[order[len(order) - fifth :]] = 2
        return cls(codes)

    def members(self, users: IntArray) -> dict[str, BoolArray]:
        """Masks [users] of the members of each group among these user codes, by the name of the group."""
        codes = self.codes[users]
        return {name: codes == code for code, name in enumerate(self.NAMES)}
