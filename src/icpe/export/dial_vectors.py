"""Vectors whose inner product is the score at any setting of the dial."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from icpe.errors import ConfigError
from icpe.export.parts import Dial, check_finite
from icpe.ranking.tables import DotScores
from icpe.recommender.model import Model
from icpe.types import FloatArray

RULE = (
    "The score of an item is the inner product of the user's vector and the item's vector. The last coordinate of a "
    "user's vector is beta, the setting of the dial. To rank with another setting, write it there; the items stay as "
    "they are."
)


@dataclass(frozen=True, eq=False)
class DialVectors:
    """Vectors of users and items with the dial as their last coordinate.

    An item ends with its direction, and a user with β, so the inner product is ``score + β · direction``. Numbers that
    the method itself adds to the items, such as those of MACR, take one coordinate more, where every user has a 1.

    Attributes:
        users: float32 [users, width].
        items: float32 [items, width].
        dial: the parts of the scores.
    """

    users: FloatArray
    items: FloatArray
    dial: Dial

    @classmethod
    def of(cls, model: Model) -> "DialVectors":
        """Return the vectors of a model.

        Raises:
            ConfigError: the scores of the model are not inner products.
            IcpeError: the model has diverged.
        """
        dial = Dial.of(model)
        table = dial.table
        if not isinstance(table, DotScores):
            raise ConfigError(
                f"{model.method.label} on {model.method.backbone.label} has no vectors whose inner product is the "
                "score, which vectors and Faiss need. Pass it to icpe.export.to_onnx (command line: --to onnx), which "
                "computes its layers"
            )
        added = [] if table.item_bias is None else [(np.float32(1.0), table.item_bias)]
        added.append((np.float32(dial.beta), dial.direction))
        of_users = [np.full(table.users, number, np.float32) for number, _ in added]
        users = np.column_stack([table.user_vectors, *of_users])
        items = np.column_stack([table.item_vectors, *(column for _, column in added)])
        check_finite(users, items)
        return cls(users, items, dial)

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self.users.shape[1])

    def at(self, beta: float, users: Any = slice(None)) -> FloatArray:
        """Return the vectors of users with the dial at ``beta``, float32 [users, width]."""
        vectors: FloatArray = self.users[users].copy()
        vectors[:, -1] = beta
        return vectors

    def described(self) -> dict[str, Any]:
        """Return what a description of the export says about the vectors and the dial."""
        return {
            "metric": "inner product",
            "width": self.width,
            "dial": {**self.dial.described(RULE), "coordinate": self.width - 1},
        }
