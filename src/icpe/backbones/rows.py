"""Parameters that are trained row by row.

A table with one row per user or item gets a gradient for only a few thousand rows in each step. The optimiser updates
just those rows, which is much faster than a pass over the whole table, but it must know which rows the loss has read. A
:class:`RowParameter` therefore lets the optimiser step in whenever rows are read with :func:`take_rows`.

A loss that indexes such a table in the ordinary way (``table[rows]``) is correct too: the optimiser notices the dense
gradient and trains that table as a whole from then on, which is only slower.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional

Reader = Callable[[Tensor], Tensor]


class RowParameter(nn.Parameter):
    """A parameter [rows, dim] that the optimiser may train row by row.

    Attributes:
        reader: function int [...] → [..., dim] that :func:`take_rows` uses in place of plain indexing while a training
            step is under way, or None.
    """

    reader: Reader | None = None


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Return rows of representations or of a table, int [...] → [..., dim].

    While a row optimiser trains the table, the gradient of these rows goes to the optimiser and not to ``table.grad``.
    """
    reader = table.reader if isinstance(table, RowParameter) else None
    return functional.embedding(rows, table) if reader is None else reader(rows)


@contextmanager
def read_through(readers: Sequence[tuple[RowParameter, Reader]]) -> Iterator[None]:
    """Make :func:`take_rows` read the rows of these tables through functions for as long as the context lasts."""
    for table, reader in readers:
        table.reader = reader
    try:
        yield
    finally:
        for table, _ in readers:
            table.reader = None
