"""Tables as Markdown."""

import re
from collections.abc import Sequence

from icpe.shown import visible
from icpe.tables.model import Table

_STYLES = ("{}", "**{}**", "<u>{}</u>")


def as_markdown(table: Table) -> str:
    """The table in the pipe syntax, with the best value in bold and the second best underlined; then the caption."""
    heading = [_escaped(name) for name in (*table.label_names, *(column.title for column in table.columns))]
    lines = [_line(heading), _line(["---"] * len(heading))]
    for row in table.rows:
        cells = [
            _STYLES[cell.rank].format(_escaped(column.format(cell))) + _escaped(cell.mark)
            for column, cell in zip(table.columns, row.cells, strict=True)
        ]
        lines.append(_line([*map(_escaped, row.labels), *cells]))
    caption = table.full_caption("Bold", "underlined")
    return "\n".join([*lines, *(["", _escaped(caption)] if caption else [])]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """The text so that Markdown shows it as it is: in one cell, without emphasis, links and HTML."""
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", visible(text))
