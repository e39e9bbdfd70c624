"""The table of head and niche figures: one row per run, the best in bold."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from icpe.report.record import RunRecord

GROUPS = {"all": "", "head": "_head", "niche": "_niche"}
Better = Literal["more", "less", "neither"]
_ARROWS = {"more": " ↑", "less": " ↓", "neither": ""}


@dataclass(frozen=True)
class Block:
    """Columns that belong together.

    Attributes:
        title: of the block.
        columns: values of the runs, by the heading of the column; None where there was nothing to average.
        better: whether more or less is better in all of them.
        decimals: to show.
    """

    title: str
    columns: dict[str, list[float | None]]
    better: Better = "more"
    decimals: int = 4

    @property
    def heading(self) -> str:
        """The title with an arrow that says what is better."""
        return f"{self.title}{_ARROWS[self.better]}"

    def said(self, value: float | None) -> str:
        """A value as the table shows it."""
        return "-" if value is None else f"{value:,.{self.decimals}f}"


def grouped(title: str, metric: str, n: int, values: Sequence[dict[str, float | None]]) -> Block:
    """A metric for all, head and niche items; ``values`` are those of each run by name."""
    return Block(title, {name: [run.get(f"{metric}{end}@{n}") for run in values] for name, end in GROUPS.items()})


def blocks_of(runs: "Sequence[RunRecord]") -> list[Block]:
    """Recall and NDCG by group, coverage of the catalogue and share of niche items (APT)."""
    n, values = runs[0].n, [run.values for run in runs]
    return [
        grouped(f"Recall@{n}", "recall", n, values),
        grouped(f"NDCG@{n}", "ndcg", n, values),
        Block("Coverage", {f"@{n}": [run.get(f"coverage@{n}") for run in values]}),
        Block("APT", {f"@{n}": [run.get(f"apt@{n}") for run in values]}),
    ]


def best(values: Sequence[float | None], better: Better = "more") -> set[int]:
    """Places of the best value to four decimals; nobody wins alone or where nothing was measured.

    Example:
        >>> best([0.1, 0.30001, None, 0.3]), best([0.1, 0.3], "less"), best([0.1, 0.3], "neither")
        ({1, 3}, {0}, set())
    """
    known = [round(value, 4) for value in values if value is not None]
    if len(known) < 2 or better == "neither":
        return set()
    wanted = max(known) if better == "more" else min(known)
    return {place for place, value in enumerate(values) if value is not None and round(value, 4) == wanted}


def as_text(labels: Sequence[str], blocks: Sequence[Block]) -> str:
    """For the terminal: a line per figure, a column per run, a star at the best.

    Example:
        >>> print(as_text(["A", "B"], [Block("Recall@20", {"all": [0.1, 0.2], "head": [0.3, None]})]))
                                          A           B
          Recall@20 ↑       all      0.1000      0.2000 *
                            head     0.3000           -
    """
    width = max(10, *(len(label) + 2 for label in labels))
    lines = [" " * 25 + "  ".join(f"{label:>{width}}" for label in labels)]
    for block in blocks:
        for number, (name, values) in enumerate(block.columns.items()):
            title = "" if number else block.heading
            stars = best(values, block.better)
            cells = [f"{block.said(value):>{width}}{' *' if at in stars else '  '}" for at, value in enumerate(values)]
            lines.append(f"  {title:<18}{name:<5}{''.join(cells)}".rstrip())
    return "\n".join(lines)


def as_html(labels: Sequence[str], blocks: Sequence[Block], caption: str) -> str:
    """For the page."""
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(block.columns)}">{escape(block.heading).replace(" ", "&nbsp;")}</th>'
        for block in blocks
    )
    headings = "".join(f'<th scope="col">{escape(name)}</th>' for block in blocks for name in block.columns)
    columns = [(block, values) for block in blocks for values in block.columns.values()]
    winners = [best(values, block.better) for block, values in columns]
    rows = []
    for at, label in enumerate(labels):
        cells = "".join(
            f"<td>{f'<b>{block.said(values[at])}</b>' if at in won else block.said(values[at])}</td>"
            for (block, values), won in zip(columns, winners, strict=True)
        )
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    return (
        f'<div class="wide"><table><thead><tr><td></td>{groups}</tr>'
        f"<tr><td></td>{headings}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="small">{escape(caption)}</p>'
    )
