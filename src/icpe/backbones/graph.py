"""The normalised graph of training pairs, and products with its matrix.

Nodes are the users and then the items. The matrix is Â = D^-1/2 A D^-1/2 of the bipartite adjacency A, without
self-loops; a node without pairs has an empty row.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.kernels.propagate import WORTH_COMPILING_PRODUCT, multiply, multiply_few, multiply_rows
from icpe.threads import run_parts, stretches
from icpe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Graph:
    """A sparse square matrix stored by rows (CSR). Its pattern is symmetric, but its values need not be.

    Attributes:
        starts: where each node's row starts, int [nodes + 1].
        columns: the neighbour of each stored entry, int [entries], ascending in each row.
        mirror: where each entry's mirror image (column, row) is stored, int [entries].
        values: floating [entries].
        symmetric: whether an entry always equals its mirror image.
    """

    starts: Tensor
    columns: Tensor
    mirror: Tensor
    values: Tensor
    symmetric: bool = True
    _memory: "_Memory" = field(default_factory=lambda: _Memory(), repr=False)
    _moved: dict[tuple[torch.device, torch.dtype], "Graph"] = field(default_factory=dict, init=False, repr=False)

    @property
    def nodes(self) -> int:
        """Number of rows, and of columns."""
        return len(self.starts) - 1

    def like(self, dense: Tensor) -> "Graph":
        """Return the graph on the device and in the precision of ``dense``. Each is created only once."""
        key = dense.device, dense.dtype
        if key == (self.values.device, self.values.dtype):
            return self
        if key not in self._moved:
            starts, columns, mirror = (part.to(dense.device) for part in (self.starts, self.columns, self.mirror))
            self._moved[key] = Graph(starts, columns, mirror, self.values.to(dense), self.symmetric)
        return self._moved[key]

    def scaled(self, factor: float) -> "Graph":
        """Return the graph with all values multiplied by a number."""
        return replace(self, values=self.values * factor)

    def drop(self, share: float, rng: torch.Generator | None) -> "Graph":
        """Return the graph with each entry dropped with probability ``share`` and the others divided by 1 - share."""
        kept, values = keep_mask(self.values, 1 - share, rng), torch.empty_like(self.values)
        _by_stretches(lambda part: torch.mul(self.values[part], kept[part], out=values[part]).div_(1 - share), values)
        return replace(self, values=values, symmetric=False)

    @cached_property
    def transposed(self) -> "Graph":
        """The transposed graph. A symmetric graph is its own transpose."""
        if self.symmetric:
            return self
        values = torch.empty_like(self.values)
        _by_stretches(lambda part: torch.index_select(self.values, 0, self.mirror[part], out=values[part]), values)
        return replace(self, values=values)

    def times(
        self,
        dense: Tensor,
        plus: Tensor | None = None,
        keep: Tensor | None = None,
        places: Tensor | None = None,
        nodes: tuple[int, int] | None = None,
    ) -> Tensor:
        """Return the product with ``dense``, plus ``plus``, and 0 where ``keep`` is false.

        Gradients do not flow through it. Large products on the CPU use a kernel, all others the product of torch.

        Args:
            dense: floating [nodes, width].
            plus: floating [nodes, width]; with ``places``, only the rows that are not 0.
            keep: bool [nodes, width].
            places: position of the row of each node in ``plus``, int32 [nodes], or -1 for a row of zeros.
            nodes: first node of the result and last node + 1; None for all nodes.
        """
        first, last = nodes or (0, self.nodes)
        if not self._compiles(dense):
            result = self._matrix @ dense.detach()
            if plus is not None:
                result += plus.detach() if places is None else _spread(plus.detach(), places[: self.nodes])
            return (result if keep is None else result.mul_(keep))[first:last]
        result = self._memory.take(last - first, dense)
        multiply(
            *self._arrays,
            _array(dense),
            result.numpy(),
            plus=None if plus is None else _array(plus),
            keep=None if keep is None else keep.numpy(),
            places=None if places is None else places.numpy(),
            begin=first,
        )
        return result

    def times_few(
        self,
        dense: Tensor,
        plus: Tensor,
        keep: Tensor | None,
        places: Tensor,
        nodes: tuple[int, int] | None = None,
    ) -> Tensor:
        """Return the same as :meth:`times` if ``dense``, like ``plus``, contains only the rows that are not 0."""
        if not self._compiles(dense):
            return self.times(_spread(dense, places), plus, keep, places, nodes)
        first, last = nodes or (0, self.nodes)
        result = self._memory.take(last - first, dense)
        multiply_few(
            *self._arrays,
            _array(dense),
            places.numpy(),
            result.numpy(),
            plus=_array(plus),
            keep=None if keep is None else keep.numpy(),
            begin=first,
        )
        return result

    def rows_times(self, rows: Tensor, dense: Tensor) -> Tensor:
        """Return some rows of the product with ``dense``, int64 [n] → [n, width]."""
        if not self._compiles(dense):
            return (self._matrix @ dense.detach()).index_select(0, rows)
        result = torch.empty((len(rows), dense.shape[1]), dtype=dense.dtype)
        multiply_rows(*self._arrays, _array(dense), rows.numpy(), result.numpy())
        return result

    def room(self, rows: int, like: Tensor) -> Tensor:
        """Return an uninitialised table [rows, width] with the width and type of ``like``, if possible a used one."""
        return self._memory.take(rows, like) if self._compiles(like) else like.new_empty(rows, like.shape[1])

    def stack(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the rows of all users and then of all items, without gradients."""
        parts = users.detach(), items.detach()
        if not self._compiles(users):
            return torch.cat(parts)
        stacked = self._memory.take(self.nodes, users)
        for rows, place in zip(parts, torch.tensor_split(stacked, (len(users),)), strict=True):
            _copy(rows, place)
        return stacked

    def _compiles(self, dense: Tensor) -> bool:
        return dense.device.type == "cpu" and self._entries * dense.shape[1] >= WORTH_COMPILING_PRODUCT

    @property
    def _entries(self) -> int:
        """Number of stored entries of the whole matrix."""
        return len(self.columns)

    @property
    def _width(self) -> int:
        """Number of columns."""
        return self.nodes

    @property
    def _arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        return self.starts.numpy(), self.columns.numpy(), self.values.numpy()

    @cached_property
    def _matrix(self) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
            size = (self.nodes, self._width)
            return torch.sparse_csr_tensor(self.starts, self.columns, self.values, size, check_invariants=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # the graph never changes, so copies of a model share it


class _Memory:
    """Tables that are reused as soon as nothing refers to them, because new memory costs as much as half a product.

    NumPy allocates them, because it requests large pages, to which random access is up to a third faster.
    """

    def __init__(self) -> None:
        self._tables: list[tuple[FloatArray, ref[FloatArray]]] = []
        self._lock = Lock()

    def take(self, rows: int, like: Tensor) -> Tensor:
        """Return an uninitialised table [rows, width] with the width and type of ``like``."""
        shape, kind = (rows, like.shape[1]), like.numpy(force=True).dtype
        with self._lock:
            table = self._free(shape, kind)
            handed_out = table[:]  # the view lives as long as any tensor that shares its memory
            self._tables.append((table, ref(handed_out)))
            return torch.from_numpy(handed_out)

    def _free(self, shape: tuple[int, int], kind: Any) -> FloatArray:
        for place, (table, holder) in enumerate(self._tables):
            if holder() is None and table.shape == shape and table.dtype == kind:
                return self._tables.pop(place)[0]
        # Free tables of another width or type are probably not needed again; if they are, they are created again.
        self._tables = [
            (table, holder)
            for table, holder in self._tables
            if holder() is not None or (table.shape[1], table.dtype) == (shape[1], kind)
        ]
        return np.empty(shape, kind)


def _array(dense: Tensor) -> FloatArray:
    array: FloatArray = dense.detach().contiguous().numpy()
    return array


def _spread(rows: Tensor, places: Tensor) -> Tensor:
    """Return the whole table, given the rows that are not 0 and the position of each node's row, or -1."""
    padded = torch.cat((rows, rows.new_zeros(1, rows.shape[1])))
    return padded.index_select(0, torch.where(places < 0, len(rows), places))


_GRAPHS: WeakKeyDictionary[Interactions, Graph] = WeakKeyDictionary()


def graph_of(train: Interactions) -> Graph:
    """Return the normalised graph Â of the pairs of a log, in float64. Models of the same log share it."""
    if train not in _GRAPHS:
        _GRAPHS[train] = build_graph(train.user, train.item, len(train.users), len(train.items))
    return _GRAPHS[train]


def build_graph(user: IntArray, item: IntArray, users: int, items: int) -> Graph:
    """Return the normalised graph Â of distinct pairs, which must be ordered by user and item, in float64."""
    pairs = len(user)
    # Sorting packed numbers is several times faster than sorting positions by item.
    by_item = np.sort((item.astype(np.int64) << 32) | np.arange(pairs)) & 0xFFFFFFFF
    back = np.empty(pairs, np.int64)
    back[by_item] = np.arange(pairs)
    counts = np.concatenate([np.bincount(user, minlength=users), np.bincount(item, minlength=items)])
    of_node = 1 / np.sqrt(np.maximum(counts, 1))
    value = of_node[user] * of_node[users:][item]
    kind = np.int32 if 2 * pairs < 2**31 else np.int64
    return Graph(
        starts=torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(kind)),
        columns=torch.from_numpy(np.concatenate([item.astype(np.int64) + users, user[by_item]]).astype(kind)),
        mirror=torch.from_numpy(np.concatenate([pairs + back, by_item]).astype(kind)),
        values=torch.from_numpy(np.concatenate([value, value[by_item]])),
    )


def keep_mask(like: Tensor, keep: float, rng: torch.Generator | None) -> Tensor:
    """Return a mask with the shape and device of ``like``, true with probability ``keep`` rounded to 1/65536.

    Each 64-bit random number gives four entries, which is several times faster than Bernoulli sampling in torch.
    """
    device = like.device if rng is None else rng.device
    bits = torch.empty(like.numel() // 4 + 1, dtype=torch.int64, device=device).random_(-(2**63), None, generator=rng)
    numbers, mask = bits.view(torch.int16), torch.empty(like.numel(), dtype=torch.bool, device=device)
    bound = round(keep * 65536) - 32768
    _by_stretches(lambda part: torch.lt(numbers[part], bound, out=mask[part]), mask)
    return mask.view(like.shape).to(like.device)


def _copy(rows: Tensor, place: Tensor) -> None:
    _by_stretches(lambda part: place[part].copy_(rows[part]), rows)


def _by_stretches(work: Callable[[slice], object], rows: Tensor) -> None:
    """Call ``work`` for stretches of rows that do not depend on each other, on several threads."""
    parts = stretches(len(rows)) if rows.device.type == "cpu" else [(0, len(rows))]
    run_parts(lambda first, last: work(slice(first, last)), parts)
