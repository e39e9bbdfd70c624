"""Light graph convolution on several processes: each holds some rows of the graph's matrix and of every layer.

A product needs the whole layer before it, so the processes exchange their rows of a layer, and each computes its own
rows of the next one. No sum is divided among processes, so that all numbers have the same bits as in one process.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from icpe.backbones.graph import Graph
from icpe.shards import Group, Share
from icpe.types import IntArray

_DRAWN = 1 << 22  # random numbers that are drawn at a time if a process keeps only its share


@dataclass(frozen=True)
class Layout:
    """Which nodes each process holds, and the order in which this process numbers them.

    Nodes are the users and then the items. A process numbers its own nodes first, so that the rows and the columns of
    its part of the matrix have the same numbers, and then those of the other processes.

    Attributes:
        users: share of the users.
        items: share of the items.
    """

    users: Share
    items: Share

    @property
    def group(self) -> Group:
        """The processes."""
        return self.users.group

    @property
    def nodes(self) -> int:
        """Number of nodes of all processes."""
        return self.users.rows + self.items.rows

    @property
    def counts(self) -> list[int]:
        """Number of nodes of each process."""
        return [users + items for users, items in zip(self.users.counts, self.items.counts, strict=True)]

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """First and last + 1 of the own users, and of the own items, in the numbers of all nodes."""
        shift = self.users.rows
        return [(self.users.first, self.users.last), (shift + self.items.first, shift + self.items.last)]

    @cached_property
    def places(self) -> list[slice]:
        """Where this process keeps the nodes of each process."""
        counts, rank = self.counts, self.group.rank
        starts = np.cumsum([0, *(count for other, count in enumerate(counts) if other != rank)]) + counts[rank]
        others = iter(starts.tolist())
        return [
            slice(0, count) if other == rank else slice(at := next(others), at + count)
            for other, count in enumerate(counts)
        ]

    @cached_property
    def number(self) -> Tensor:
        """The number of each node in this process, int64 [nodes]."""
        number = torch.empty(self.nodes, dtype=torch.int64)
        shift = self.users.rows
        for rank, place in enumerate(self.places):
            (first, last), (begin, end) = self.users.bounds[rank : rank + 2], self.items.bounds[rank : rank + 2]
            number[first:last] = torch.arange(place.start, place.start + last - first)
            number[shift + begin : shift + end] = torch.arange(place.start + last - first, place.stop)
        return number

    def all_of(self, graph: Graph, mine: Tensor) -> Tensor:
        """Return the rows of all nodes in the order of this process, given its own."""
        return self.group.filled(graph.room(self.nodes, mine), mine, self.places)

    def spread(self, mine: Tensor, nodes: Tensor) -> Tensor:
        """Return rows for distinct, ascending nodes that all processes ask for alike, given those of this process."""
        asked = nodes.cpu().numpy()
        split = int(np.searchsorted(asked, self.users.rows))
        of_users = np.searchsorted(self.users.bounds, asked[:split], side="right") - 1
        of_items = np.searchsorted(self.items.bounds, asked[split:] - self.users.rows, side="right") - 1
        owner = np.concatenate([of_users, of_items])
        rows = self.group.gathered(mine, np.bincount(owner, minlength=self.group.size).tolist())
        order = np.empty(len(owner), np.int64)
        order[np.argsort(owner, kind="stable")] = np.arange(len(owner))
        return rows[torch.from_numpy(order).to(rows.device)]

    def own(self, nodes: Tensor) -> Tensor:
        """Return the numbers in this process of those of the given nodes that it holds, in their order."""
        number = self.number.to(nodes.device)[nodes]
        return number[number < self.counts[self.group.rank]]


@dataclass(frozen=True, eq=False)
class SharedGraph(Graph):
    """Some rows of the matrix of a graph, with columns in the numbers of :class:`Layout`.

    ``mirror`` is where the mirror image is stored in the whole matrix.

    Attributes:
        layout: which nodes this process holds.
        entries: number of stored entries of the whole matrix.
        spans: stretches of these entries that this process stores.
        mirrored: values of the mirror images, floating [stored entries], if they differ from the values.
    """

    layout: Layout = field(kw_only=True)
    entries: int = field(kw_only=True)
    spans: tuple[tuple[int, int], ...] = field(kw_only=True)
    mirrored: Tensor | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, graph: Graph, layout: Layout) -> "SharedGraph":
        """Return the rows of this process of a whole graph."""
        starts = graph.starts.long()
        spans = tuple((int(starts[first]), int(starts[last])) for first, last in layout.stretches)
        lengths = torch.cat([starts[first : last + 1].diff() for first, last in layout.stretches])
        columns, mirror, values = (
            torch.cat([one[begin:end] for begin, end in spans]) for one in (graph.columns, graph.mirror, graph.values)
        )
        return cls(
            starts=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(graph.starts.dtype),
            columns=layout.number[columns.long()].to(graph.columns.dtype),
            mirror=mirror,
            values=values,
            layout=layout,
            entries=len(graph.columns),
            spans=spans,
        )

    def like(self, dense: Tensor) -> "SharedGraph":
        """Return the graph on the device and in the precision of ``dense``. Each is created only once."""
        key = dense.device, dense.dtype
        if key == (self.values.device, self.values.dtype):
            return self
        if key not in self._moved:
            starts, columns, mirror = (part.to(dense.device) for part in (self.starts, self.columns, self.mirror))
            moved = replace(self, starts=starts, columns=columns, mirror=mirror, values=self.values.to(dense))
            self._moved[key] = moved
        return self._moved[key]  # type: ignore[return-value]

    def scaled(self, factor: float) -> "SharedGraph":
        """Return the graph with all values multiplied by a number."""
        mirrored = None if self.mirrored is None else self.mirrored * factor
        return replace(self, values=self.values * factor, mirrored=mirrored)

    def drop(self, share: float, rng: torch.Generator | None) -> "SharedGraph":
        """Return the graph with the entries dropped that the whole graph drops, see :meth:`Graph.drop`."""
        bits = _packed_mask(self.entries, 1 - share, rng)
        places = np.concatenate([np.arange(*span) for span in self.spans])
        kept, mirrored = (_bits_at(bits, at).to(self.values.device) for at in (places, self.mirror.cpu().numpy()))
        # The values of a symmetric graph and of its mirror image are equal.
        return replace(
            self,
            values=self.values * kept / (1 - share),
            mirrored=self.values * mirrored / (1 - share),
            symmetric=False,
        )

    @cached_property
    def transposed(self) -> "SharedGraph":
        """These rows of the transposed graph."""
        if self.symmetric or self.mirrored is None:
            return self
        return replace(self, values=self.mirrored, mirrored=self.values)

    def masks(self, number: int, keep: float, width: int, rng: torch.Generator | None) -> list[Tensor]:
        """Return the rows of this process of masks for all nodes, [own nodes, width], for message dropout."""
        spans = [(first * width, last * width) for first, last in self.layout.stretches]
        return [
            _own_mask(self.layout.nodes * width, spans, keep, rng).view(-1, width).to(self.values.device)
            for _ in range(number)
        ]

    @property
    def _entries(self) -> int:
        return self.entries

    @property
    def _width(self) -> int:
        return self.layout.nodes


def mean_of_layers(graph: SharedGraph, users: Tensor, items: Tensor, layers: int) -> Tensor:
    """Return the mean of all layers for the own users and then the own items, without dropout and gradients."""
    start = graph.stack(users, items)
    total = start
    for _ in range(layers):
        total = graph.times(graph.layout.all_of(graph, total), plus=start)
    return total / (layers + 1)


def some_of_mean(
    graph: SharedGraph, users: Tensor, items: Tensor, nodes: Tensor, layers: int, masks: list[Tensor] | None
) -> Tensor:
    """Return rows of the mean of all layers for distinct nodes that all processes ask for alike, [n] → [n, width].

    Args:
        graph: the rows of this process, after dropout.
        users: trainable rows of the own users.
        items: trainable rows of the own items.
        nodes: ascending numbers of nodes.
        layers: number of layers, at least 1.
        masks: the own rows of the masks of message dropout, or None.
    """
    some: Tensor = _SomeOfSharedMean.apply(users, items, nodes, graph, layers, masks)  # type: ignore[no-untyped-call]
    return some


class _SomeOfSharedMean(torch.autograd.Function):
    """Some rows of the mean of all layers, for distinct nodes that all processes ask for alike.

    All processes get the same rows and the same gradients of them; each returns the gradient of its own tables.
    """

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        nodes: Tensor,
        graph: SharedGraph,
        layers: int,
        masks: list[Tensor] | None,
    ) -> Tensor:
        ctx.users, ctx.nodes, ctx.graph, ctx.layers, ctx.masks = len(users), nodes, graph, layers, masks
        layout = graph.layout
        own = layout.own(nodes)
        start = graph.stack(users, items)
        total, layer = start.index_select(0, own), start
        for mask in [None] * (layers - 1) if masks is None else masks[:-1]:
            layer = graph.times(layout.all_of(graph, layer), plus=start if masks is None else None, keep=mask)
            if masks is not None:
                total += layer.index_select(0, own)
        last = graph.rows_times(own, layout.all_of(graph, layer))
        total += last if masks is None else last.mul_(masks[-1].index_select(0, own))
        return layout.spread(total.div_(layers + 1), nodes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0] / (ctx.layers + 1)
        graph, nodes = ctx.graph.transposed, ctx.nodes
        layout, masks = graph.layout, [None, *(ctx.masks or [None] * ctx.layers)]
        places = torch.full((layout.nodes,), -1, dtype=torch.int32, device=nodes.device)
        places[layout.number.to(nodes.device)[nodes]] = torch.arange(len(nodes), dtype=torch.int32, device=nodes.device)
        total, product = gradient, graph.times_few
        if masks[-1] is not None:
            mine = masks[-1].index_select(0, layout.own(nodes))
            total = gradient * layout.spread(mine.byte(), nodes).bool()
        for layer in reversed(range(1, ctx.layers)):
            total, product = layout.all_of(graph, product(total, gradient, masks[layer], places)), graph.times
        # The gradient of each table has its own memory, so that other gradients can be added in place.
        ends = (0, ctx.users), (ctx.users, graph.nodes)
        of_users, of_items = (product(total, gradient, None, places, stretch) for stretch in ends)
        return of_users, of_items, None, None, None, None


def _drawn(size: int, keep: float, rng: torch.Generator | None) -> Iterator[tuple[int, Tensor]]:
    """Yield the mask of :func:`icpe.backbones.graph.keep_mask` for ``size`` numbers in pieces, with their positions."""
    device = torch.device("cpu") if rng is None else rng.device
    for begin in range(0, size // 4 + 1, _DRAWN):
        count = min(_DRAWN, size // 4 + 1 - begin)
        bits = torch.empty(count, dtype=torch.int64, device=device).random_(-(2**63), None, generator=rng)
        yield 4 * begin, (bits.view(torch.int16) < round(keep * 65536) - 32768).cpu()[: size - 4 * begin]


def _own_mask(size: int, spans: list[tuple[int, int]], keep: float, rng: torch.Generator | None) -> Tensor:
    """Return some stretches of a mask, one after the other."""
    parts: list[list[Tensor]] = [[] for _ in spans]
    for begin, mask in _drawn(size, keep, rng):
        for part, (first, last) in zip(parts, spans, strict=True):
            part.append(mask[max(0, first - begin) : max(0, last - begin)])
    return torch.cat([piece for part in parts for piece in part])


def _packed_mask(size: int, keep: float, rng: torch.Generator | None) -> IntArray:
    """Return a mask for ``size`` entries, eight of them in each byte."""
    return np.concatenate([np.packbits(mask.numpy(), bitorder="little") for _, mask in _drawn(size, keep, rng)])


def _bits_at(bits: IntArray, places: IntArray) -> Tensor:
    """Return some entries of a packed mask."""
    found = (bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1
    return torch.from_numpy(found.astype(bool))
