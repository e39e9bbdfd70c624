"""Groups of users by how much of their profile is popular, as in Abdollahpouri et al. (2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from icpe.data.interactions import Interactions
from icpe.types import BoolArray, FloatArray, IntArray


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
        total = np.bincount(log.user, log.item_counts[log.item], len(log.users))
        popularity = np.divide(total, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
        return cls(sizes, np.bincount(log.user[head[log.item]], minlength=len(log.users)), popularity)


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
