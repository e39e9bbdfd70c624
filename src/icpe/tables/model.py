"""The table model: columns, rows and cells, without any formatting of a particular file type."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Better = Literal["more", "less", "neither"]
Value = float | int | str | bool | None

MISSING = "–"
_ARROWS = {"more": " ↑", "less": " ↓", "neither": ""}


@dataclass(frozen=True)
class Cell:
    """One value of a table.

    Attributes:
        value: A number, a text, or None when the value is missing.
        spread: Standard deviation of the value, or None when it is unknown.
        rank: 1 for the best value of a column, 2 for the second best, otherwise 0.
        mark: A sign that follows the value, such as ``*`` for a significant difference.
    """

    value: Value = None
    spread: float | None = None
    rank: int = 0
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A column of values.

    Attributes:
        name: Heading of the column.
        group: Heading shared with the neighbouring columns of the same group, or an empty text.
        better: Whether larger or smaller values are better. It decides the arrow in the heading.
        decimals: Number of decimals of a number.
    """

    name: str
    group: str = ""
    better: Better = "neither"
    decimals: int = 4

    @property
    def title(self) -> str:
        """The complete heading in one line, with an arrow that points to the better values.

        Example:
            >>> Column("niche", "Recall@20", "more").title, Column("Gini@20", better="less").title
            ('Recall@20 niche ↑', 'Gini@20 ↓')
        """
        return " ".join(filter(None, (self.group, self.name))) + _ARROWS[self.better]

    @property
    def group_title(self) -> str:
        """The heading of the group with its arrow."""
        return self.group + _ARROWS[self.better]

    def format(self, cell: Cell) -> str:
        """The value and its spread as a reader sees them.

        Example:
            >>> Column("x", decimals=2).format(Cell(0.25, 0.1)), Column("x").format(Cell())
            ('0.25 ± 0.10', '–')
        """
        spread = self.format_spread(cell)
        return f"{self.format_value(cell)} ± {spread}" if spread else self.format_value(cell)

    def format_value(self, cell: Cell) -> str:
        """The value alone."""
        if cell.value is None:
            return MISSING
        if isinstance(cell.value, str | bool):
            return str(cell.value)
        return f"{cell.value:,.{self.decimals}f}"

    def format_spread(self, cell: Cell) -> str:
        """The spread alone, or an empty text when it is unknown."""
        return "" if cell.value is None or cell.spread is None else f"{cell.spread:,.{self.decimals}f}"


@dataclass(frozen=True)
class Row:
    """A row: one label for each label column of the table, and one cell for each column."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table that every renderer can show.

    Attributes:
        columns: The columns of values.
        rows: The rows, in order.
        label_names: Headings of the label columns. With two or more label columns, rows with the same first label
            belong together, and renderers separate them from the others.
        caption: Sentences that a reader needs in order to understand the numbers.
        ranking: Among which rows the ranks of the cells hold, for example "on each backbone". Renderers explain their
            way of marking the best and the second best value if this is not empty.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    label_names: tuple[str, ...] = ("",)
    caption: str = ""
    ranking: str = ""

    def groups(self) -> Iterator[tuple[str, list[Row]]]:
        """Rows with the same first label, in order; without a second label column one group of all rows."""
        if len(self.label_names) < 2:
            yield "", list(self.rows)
            return
        for name, rows in groupby(self.rows, key=lambda row: row.labels[0]):
            yield name, list(rows)

    def column_groups(self) -> list[tuple[str, list[Column]]]:
        """Neighbouring columns with the same group, each with the heading of the group."""
        return [(title, list(some)) for title, some in groupby(self.columns, key=_group_title)]

    def values(self, column: int) -> list[Value]:
        """All values of a column, one for each row."""
        return [row.cells[column].value for row in self.rows]

    def full_caption(self, first: str, second: str) -> str:
        """The caption with an explanation of how the best values are marked.

        Args:
            first: What marks the best value, for example "Bold".
            second: What marks the second best value.
        """
        explained = f"{first}: best; {second}: second {self.ranking}." if self.ranking else ""
        return " ".join(filter(None, (self.caption, explained)))


def _group_title(column: Column) -> str:
    return column.group_title if column.group else ""


def best(values: Sequence[float | None], better: Better = "more", decimals: int = 4) -> set[int]:
    """Positions of the best value after rounding. The set is empty unless at least two values are known.

    Example:
        >>> best([0.1, 0.30001, None, 0.3]), best([0.1, 0.3], "less"), best([0.1, 0.3], "neither")
        ({1, 3}, {0}, set())
    """
    known = [round(value, decimals) for value in values if value is not None]
    if len(known) < 2 or better == "neither":
        return set()
    wanted = max(known) if better == "more" else min(known)
    return {place for place, value in enumerate(values) if value is not None and round(value, decimals) == wanted}


def compared_cells(values: Sequence[float | None], better: Better) -> list[Cell]:
    """Cells of one column in which the best value has rank 1."""
    winners = best(values, better)
    return [Cell(value, rank=int(place in winners)) for place, value in enumerate(values)]


def percent(share: float | None) -> str:
    r"""A share as a percentage, with one decimal when it is small.

    Example:
        >>> percent(0.411), percent(0.0067), percent(0.0), percent(None)
        ('41\xa0%', '0.7\xa0%', '0\xa0%', 'an unknown share')
    """
    if share is None:
        return "an unknown share"
    decimals = 1 if 0 < share < 0.0995 else 0
    return f"{100 * share:.{decimals}f}\N{NO-BREAK SPACE}%"
