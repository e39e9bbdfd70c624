"""Parameters that are trained row by row.

A table with one row per user or item gets a gradient for only a few thousand rows in each step. The optimiser updates
just those rows, which is much faster than a pass over the whole table, but it must know which rows the loss has read. A
:class:`RowParameter` therefore lets the optimiser step in whenever rows are read with :func:`take_rows`.

A loss that indexes such a table in the ordinary way (``table[rows]``) is correct too: the optimiser notices the dense
gradient and trains that table as a whole from then on, which is only slower.

In a training on several processes, each holds only its share of the rows of such a table. :func:`take_rows` then asks
the other processes for the rows it needs, and :func:`all_rows` for all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from icpe.shards import Share

Reader = Callable[[Tensor], Tensor]
ReadAll = Callable[[Sequence[tuple["RowParameter", Tensor]]], list[Tensor]]


class RowParameter(nn.Parameter):
    """A parameter [rows, dim] that the optimiser may train row by row.

    Attributes:
        reader: function int [...] → [..., dim] that :func:`take_rows` uses in place of plain indexing while a training
            step is under way, or None.
        read_all: function that does the same for rows of several tables, or None.
        share: which rows of the table this parameter holds in a training on several processes, or None for all.
    """

    reader: Reader | None = None
    read_all: ReadAll | None = None
    share: Share | None = None


def share_of(table: Tensor) -> Share | None:
    """Return which rows of the table this process holds, or None for all."""
    return table.share if isinstance(table, RowParameter) else None


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of representations or of a table, int [...] → [..., dim].

    While a row optimiser trains the table, the gradient of these rows goes to the optimiser and not to ``table.grad``.
    """
    reader = table.reader if isinstance(table, RowParameter) else None
    if reader is not None:
        return reader(rows)
    share = share_of(table)
    if share is None:
        return functional.embedding(rows, table)
    found: Tensor = _SharedRows.apply(table, rows, share)  # type: ignore[no-untyped-call]
    return found


def take_all_rows(*wanted: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Return rows of several different tables, as :func:`take_rows` does. Threads wait for each other only once."""
    tables = [(table, rows) for table, rows in wanted if isinstance(table, RowParameter)]
    read_all = tables[0][0].read_all if tables else None
    if read_all is None or any(table.read_all is not read_all for table, _ in tables) or len(tables) < len(wanted):
        return [take_rows(table, rows) for table, rows in wanted]
    return read_all(tables)


def all_rows(table: Tensor) -> Tensor:
    """Return the whole table. Gradients do not flow to the rows of other processes."""
    share = share_of(table)
    return table if share is None else share.whole(table)


class _SharedRows(torch.autograd.Function):
    """Rows of a table whose rows are divided among processes, with a dense gradient for the rows of this one.

    All processes ask for the same rows and compute the same loss, so each has the gradients of its own rows already.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, share: Share) -> Tensor:
        codes = rows.reshape(-1).cpu().numpy()
        mine = torch.from_numpy(share.own(codes)).to(table.device)
        ctx.size, ctx.mine = len(table), mine
        ctx.own = rows.reshape(-1)[mine] - share.first
        distinct, place = np.unique(codes, return_inverse=True)
        wanted = torch.from_numpy(distinct[share.own(distinct)] - share.first).to(table.device)
        found = share.spread(table.detach()[wanted], distinct)
        return found[torch.from_numpy(place).to(table.device)].view(*rows.shape, table.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        flat = gradients[0].reshape(-1, gradients[0].shape[-1])[ctx.mine]
        return torch.ops.aten.embedding_dense_backward(flat, ctx.own, ctx.size, -1, False), None, None


@contextmanager
def read_through(readers: Sequence[tuple[RowParameter, Reader]], read_all: ReadAll | None = None) -> Iterator[None]:
    """Make :func:`take_rows` read the rows of these tables through functions for as long as the context lasts.

    Args:
        readers: tables and their functions.
        read_all: function that reads several of them, or None.
    """
    for table, reader in readers:
        table.reader, table.read_all = reader, read_all
    try:
        yield
    finally:
        for table, _ in readers:
            table.reader = table.read_all = None
