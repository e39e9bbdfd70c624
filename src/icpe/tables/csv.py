"""Tables as CSV, for programs: exact numbers, no emphasis and no caption."""

import csv
import io

from icpe.spreadsheet import safe_text
from icpe.tables.model import Table, Value


def as_csv(table: Table, raw: bool = False) -> str:
    """The table with a header line. A column in which some value has a spread is followed by ``NAME_std``.

    Args:
        table: The table.
        raw: Whether to write text as it is, even if a spreadsheet would take it for a formula.

    Example:
        >>> from icpe.tables.model import Cell, Column, Row
        >>> print(as_csv(Table((Column("recall"), Column("seeds")), (Row(("A",), (Cell(1 / 3, 0.1), Cell())),), ("",))))
        ,recall,recall_std,seeds
        A,0.3333333333333333,0.1,
        <BLANKLINE>
    """
    spread = [any(row.cells[at].spread is not None for row in table.rows) for at in range(len(table.columns))]
    names = [" ".join(filter(None, (column.group, column.name))) for column in table.columns]
    heading = list(table.label_names)
    for name, has_spread in zip(names, spread, strict=True):
        heading += [name, f"{name}_std"] if has_spread else [name]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    text = str if raw else safe_text
    writer.writerow(map(text, heading))
    for row in table.rows:
        values = list(map(text, row.labels))
        for cell, has_spread in zip(row.cells, spread, strict=True):
            value = text(cell.value) if isinstance(cell.value, str) else _plain(cell.value)
            values += [value, _plain(cell.spread)] if has_spread else [value]
        writer.writerow(values)
    return file.getvalue()


def _plain(value: Value) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
