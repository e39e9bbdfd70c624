"""Small generated logs for tests."""

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions


def skewed_log(
    users: int = 300, items: int = 120, pairs: int = 6000, seed: int = 0, times: bool = True
) -> Interactions:
    """Return a log with a long tail: the popularity of items falls by a power law. Repeated pairs count once.

    Example:
        >>> skewed_log(users=50, items=20, pairs=400)
        Interactions(50 users, 20 items, 283 interactions)
    """
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "user_id": rng.integers(0, users, pairs),
            "item_id": (items * rng.random(pairs) ** 2.5).astype(int),
            "timestamp": rng.integers(1_500_000_000, 1_600_000_000, pairs),
        }
    )
    return Interactions.read(frame if times else frame.drop("timestamp"))
