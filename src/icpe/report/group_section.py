"""Exposure of groups of items as a section of a page: a figure and a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from icpe.metrics.groups import GroupExposure
from icpe.report.figures.groups import by_group
from icpe.report.figures.style import Style
from icpe.report.rendering import FigureCard, figure_card
from icpe.tables import Cell, Column, Row, Table

_MEANING = "Where a coloured bar is longer than the grey one, the lists show the group more often than people use it."
_LIMITS = "Shares do not say whether people want more of a group; they also follow what was offered to them earlier."


@dataclass(frozen=True)
class GroupSection:
    """A section about the groups of one column.

    Attributes:
        column: Name of the column.
        cards: The figure.
        table: The table.
    """

    column: str
    cards: list[FigureCard]
    table: Table


def group_section(
    column: str, groups: Sequence[GroupExposure], labels: Sequence[str], styles: Sequence[Style], log: str = "log"
) -> GroupSection:
    """The section about the groups of a column.

    Args:
        column: Name of the column.
        groups: Exposure of each group.
        labels: Names of the sets of lists, or of the runs.
        styles: Their looks in figures.
        log: What the interactions are called in the legend.
    """
    caption = "Coloured: share of the list positions. Grey: share of the interactions. Diamond: share of the catalogue."
    card = figure_card(f"By {column}", caption, partial(by_group, groups, labels, styles, log), _MEANING, _LIMITS)
    return GroupSection(column, [card], group_table(column, groups, labels))


def group_table(column: str, groups: Sequence[GroupExposure], labels: Sequence[str]) -> Table:
    """The table of the groups of a column: shares in percent, and share of positions over share of interactions."""
    columns = [Column("catalogue", "% of", decimals=1), Column("interactions", "% of", decimals=1)]
    for label in labels:
        columns += [Column("% of positions", label, decimals=1), Column("ratio", label, decimals=2)]
    rows = []
    for one in groups:
        lists = zip(one.of_lists, one.ratios, strict=True)
        shown = [cell for share, ratio in lists for cell in (Cell(100 * share), Cell(ratio))]
        rows.append(Row((one.name,), (Cell(100 * one.of_catalogue), Cell(100 * one.of_log), *shown)))
    caption = (
        "Ratio is the share of the list positions over the share of the interactions: above 1, the lists show the "
        "group more often than people use it. Groups are ordered by interactions; the smallest ones are together."
    )
    return Table(tuple(columns), tuple(rows), (column,), caption)
