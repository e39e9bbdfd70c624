"""What ranking asks of a model."""

from typing import Protocol

from icpe.types import FloatArray, IntArray


class ScoreTable(Protocol):
    """Scores of all users for all items, computed where asked.

    Lists are the same bit for bit however the table is cut if a score does not depend on the block it is in, or if
    the table is one of inner products (:class:`icpe.rank.exact.Products`), whose scores are computed anew for lists.
    """

    @property
    def users(self) -> int:
        """Number of users."""

    @property
    def items(self) -> int:
        """Number of items."""

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores float32 [len(users), stop - start] of the users with the items from ``start`` to ``stop`` - 1."""
