"""Result tables of runs and audits: one row per run or set of lists, metrics for all, head and niche items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icpe.tables import Better, Column, Row, Table, compared_cells

Values = Mapping[str, float | None]  # metrics by name; None when there was nothing to average
_GROUPS = {"all": "", "head": "_head", "niche": "_niche"}


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result table and its values, one for each row."""

    column: Column
    values: list[float | None]


def group_columns(title: str, metric: str, n: int, results: Sequence[Values]) -> list[ResultColumn]:
    """Columns of a metric for all, head and niche items.

    Args:
        title: Heading of the three columns.
        metric: Name of the metric without group and list length, such as ``recall``.
        n: List length.
        results: Metrics of each row by name.
    """
    return [
        ResultColumn(Column(name, title, "more"), [one.get(f"{metric}{end}@{n}") for one in results])
        for name, end in _GROUPS.items()
    ]


def single_column(
    title: str, metric: str, n: int, results: Sequence[Values], better: Better = "more", decimals: int = 4
) -> ResultColumn:
    """A column of a metric that has no groups; arguments as of :func:`group_columns`."""
    return ResultColumn(Column(f"@{n}", title, better, decimals), [one.get(f"{metric}@{n}") for one in results])


def run_columns(n: int, results: Sequence[Values]) -> list[ResultColumn]:
    """Recall and NDCG by group, coverage of the catalogue and share of niche items (APT)."""
    return [
        *group_columns(f"Recall@{n}", "recall", n, results),
        *group_columns(f"NDCG@{n}", "ndcg", n, results),
        single_column("Coverage", "coverage", n, results),
        single_column("APT", "apt", n, results),
    ]


def result_table(labels: Sequence[str], columns: Sequence[ResultColumn], caption: str = "") -> Table:
    """The table of these columns with the best value of each in bold."""
    cells = [compared_cells(one.values, one.column.better) for one in columns]
    rows = tuple(Row((label,), tuple(column[at] for column in cells)) for at, label in enumerate(labels))
    return Table(tuple(one.column for one in columns), rows, caption=caption)
