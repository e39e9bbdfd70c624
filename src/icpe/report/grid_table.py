"""The table of a grid on a page."""

from html import escape

from icpe.compare._render import Shown
from icpe.compare.tables import Table

_STYLES = ("{}", "<b>{}</b>", "<u>{}</u>")


def table_html(table: Table) -> str:
    """One row per method, grouped by backbone, the best bold and the second underlined; the caption below."""
    heading, groups = table.cells()
    columns = "".join(
        f'<th scope="col">{escape(name).replace(" ↑", "&nbsp;↑").replace(" ↓", "&nbsp;↓")}</th>' for name in heading
    )
    body = []
    for backbone, rows in groups:
        body.append(f'<tr><th scope="rowgroup">{escape(backbone)}</th><td colspan="{len(heading)}"></td></tr>')
        for label, cells in rows:
            body.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(map(_cell, cells))}</tr>')
    head = f"<thead><tr><td></td>{columns}</tr></thead>"
    return (
        f'<div class="wide"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'
        f'<p class="small">{escape(table.caption)}</p>'
    )


def _cell(shown: Shown) -> str:
    mean, _, std = shown.text.partition(" ± ")
    spread = f'<span class="std">± {escape(std)}</span>' if std else ""
    return f"<td>{_STYLES[shown.place].format(escape(mean))}{escape(shown.mark)}{spread}</td>"
