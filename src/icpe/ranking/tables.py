"""Tables of scores, the interface between models and ranking.

All arrays are NumPy float32. A table is a snapshot of the model: create a new one after a training step.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from icpe.types import FloatArray, IntArray

if TYPE_CHECKING:  # lists from saved vectors need no torch, and importing it takes a second
    from torch import Tensor

TILE_SIZE = 2**20  # numbers in a broadcast tile of PairScores: 4 MB in float32, and every layer of a network needs more
ITEMS_AT_ONCE = 2048  # for NeuMFScores, so that the output of a layer stays in the cache for the next one


class ScoreTable(Protocol):
    """Scores of all users for all items, computed block by block. Several threads ask for blocks at the same time.

    Lists do not depend on the division into blocks if a score does not depend on its block, or if the table holds inner
    products. Ranking computes the best inner products again in a fixed order of summation.
    """

    @property
    def users(self) -> int:
        """Number of users."""

    @property
    def items(self) -> int:
        """Number of items."""

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""


def to_numpy(values: "Tensor") -> FloatArray:
    """Tensor as a contiguous float32 array. It shares memory with a tensor that already is one."""
    import torch

    array: FloatArray = values.detach().to("cpu", torch.float32).contiguous().numpy()
    return array


def squared_lengths(rows: FloatArray) -> FloatArray:
    """Squared length of each row, float64 [rows]."""
    return np.asarray(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class DotScores:
    """Table of inner products: ``user_vectors[u] · item_vectors[i] (+ item_bias[i])``.

    Attributes:
        user_vectors: float32 [users, dim].
        item_vectors: float32 [items, dim].
        item_bias: float32 [items], or None.

    Example:
        >>> table = DotScores(np.eye(2, dtype=np.float32), np.array([[1, 2], [3, 4], [5, 6]], np.float32))
        >>> table.block(np.array([1]), 1, 3)
        array([[4., 6.]], dtype=float32)
    """

    user_vectors: FloatArray
    item_vectors: FloatArray
    item_bias: FloatArray | None = None

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.user_vectors)

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.item_vectors)

    @cached_property
    def longest(self) -> float:
        """Length of the longest item vector. Ranking needs it for every request, so it is computed once."""
        return float(np.sqrt(squared_lengths(self.item_vectors).max(initial=0.0)))

    @cached_property
    def highest(self) -> float:
        """Largest absolute value of a finite item bias."""
        if self.item_bias is None:
            return 0.0
        return float(np.abs(self.item_bias[np.isfinite(self.item_bias)]).max(initial=0.0))

    def changed(self, **changes: Any) -> Self:
        """Return the table with other users or another bias. It does not measure the item vectors again."""
        table = replace(self, **changes)
        table.__dict__["longest"] = self.longest
        return table

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        return next(self.blocks(users, [(start, stop)]))

    def blocks(self, users: IntArray, tiles: Iterable[tuple[int, int]]) -> Iterator[FloatArray]:
        """Yield :meth:`block` of each tile of items. A block is valid until the next one, which takes its memory."""
        rows = self.user_vectors[users]
        memory = np.empty(0, np.result_type(rows, self.item_vectors))
        for start, stop in tiles:
            size = len(rows) * (stop - start)
            if size > len(memory):
                # New memory is slow for the first time, the more so while other threads ask for some.
                memory = np.empty(size, memory.dtype)
            scores: FloatArray = memory[:size].reshape(len(rows), stop - start)
            # NumPy's BLAS instead of torch's: it is twice as fast where the inner dimension is that of an embedding.
            np.matmul(rows, self.item_vectors[start:stop].T, out=scores)
            if self.item_bias is not None:
                scores += self.item_bias[start:stop]
            yield scores


@dataclass(frozen=True, eq=False)
class FixedScores:
    """Table of scores that are in memory.

    Attributes:
        values: float32 [users, items].
    """

    values: FloatArray

    @property
    def users(self) -> int:
        """Number of users."""
        return len(self.values)

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.values.shape[1])

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        return self.values[users, start:stop]


@dataclass(frozen=True, eq=False)
class DerivedScores:
    """Base of tables that are derived from another table. Subclasses define ``block``."""

    table: ScoreTable

    @property
    def users(self) -> int:
        """Number of users."""
        return self.table.users

    @property
    def items(self) -> int:
        """Number of items."""
        return self.table.items


@dataclass(frozen=True, eq=False)
class BiasedScores(DerivedScores):
    """Scores of another table plus a bias per item.

    Attributes:
        table: the original scores.
        item_bias: float32 [items].
    """

    item_bias: FloatArray

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        return self.table.block(users, start, stop) + self.item_bias[start:stop]


@dataclass(frozen=True, eq=False)
class ScaledScores(DerivedScores):
    """Scores of another table times a factor per item.

    Attributes:
        table: the original scores.
        item_factor: float32 [items].
    """

    item_factor: FloatArray

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        return self.table.block(users, start, stop) * self.item_factor[start:stop]


@dataclass(frozen=True, eq=False)
class SumScores:
    """Sum of two tables with the same users and items."""

    first: ScoreTable
    second: ScoreTable

    @property
    def users(self) -> int:
        """Number of users."""
        return self.first.users

    @property
    def items(self) -> int:
        """Number of items."""
        return self.first.items

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        return self.first.block(users, start, stop) + self.second.block(users, start, stop)


def with_bias(table: ScoreTable, item_bias: FloatArray) -> ScoreTable:
    """Scores plus a bias per item, float32 [items]. A table of inner products stays one."""
    if isinstance(table, DotScores):
        return table.changed(item_bias=item_bias if table.item_bias is None else table.item_bias + item_bias)
    return BiasedScores(table, item_bias)


def of_users(table: ScoreTable, take: Callable[[FloatArray], FloatArray]) -> ScoreTable:
    """Table of other users: ``take`` turns what the table has for each of its users into that for the other ones.

    Raises:
        TypeError: the table does not hold such rows.
    """
    if isinstance(table, DotScores):
        return table.changed(user_vectors=take(table.user_vectors))
    if isinstance(table, BiasedScores):
        return replace(table, table=of_users(table.table, take))
    if isinstance(table, NeuMFScores):
        linear = table.linear.changed(user_vectors=take(table.linear.user_vectors))
        return replace(table, linear=linear, user_hidden=take(table.user_hidden))
    raise TypeError(f"{type(table).__name__} has no rows of users")


def takes_users_singly(table: ScoreTable) -> bool:
    """Whether a table scores one user after the other, so that many users together take as long as one by one."""
    while isinstance(table, DerivedScores):
        table = table.table
    return isinstance(table, NeuMFScores)


class PairScores:
    """Scores of any backbone, computed pair by pair in tiles that bound the memory.

    Args:
        score: function that returns logits of broadcast representations, [..., D] × [..., D] → [...].
        z_user: representations of all users, [users, D].
        z_item: representations of all items, [items, D].
        tile_size: largest number of values in one broadcast tile, which bounds the memory.
    """

    def __init__(
        self,
        score: "Callable[[Tensor, Tensor], Tensor]",
        z_user: "Tensor",
        z_item: "Tensor",
        tile_size: int = TILE_SIZE,
    ) -> None:
        self._score, self._tile_size = score, tile_size
        self._z_user = z_user.detach()
        self._z_item = z_item.detach()
        self.users = len(z_user)
        self.items = len(z_item)

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        import torch

        z_item = self._z_item[start:stop]
        z_user = self._z_user[torch.as_tensor(users, dtype=torch.int64, device=self._z_user.device)]
        scores = np.empty((len(z_user), len(z_item)), np.float32)
        pairs = max(1, self._tile_size // max(1, z_user.shape[1]))
        wide = max(1, min(len(z_item), pairs))
        tall = max(1, pairs // wide)
        with torch.no_grad():
            for row in range(0, len(z_user), tall):
                for column in range(0, len(z_item), wide):
                    tile = self._score(z_user[row : row + tall, None], z_item[None, column : column + wide])
                    scores[row : row + tall, column : column + wide] = to_numpy(tile)
        return scores


@dataclass(frozen=True, eq=False)
class NeuMFScores:
    """Scores of NeuMF. The first hidden layer is split, W₁[m_u; m_i] = W₁ᵘm_u + W₁ⁱm_i, and each side computed once.

    Attributes:
        linear: GMF part of the score plus the bias of the output, an inner product.
        user_hidden: the user's part of the first layer before ReLU, including the bias, float32 [users, width].
        item_hidden: the item's part, float32 [items, width].
        layers: weights [in, out] and biases [out] of the further hidden layers.
        output: weights of the output for the last hidden layer, float32 [width of the last layer].
        items_at_once: number of items that go through the layers together. It affects the speed only.
    """

    linear: DotScores
    user_hidden: FloatArray
    item_hidden: FloatArray
    layers: Sequence[tuple[FloatArray, FloatArray]]
    output: FloatArray
    items_at_once: int = ITEMS_AT_ONCE

    @property
    def users(self) -> int:
        """Number of users."""
        return self.linear.users

    @property
    def items(self) -> int:
        """Number of items."""
        return self.linear.items

    def block(self, users: IntArray, start: int, stop: int) -> FloatArray:
        """Scores of these users for items ``start`` to ``stop``, float32 [len(users), stop - start]."""
        import torch

        scores = np.empty((len(users), stop - start), np.float32)
        user_hidden = torch.from_numpy(self.user_hidden[users])
        item_hidden = torch.from_numpy(self.item_hidden)
        layers = [(torch.from_numpy(weight), torch.from_numpy(bias)) for weight, bias in self.layers]
        output = torch.from_numpy(self.output)
        size, widths = self.items_at_once, (item_hidden.shape[1], *(len(bias) for _, bias in layers))
        tiles = [torch.empty(size, width) for width in widths]
        for first in range(start, stop, size):
            last = min(first + size, stop)
            part, fitting = item_hidden[first:last], [tile[: last - first] for tile in tiles]
            # One user at a time: products of another shape round differently, so scores would depend on others.
            for row, user, of_user in zip(scores, users, user_hidden, strict=True):
                tower = _tower(of_user, part, layers, fitting).mv(output).numpy()
                row[first - start : last - start] = self.linear.block(np.array([user]), first, last)[0] + tower
        return scores


def _tower(
    of_user: "Tensor", of_items: "Tensor", layers: "Sequence[tuple[Tensor, Tensor]]", tiles: "Sequence[Tensor]"
) -> "Tensor":
    """Last hidden layer of one user with each of several items. All layers are written to ``tiles``."""
    import torch

    # torch instead of NumPy: it adds the bias while it multiplies, and its ReLU is faster.
    hidden = torch.add(of_items, of_user, out=tiles[0]).relu_()
    for (weight, bias), tile in zip(layers, tiles[1:], strict=True):
        hidden = torch.addmm(bias, hidden, weight, out=tile).relu_()
    return hidden
