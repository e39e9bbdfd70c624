"""The page of an audit, and its text for the terminal."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe.audit import Audit, AuditedLists, History, Verdict
from icpe.data.lookup import positions
from icpe.errors import DataError
from icpe.report.audit_bias import (
    accuracy_sentence,
    bias_meanings,
    bias_table,
    lift_card,
    lorenz_card,
    user_group_table,
    users_sentence,
)
from icpe.report.figures import exposure
from icpe.report.figures.exposure import Exposure
from icpe.report.figures.style import position_style
from icpe.report.figures.trend import over_time
from icpe.report.group_section import GroupSection, group_section
from icpe.report.rendering import FigureCard, check_page_name, figure_card, write_page
from icpe.report.results import ResultColumn, group_columns, result_table, single_column
from icpe.report.sentences import (
    Headline,
    better_sentence,
    exposure_comparison,
    exposure_sentence,
    recall_sentences,
    versus,
)
from icpe.report.user_cards import LENGTH, UserCard, typical_users, user_card
from icpe.runs.provenance import versions
from icpe.tables import as_text, as_turned_text

_TREND = {
    "apt": "Places for niche items",
    "ndcg": "Accuracy",
    "coverage": "Items in some list",
    "gini": "Unevenness of exposure",
}
_TENTHS = (
    "Where a coloured bar is higher than the grey one, the lists show these items more often than people use them."
)
_TAIL = "A curve above the grey one gives more room to the hits than the log does; a curve below it, to the long tail."
_LOG_LIMITS = (
    "The log is not what people would choose if they knew everything: earlier lists shaped it. Agreement with it is a "
    "comparison, not a goal."
)
_TREND_WORDS = (
    "A drift over many nights says more than the difference between two.",
    "The log grows too, so a change can come from what people use and not from the lists.",
)
_ROWS = 6  # items in each table of gains and losses


def audit_report(
    audit: Audit,
    path: Path | str,
    users: Sequence[str] = (),
    command: str | None = None,
    by: Sequence[str] = (),
    history: History | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Path:
    """Write the page of an audit; returns its path.

    Args:
        audit: The result of :func:`icpe.audit.audit`.
        path: File of the page, ending in .html.
        users: Ids of the users whose lists are shown, as text; three typical users by default.
        command: The command that writes the page again.
        by: Columns of the items, such as a category, by which exposure is shown.
        history: The metrics of earlier nights and of this one.
        verdicts: The outcome of the rules that the audit was judged by.

    Raises:
        DataError: A user has no list.
        ConfigError: matplotlib is not installed, the name does not end in .html, or the items have no such column.
    """
    path = check_page_name(Path(path))
    columns = _columns(audit)
    return write_page(
        path,
        "audit.html",
        title=_title(audit),
        about=_data_line(audit),
        headline=_headline(audit, columns),
        table=result_table(list(audit.values), columns, _caption(audit)),
        remarks=audit.remarks,
        set_notes=[(one.label, one.notes) for one in audit.sets],
        verdicts=verdicts,
        trend=_trend_cards(audit, history, verdicts),
        shown=[*_exposure_cards(audit), lorenz_card(audit), lift_card(audit)],
        user_table=user_group_table(audit),
        bias_table=bias_table(audit),
        bias_meanings=bias_meanings(audit),
        groups=[_group_section(audit, column) for column in by],
        changes=[(one.label, *one.share_changes(audit.log, _ROWS)) for one in audit.sets],
        users=[_user_card(audit, user) for user in _chosen_users(audit, users)],
        command=command,
        hashes=_hashes(audit),
        set_counts=[(one.label, one.counts) for one in audit.sets],
        versions=versions(),
    )


def terminal_text(audit: Audit, width: int | None = None) -> list[str]:
    """The table, the headline and the notes as paragraphs.

    Args:
        audit: The result of :func:`icpe.audit.audit`.
        width: Characters in a line of the table; None means no limit.
    """
    columns = _columns(audit)
    headline = [" ".join(filter(None, both)) for both in _headline(audit, columns)]
    notes = [" ".join((f"{one.label}:", *one.notes)) for one in audit.sets]
    table = as_turned_text(result_table(list(audit.values), columns), width)
    return [f"{table}\n\n{as_text(bias_table(audit), width)}", *headline, *notes, *audit.remarks]


def _columns(audit: Audit) -> list[ResultColumn]:
    n, results = audit.n, list(audit.values.values())
    accuracy = [
        *group_columns(f"Recall@{n}", "recall", n, results),
        *group_columns(f"NDCG@{n}", "ndcg", n, results),
    ]
    return [
        *(accuracy if audit.test is not None else []),
        single_column("Coverage", "coverage", n, results),
        single_column("APT", "apt", n, results),
        single_column("Gini", "gini", n, results, "less"),
        single_column("Popularity", "popularity", n, results, "neither", 1),
        single_column("Novelty", "novelty", n, results, "neither", 2),
    ]


def _headline(audit: Audit, columns: Sequence[ResultColumn]) -> Headline:
    """For each set, what niche items, different users and accuracy get, in a sentence each, and details below."""
    first, *others = audit.sets
    if not others:
        shown = exposure_sentence(_quoted(first), first.values, audit.n, audit.log, "log")
        lead = [shown, users_sentence(audit, first), accuracy_sentence(audit, first)]
        return _paragraphs(lead, recall_sentences(columns, 0))
    pairs: Headline = []
    for at, one in enumerate(others, 1):
        better = better_sentence(_quoted(one), _quoted(first), at, columns)
        compared = f"{recall_sentences(columns, at)} {better}".strip()
        shown = exposure_comparison(_quoted(one), one.values, _quoted(first), first.values, audit.n)
        lead = [shown, users_sentence(audit, one, first), accuracy_sentence(audit, one, first)]
        pairs += _paragraphs(lead, compared)
    return pairs


def _paragraphs(lead: Sequence[str], details: str) -> Headline:
    """Each sentence in large type, and the details below the last."""
    *earlier, last = lead
    return [*((sentence, "") for sentence in earlier), (last, details)]


def _quoted(one: AuditedLists) -> str:
    """The name of a set inside a sentence. People choose it, and files are often called what other words mean."""
    return f"'{one.label}'"


def _title(audit: Audit) -> str:
    labels = [one.label for one in audit.sets]
    return f"Audit of {labels[0]}" if len(labels) == 1 else versus(labels, "sets of lists")


def _data_line(audit: Audit) -> str:
    log = audit.log
    lists = ", ".join(f"{one.label} {len(one.lists):,}" for one in audit.sets)
    return (
        f"{Path(log.reading.source).name}: {len(log.users):,} users, {len(log.items):,} items, {len(log):,} "
        f"interactions. Users with a list: {lists}."
    )


def _caption(audit: Audit) -> str:
    counted = ", ".join(f"{one.label} {one.values['users'] or 0:,.0f}" for one in audit.sets)
    accuracy = f"Recall and NDCG are means over the users with a list and test items ({counted}). "
    return (
        f"Measured at list length {audit.n}. {accuracy if audit.test is not None else ''}"
        "Head items are the fifth of the log's items with the most interactions; niche items are the rest, including "
        "items that are not in the log. Coverage is the share of all items that are in some list. APT is the share "
        "of niche items in the lists. Gini measures how unevenly items are shown (0: all equally, near 1: a few items "
        "fill all lists). Popularity is the mean number of interactions of a shown item. Novelty is the surprise, in "
        "bits, that a random user has used it. These metrics are over all lists. ↑ means that more is better, ↓ that "
        "less is better; the best value is bold."
    )


def _exposure_cards(audit: Audit) -> list[FigureCard]:
    counts, size = audit.log.item_counts, len(audit.log.items)
    lists = [
        Exposure(one.label, position_style(at), one.shown[:size], int(one.shown[size:].sum()))
        for at, one in enumerate(audit.sets)
    ]
    new = " Items that are not in the log have their own bar." if any(one.new for one in lists) else ""
    tenths = f"First {audit.n} positions of every list, by popularity of the item. Grey: share of the log.{new}"
    return [
        figure_card("Who fills the lists", tenths, partial(exposure.by_tenth, counts, lists), _TENTHS, _LOG_LIMITS),
        figure_card(
            "The long tail", exposure.CUMULATED, partial(exposure.cumulated, counts, lists), _TAIL, _LOG_LIMITS
        ),
    ]


def _group_section(audit: Audit, column: str) -> GroupSection:
    labels = [one.label for one in audit.sets]
    styles = [position_style(at) for at in range(len(labels))]
    return group_section(column, audit.exposure_by(column), labels, styles)


def _trend_cards(audit: Audit, history: History | None, verdicts: Sequence[Verdict]) -> list[FigureCard]:
    """Figures of the main metrics over time; none before the second night."""
    if history is None or history.nights < 2:
        return []
    cards = []
    for name, title in _TREND.items():
        metric = f"{name}@{audit.n}"
        if metric in history.table.columns:
            limits = [one.limit for one in verdicts if one.metric == metric and one.limit is not None]
            words = f"{metric} on {history.nights:,} nights.{' Dotted: limit of a rule.' if limits else ''}"
            cards.append(
                figure_card(title, words, partial(over_time, history.table, metric, metric, limits), *_TREND_WORDS)
            )
    return cards


def _chosen_users(audit: Audit, users: Sequence[str]) -> list[Any]:
    """Ids of the requested users, or of typical users who have a list in every set."""
    listed = [one.given.users.gather(one.lists.users) for one in audit.sets]
    if users:
        everybody = pl.concat(listed).unique(maintain_order=True)
        places = positions(pl.Series(list(users), dtype=pl.String), everybody.cast(pl.String))
        if places.min() < 0:
            unknown = users[int(np.argmin(places))]
            raise DataError(f"user {unknown!r} has no list; choose a user with a list, such as {everybody[0]!r}")
        return list(everybody.gather(places))
    known = [positions(ids, audit.log.users) for ids in listed]
    common = known[0]
    for codes in known[1:]:
        common = np.intersect1d(common, codes)
    return typical_users(audit.log, np.sort(common[common >= 0]))


def _user_card(audit: Audit, user: Any) -> UserCard:
    lists = []
    for one in audit.sets:
        code = positions(pl.Series([user], dtype=one.given.users.dtype), one.given.users)[0]
        rows = one.lists.items[one.lists.users == code].ravel()
        lists.append((one.label, one.given.items.gather(rows[rows >= 0][:LENGTH])))
    return user_card(audit.log, user, lists)


def _hashes(audit: Audit) -> dict[str, str]:
    hashes = {f"log {audit.log.reading.source}": audit.log.content_hash}
    hashes |= {f"lists {one.label}, {one.given.source}": one.given.content_hash for one in audit.sets}
    if audit.test is not None:
        hashes[f"test {audit.test.reading.source}, without pairs of the log"] = audit.test.content_hash
    return hashes
