"""Tables as plain text for terminals and ``.txt`` files."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

from icpe.shown import visible
from icpe.tables.model import Cell, Column, Table

_RANK_SIGNS = ("", "¹", "²")
_CAPTION_WIDTH = 120


def terminal_width() -> int | None:
    """Number of characters in a line of the terminal, or None when standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def as_text(table: Table, width: int | None = None) -> str:
    """The table with one line per row; ¹ and ² mark the best and the second best value.

    Args:
        table: The table.
        width: Characters in a line. Columns that do not fit continue below, with the labels repeated. None means
            that lines may be of any length.

    Example:
        >>> from icpe.tables.model import Row
        >>> columns = (Column("Recall@20", better="more"),)
        >>> rows = (Row(("A",), (Cell(0.1, 0.01),)), Row(("B",), (Cell(0.25, rank=1),)))
        >>> print(as_text(Table(columns, rows, ("method",), "Two runs.", "of all")))
        method  Recall@20 ↑
        ------  ---------------
        A       0.1000 ± 0.0100
        B       0.2500¹
        <BLANKLINE>
        Two runs. ¹: best; ²: second of all.
        <BLANKLINE>
    """
    heading = [*table.label_names, *(column.title for column in table.columns)]
    lines = [[visible(text) for text in (*row.labels, *map(_shown, table.columns, row.cells))] for row in table.rows]
    starts_group = [
        at > 0 and len(table.label_names) > 1 and row.labels[0] != table.rows[at - 1].labels[0]
        for at, row in enumerate(table.rows)
    ]
    blocks = []
    for chosen in _blocks([heading, *lines], len(table.label_names), width):
        widths = [max(len(line[at]) for line in (heading, *lines)) for at in chosen]
        out = [_joined(heading, chosen, widths), "  ".join("-" * size for size in widths)]
        for line, separated in zip(lines, starts_group, strict=True):
            out += ["", _joined(line, chosen, widths)] if separated else [_joined(line, chosen, widths)]
        blocks.append("\n".join(out))
    caption = textwrap.wrap(
        table.full_caption(*_RANK_SIGNS[1:]), min(width or _CAPTION_WIDTH, _CAPTION_WIDTH), break_on_hyphens=False
    )
    return "\n\n".join([*blocks, *(["\n".join(caption)] if caption else [])]) + "\n"


def as_turned_text(table: Table, width: int | None = None) -> str:
    """The table with one line per column and a star at the best value: for few rows and many columns.

    Args:
        table: The table; only the last label of each row is shown.
        width: Characters in a line. Rows of the table that do not fit continue below. None means no limit.

    Example:
        >>> from icpe.tables.model import Row
        >>> columns = (Column("all", "Recall@20", "more"), Column("head", "Recall@20", "more"))
        >>> rows = (Row(("A",), (Cell(0.1), Cell(0.3))), Row(("B",), (Cell(0.2, rank=1), Cell())))
        >>> print(as_turned_text(Table(columns, rows)))
                                          A           B
          Recall@20 ↑       all      0.1000      0.2000 *
                            head     0.3000           –
    """
    names = [visible(row.labels[-1]) for row in table.rows]
    size = max([10, *(len(name) + 2 for name in names)])
    fitting = max(1, (width - 25) // (size + 2)) if width else len(table.rows) or 1
    blocks = []
    for start in range(0, len(table.rows) or 1, fitting):
        rows = table.rows[start : start + fitting]
        lines = [" " * 25 + "  ".join(f"{name:>{size}}" for name in names[start : start + fitting])]
        for at, column in enumerate(table.columns):
            repeated = at > 0 and column.group and column.group_title == table.columns[at - 1].group_title
            group, name = ("" if repeated else column.group_title, column.name) if column.group else (column.title, "")
            cells = "".join(
                f"{visible(column.format(row.cells[at])):>{size}}{' *' if row.cells[at].rank == 1 else '  '}"
                for row in rows
            )
            lines.append(f"  {group:<18}{name:<5}{cells}".rstrip())
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _shown(column: Column, cell: Cell) -> str:
    return f"{column.format(cell)}{_RANK_SIGNS[cell.rank]}{cell.mark}"


def _blocks(lines: Sequence[Sequence[str]], labels: int, width: int | None) -> list[list[int]]:
    """Positions of the columns of each block: the label columns, and as many others as fit into the width."""
    widths = [max(len(line[at]) for line in lines) + 2 for at in range(len(lines[0]))]
    first = list(range(labels))
    blocks, used = [list(first)], sum(widths[:labels])
    for at in range(labels, len(widths)):
        if width is not None and len(blocks[-1]) > labels and used + widths[at] - 2 > width:
            blocks.append(list(first))
            used = sum(widths[:labels])
        blocks[-1].append(at)
        used += widths[at]
    return blocks


def _joined(line: Sequence[str], chosen: Sequence[int], widths: Sequence[int]) -> str:
    return "  ".join(line[at].ljust(size) for at, size in zip(chosen, widths, strict=True)).rstrip()
