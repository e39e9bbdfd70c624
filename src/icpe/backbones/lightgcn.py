"""Light graph convolution."""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from icpe.backbones.base import DotBackbone, TableSettings
from icpe.backbones.graph import Graph, build_graph, graph_of, keep_mask
from icpe.backbones.rows import share_of, take_rows
from icpe.backbones.shared_graph import Layout, SharedGraph, mean_of_layers, some_of_mean
from icpe.data.interactions import Interactions
from icpe.settings import setting
from icpe.threads import beforehand


class LightGCNSettings(TableSettings):
    """Settings of :class:`LightGCN`."""

    init_std: float = setting(0.1, "Standard deviation of the initial values of the tables.", above=0.0)
    layers: int = setting(3, "Number of propagation layers (L); 0 gives matrix factorisation.", least=0, most=100)
    node_dropout: float = setting(0.1, "Share of the graph's entries dropped in training.", least=0.0, below=1.0)
    message_dropout: float = setting(0.1, "Share of each layer's numbers dropped in training.", least=0.0, below=1.0)


class LightGCN(DotBackbone):
    """Light graph convolution (He et al. 2020): representations are means over layers of averaging on the graph.

    E⁽⁰⁾ are the trainable rows of users and items, E⁽ˡ⁺¹⁾ = Â E⁽ˡ⁾ with Â = D^-1/2 A D^-1/2 of the training pairs
    without self-loops, Z = (E⁽⁰⁾ + … + E⁽ᴸ⁾) / (L + 1), and s_ui = z_u · z_i.

    In training mode, node dropout drops entries of Â (the two directions of a pair independently) and uses the same
    sample for all layers of a call. Message dropout drops numbers of each E⁽ˡ⁾, l ≥ 1. Values that are kept are divided
    by the probability of being kept. With both at 0 this is the published LightGCN.

    Attributes:
        graph: normalised graph Â of the training pairs; set by :meth:`build`.

    Example:
        >>> LightGCN(layers=2).settings.as_dict()
        {'dim': 64, 'init_std': 0.1, 'layers': 2, 'node_dropout': 0.1, 'message_dropout': 0.1}
    """

    name: ClassVar[str] = "lightgcn"
    Settings = LightGCNSettings
    settings: LightGCNSettings
    default_reg: float = 1e-4
    computes_all: bool = True
    shareable: ClassVar[bool] = True

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw both tables from N(0, init_std²), users first, and create the graph of the training pairs."""
        super().build(train, rng)
        share, of_items = share_of(self.user_table), share_of(self.item_table)
        if share is None or of_items is None:
            self.graph = graph_of(train)
        else:  # the whole graph is not kept
            whole = build_graph(train.user, train.item, self.users, self.items)
            self.graph = SharedGraph.of(whole, Layout(share, of_items))

    def memory_needs(self, users: int, items: int, copies: int) -> dict[str, int]:
        """Return the bytes of both tables and, with message dropout, of the masks of all layers."""
        masked = self.settings.layers if self.settings.message_dropout else 0
        masks = masked * (users + items) * self.settings.dim
        return {**super().memory_needs(users, items, copies), "layers": masks}

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the mean of all layers, [users, dim] and [items, dim]."""
        self._require_built()
        if isinstance(self.graph, SharedGraph):
            return self._shared_reps(self.graph)
        start = torch.cat((self.user_table, self.item_table))
        graph, masks = self._dropped(rng)
        given = start, graph, self.settings.layers, None if masks is None else list(masks)
        mean: Tensor = _MeanOfLayers.apply(*given)  # type: ignore[no-untyped-call]
        z_user, z_item = torch.tensor_split(mean, (self.users,))
        return z_user, z_item

    def _shared_reps(self, graph: SharedGraph) -> tuple[Tensor, Tensor]:
        """Return the mean of all layers for the users of this process and for all items, without dropout."""
        tables = self.user_table.detach(), self.item_table.detach()
        mean = mean_of_layers(graph.like(tables[0]), *tables, self.settings.layers)
        z_user, z_item = torch.tensor_split(mean, (len(tables[0]),))
        return z_user, graph.layout.items.whole(z_item)

    def rows(self, users: Tensor, items: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return rows of :meth:`reps`, int [n] → [n, dim] and int [m] → [m, dim], in about two thirds of the time.

        The last layer, and the first product of the backward pass, are computed for these rows only.
        """
        self._require_built()
        if not self.settings.layers and isinstance(self.graph, SharedGraph):
            return take_rows(self.user_table, users), take_rows(self.item_table, items)
        if not self.settings.layers:
            return super().rows(users, items, rng)
        graph, masks = self._dropped(rng)
        nodes, place = torch.unique(torch.cat((users, items + self.users)), return_inverse=True)
        tables = self.user_table, self.item_table
        if isinstance(graph, SharedGraph):
            some = some_of_mean(graph, *tables, nodes, self.settings.layers, None if masks is None else list(masks))
        else:
            some = _SomeOfMean.apply(*tables, nodes, graph, self.settings.layers, masks)  # type: ignore[no-untyped-call]
        z_user, z_item = functional.embedding(place, some).tensor_split((len(users),))
        return z_user, z_item

    def _dropped(self, rng: torch.Generator | None) -> tuple[Graph, Iterator[Tensor] | None]:
        """Return the graph after node dropout, and the masks of the layers for message dropout or None."""
        like = self.user_table
        graph = self.graph.like(like)
        masks: Iterator[Tensor] | None = None
        if self.training and self.settings.node_dropout:
            graph = graph.drop(self.settings.node_dropout, rng)
        if self.training and self.settings.message_dropout:
            # Scale the graph instead of each layer, because it has fewer entries than the layers have numbers.
            graph = graph.scaled(1 / (1 - self.settings.message_dropout))
            shape, keep = (graph.nodes, self.settings.dim), 1 - self.settings.message_dropout
            if isinstance(graph, SharedGraph):
                return graph, iter(graph.masks(self.settings.layers, keep, self.settings.dim, rng))
            drawing = partial(keep_mask, like.new_empty(()).expand(shape), keep, rng)
            masks = beforehand([drawing] * self.settings.layers)
        return graph, masks


class _MeanOfLayers(torch.autograd.Function):
    """Mean of E⁽⁰⁾ … E⁽ᴸ⁾ with E⁽ˡ⁾ = M⁽ˡ⁾ ∘ Â E⁽ˡ⁻¹⁾; without masks every M⁽ˡ⁾ is 1.

    The gradient of E⁽⁰⁾ is G⁽⁰⁾ / (L + 1) with G⁽ᴸ⁾ = G, G⁽ˡ⁻¹⁾ = G + Âᵀ(M⁽ˡ⁾ ∘ G⁽ˡ⁾), so no layer has to be stored.
    Without masks the forward pass has the same form (Horner's scheme).
    """

    @staticmethod
    def forward(ctx: Any, start: Tensor, graph: Graph, layers: int, masks: list[Tensor] | None) -> Tensor:
        ctx.graph, ctx.layers, ctx.masks = graph, layers, masks
        if masks is None:
            return _horner(graph, start, layers)
        total, layer = start.clone(), start
        for mask in masks:
            layer = graph.times(layer, keep=mask)
            total += layer
        return total.div_(layers + 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradients[0].contiguous()
        graph = ctx.graph.transposed
        if ctx.masks is None:
            return _horner(graph, gradient, ctx.layers), None, None, None
        masks = [None, *ctx.masks]  # the last product gives the gradient itself, which has no mask
        total = gradient * masks[-1] if ctx.layers else gradient
        for layer in reversed(range(ctx.layers)):
            total = graph.times(total, plus=gradient, keep=masks[layer])
        return total / (ctx.layers + 1), None, None, None


class _SomeOfMean(torch.autograd.Function):
    """Some rows of :class:`_MeanOfLayers`, given by distinct node numbers.

    Only these rows have a gradient G, so it is stored as these rows and their positions (``places``).
    """

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        nodes: Tensor,
        graph: Graph,
        layers: int,
        masks: Iterator[Tensor] | None,
    ) -> Tensor:
        ctx.users, ctx.nodes, ctx.graph, ctx.layers, ctx.masks = len(users), nodes, graph, layers, []
        start = graph.stack(users, items)
        total, layer = start.index_select(0, nodes), start
        for _ in range(layers - 1):
            if masks is None:
                layer = graph.times(layer, plus=start)
                continue
            ctx.masks.append(next(masks))
            layer = graph.times(layer, keep=ctx.masks[-1])
            total += layer.index_select(0, nodes)
        last = graph.rows_times(nodes, layer)
        if masks is not None:
            ctx.masks.append(next(masks))
            last.mul_(ctx.masks[-1].index_select(0, nodes))
        total += last
        return total.div_(layers + 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0] / (ctx.layers + 1)
        graph, nodes, masks = ctx.graph.transposed, ctx.nodes, [None, *(ctx.masks or [None] * ctx.layers)]
        places = torch.full((graph.nodes,), -1, dtype=torch.int32, device=nodes.device)
        places[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=nodes.device)
        total, product = gradient, graph.times_few
        if masks[-1] is not None:
            total = gradient * masks[-1].index_select(0, nodes)
        for layer in reversed(range(1, ctx.layers)):
            total, product = product(total, gradient, masks[layer], places), graph.times
        # The gradient of each table has its own memory, so that other gradients can be added in place.
        ends = (0, ctx.users), (ctx.users, graph.nodes)
        of_users, of_items = (product(total, gradient, None, places, stretch) for stretch in ends)
        return of_users, of_items, None, None, None, None


def _horner(graph: Graph, start: Tensor, layers: int) -> Tensor:
    """Return (X + Â(X + Â(X + …))) / (L + 1) for X = ``start``, computed with ``layers`` products."""
    total = start
    for _ in range(layers):
        total = graph.times(total, plus=start)
    return total / (layers + 1)
