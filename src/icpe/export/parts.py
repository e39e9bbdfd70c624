"""What all formats share: the scores without the dial, the dial's direction, and the tables of users and items."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe.data.popularity import head_mask
from icpe.errors import IcpeError
from icpe.ranking.tables import ScoreTable
from icpe.recommender.model import Model
from icpe.train.abilities import OwnDirection
from icpe.train.dial import dial_direction
from icpe.types import FloatArray

ID, VECTOR, OFFSET, COUNT, HEAD, SEEN = "id", "vector", "offset", "count", "head", "seen"


@dataclass(frozen=True, eq=False)
class Dial:
    """The scores of a model taken apart: an item's score is its score in ``table`` plus β times its ``direction``.

    Attributes:
        table: the scores with the dial at rest.
        direction: what the dial adds a multiple of, float32 [items].
        beta: the setting of the model.
        source: where the direction comes from, in words.
    """

    table: ScoreTable
    direction: FloatArray
    beta: float
    source: str

    @classmethod
    def of(cls, model: Model) -> "Dial":
        """Return the parts of a model's scores."""
        direction = dial_direction(model.method, model.log)
        check_finite(direction)
        own = isinstance(model.method, OwnDirection)
        source = f"learned by {model.method.label}" if own else "log popularity"
        return cls(model.ranker.scores(beta=0.0), direction, model.beta, source)

    def described(self, rule: str) -> dict[str, Any]:
        """Return what a description of the export says about the dial."""
        return {"rule": rule, "beta": self.beta, "direction": self.source}


def check_finite(*arrays: FloatArray) -> None:
    """Raise an error if a number is NaN or infinite.

    Raises:
        IcpeError: the model has diverged.
    """
    if not all(bool(np.isfinite(one).all()) for one in arrays):
        raise IcpeError(
            "the model contains NaN or infinite numbers, so nothing was exported. It has diverged: train with a "
            "smaller learning rate"
        )


def parquet_writer(frame: pl.DataFrame) -> Callable[[Path], None]:
    """Return a function that writes a table as Parquet with Snappy, the compression that every reader knows."""
    return lambda path: frame.write_parquet(path, compression="snappy")


def item_table(model: Model, direction: FloatArray) -> pl.DataFrame:
    """Return a row per item in code order: ``id, offset, count, head``.

    ``offset`` is the dial's direction, of which ranking adds β times; ``count`` is the number of training pairs.
    """
    counts = model.log.item_counts
    return pl.DataFrame(
        {ID: model.log.items, OFFSET: direction, COUNT: counts.astype(np.int64), HEAD: head_mask(counts)}
    )


def user_table(model: Model, items: pl.Series) -> pl.DataFrame:
    """Return a row per user in code order: ``id, count, seen``.

    Args:
        model: the trained model.
        items: what the export calls the items, by code. ``seen`` lists a user's training items by these names.
    """
    log = model.log
    pairs = pl.DataFrame({"user": log.user, SEEN: items.gather(log.item)})
    seen = pairs.group_by("user", maintain_order=True).agg(SEEN)
    users = pl.DataFrame({ID: log.users, COUNT: log.user_counts.astype(np.int64)}).with_row_index("user")
    users = users.with_columns(pl.col("user").cast(seen.schema["user"]))
    joined = users.join(seen, on="user", how="left", maintain_order="left").drop("user")
    return joined.with_columns(pl.col(SEEN).fill_null([]))
