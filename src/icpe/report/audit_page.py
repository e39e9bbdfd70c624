"""The page of an audit."""

from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe.data.coding import positions
from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.report.auditing import Audit, AuditedLists
from icpe.report.blocks import (
    check_page_name,
    commands,
    figures,
    folded,
    header,
    mark,
    pairs,
    paragraphs,
    section,
    write_page,
)
from icpe.report.exposure_figures import Exposure, by_tenth, cumulated
from icpe.report.making import machine
from icpe.report.people import LENGTH, card, typical
from icpe.report.table import Block, as_html, as_text, grouped
from icpe.report.words import against, ahead, alone, percent, recalls

_ROWS = 6  # items that gain most and that lose most


def write_audit(audit: Audit, path: Path, users: Sequence[str], command: str | None) -> Path:
    """Write the page; :meth:`Audit.write` leads here."""
    check_page_name(path)
    shown = _chosen(audit, users)
    sections = [
        header(_title(audit), _about(audit), headline(audit)),
        section("Head and niche", as_html(list(audit.values), blocks_of(audit), _caption(audit)) + _notes(audit)),
        section("What people are shown", _shown(audit)),
        section("Items that gain and lose", "".join(_gains(audit, one) for one in audit.sets) + _HIDDEN),
        section("Lists of a few people", "".join(_person(audit, user) for user in shown) or _NOBODY),
        section("How it was made", _made(audit, command)),
    ]
    return write_page(_title(audit), "\n".join(sections), path)


def terminal_text(audit: Audit) -> str:
    """Table, headline and notes for the terminal, a paragraph an entry."""
    said = [" ".join(filter(None, both)) for both in headline(audit)]
    notes = [" ".join((f"{one.label}:", *one.notes)) for one in audit.sets]
    return "\n\n".join([as_text(list(audit.values), blocks_of(audit)), *said, *notes, *audit.remarks])


def blocks_of(audit: Audit) -> list[Block]:
    """The columns of the table."""
    n, values = audit.n, list(audit.values.values())
    accuracy = [grouped(f"Recall@{n}", "recall", n, values), grouped(f"NDCG@{n}", "ndcg", n, values)]

    def single(title: str, metric: str, **how: Any) -> Block:
        return Block(title, {f"@{n}": [one.get(f"{metric}@{n}") for one in values]}, **how)

    return [
        *(accuracy if audit.test is not None else []),
        single("Coverage", "coverage"),
        single("APT", "apt"),
        single("Gini", "gini", better="less"),
        single("Popularity", "popularity", better="neither", decimals=1),
        single("Novelty", "novelty", better="neither", decimals=2),
    ]


def headline(audit: Audit) -> list[tuple[str, str]]:
    """What is shown and how well it fits, for each set that is compared with the first, or for a single one."""
    first, *others = audit.sets
    blocks = blocks_of(audit)
    if not others:
        return [(alone(first.label, first.values, audit.n, audit.log, "log"), _fits(audit, first, recalls(blocks, 0)))]
    said = []
    for at, one in enumerate(others, 1):
        fits = f"{recalls(blocks, at)} {ahead(one.label, first.label, at, blocks)}".strip()
        said.append((against(one.label, one.values, first.label, first.values, audit.n), _fits(audit, one, fits)))
    return said


def _fits(audit: Audit, one: AuditedLists, accuracy: str) -> str:
    """Accuracy, or that nothing is known about it; and what stands out in the lists."""
    used = one.seen / one.places
    notes = [f"{percent(used)} of the places of {one.label} are things people already used."] if used >= 0.01 else []
    if audit.test is None:
        notes.append("Whether the lists fit people is not known, for no test part was given.")
    return " ".join((accuracy, *notes)).strip()


def _title(audit: Audit) -> str:
    first, *others = (one.label for one in audit.sets)
    if not others:
        return f"Audit of {first}"
    return f"{', '.join(others) if len(others) < 3 else f'{len(others)} sets of lists'} against {first}"


def _about(audit: Audit) -> str:
    log = audit.log
    lists = ", ".join(f"{one.label} {len(one.lists):,}" for one in audit.sets)
    return (
        f"{Path(log.reading.source).name}: {len(log.users):,} users, {len(log.items):,} items, {len(log):,} "
        f"interactions. Users with a list: {lists}."
    )


def _caption(audit: Audit) -> str:
    counted = ", ".join(f"{one.label} {one.values['users'] or 0:,.0f}" for one in audit.sets)
    accuracy = f"Recall and NDCG are means over users with a list and test items ({counted}). "
    return (
        f"At list length {audit.n}. {accuracy if audit.test is not None else ''}"
        "Head is the fifth of the log's items with most interactions, niche the rest, items that are not in the log "
        "included. Coverage is the share of all items that are in some list, APT the share of niche items in lists, "
        "Gini how unevenly items are shown (0 all alike, towards 1 a few get everything), Popularity how often a shown "
        "item is in the log, Novelty the surprise in bits that somebody drawn at random has used it; all are of all "
        "lists. ↑ more is better, ↓ less is better; the best is bold."
    )


def _notes(audit: Audit) -> str:
    sets = "".join(
        f"<div><h3>{escape(one.label)}</h3><ul>{''.join(f'<li>{escape(note)}</li>' for note in one.notes)}</ul></div>"
        for one in audit.sets
    )
    return paragraphs(audit.remarks, "small") + f'<div class="lists">{sets}</div>'


def _shown(audit: Audit) -> str:
    counts, size = audit.log.item_counts, len(audit.log.items)
    lists = [Exposure(one.label, one.shown[:size], int(one.shown[size:].sum())) for one in audit.sets]
    new = " Items that are not in the log have a bar of their own." if any(one.new for one in lists) else ""
    tenths = f"Places in the first {audit.n} of every list, by popularity of the item. Grey: the share of the log.{new}"
    together = "Share of the places that the most popular items take together; the higher, the fewer items get it all."
    return figures(
        ("Who gets the places", tenths, partial(by_tenth, counts, lists)),
        ("The long tail", together, partial(cumulated, counts, lists)),
    )


_NOBODY = "<p>No user of the log has a list in every set.</p>"
_HIDDEN = (
    '<p class="small">Share of the list places less share of the log, the largest differences first. Lists that leave '
    "out what people have used cannot show a hit to those who know it, so the most popular items lose a little in any "
    "such list.</p>"
)


def _gains(audit: Audit, one: AuditedLists) -> str:
    """The items whose share of the places is furthest above and below their share of the log."""
    log = audit.log
    size = len(one.given.items)
    had = np.pad(log.item_counts, (0, size - len(log.items))) / len(log)
    got = one.shown / one.places
    niche = np.concatenate([~head_mask(log.item_counts), np.ones(size - len(log.items), bool)])
    order = np.argsort(had - got, kind="stable")
    tables = []
    for title, chosen in (
        ("More than their share", order[:_ROWS][(got > had)[order[:_ROWS]]]),
        ("Less than their share", order[::-1][:_ROWS][(got < had)[order[::-1][:_ROWS]]]),
    ):
        names = log.item_names(one.given.items.gather(chosen))
        rows = "".join(
            f'<tr><th scope="row">{mark(bool(niche[item]))}{escape(str(name))}</th>'
            f"<td>{100 * had[item]:.2f}&nbsp;%</td><td>{100 * got[item]:.2f}&nbsp;%</td></tr>"
            for item, name in zip(chosen.tolist(), names, strict=True)
        )
        heads = '<th scope="col">of the log</th><th scope="col">of the places</th>'
        table = f'<table class="gains"><thead><tr><td></td>{heads}</tr></thead>{rows}</table>'
        tables.append(f'<div><h3>{title}</h3><div class="wide">{table if rows else "<p>None.</p>"}</div></div>')
    return f'<div class="card person"><h3>{escape(one.label)}</h3><div class="lists">{"".join(tables)}</div></div>'


def _chosen(audit: Audit, users: Sequence[str]) -> list[Any]:
    """Ids of the users to show: those asked for, or some with a list in every set."""
    listed = [one.given.users.gather(one.lists.users) for one in audit.sets]
    if users:
        everybody = pl.concat(listed).unique(maintain_order=True)
        places = positions(pl.Series(list(users), dtype=pl.String), everybody.cast(pl.String))
        if places.min() < 0:
            raise DataError(f"user {users[int(np.argmin(places))]!r} has no list; such as {everybody[0]!r} has one")
        return list(everybody.gather(places))
    known = [positions(ids, audit.log.users) for ids in listed]
    common = known[0]
    for codes in known[1:]:
        common = np.intersect1d(common, codes)
    return typical(audit.log, np.sort(common[common >= 0]))


def _person(audit: Audit, user: Any) -> str:
    lists = []
    for one in audit.sets:
        code = positions(pl.Series([user], dtype=one.given.users.dtype), one.given.users)[0]
        rows = one.lists.items[one.lists.users == code].ravel()
        lists.append((one.label, one.given.items.gather(rows[rows >= 0][:LENGTH])))
    return card(audit.log, user, lists)


def _made(audit: Audit, command: str | None) -> str:
    again = "<p>This command makes the page again:</p>" + commands([command]) if command else ""
    hashes = {f"log {audit.log.reading.source}": audit.log.content_hash}
    hashes |= {f"lists {one.label}, {one.given.source}": one.given.content_hash for one in audit.sets}
    if audit.test is not None:
        hashes[f"test {audit.test.reading.source}, without pairs of the log"] = audit.test.content_hash
    met = "".join(f"<h3>{escape(one.label)}</h3>{pairs(one.counts)}" for one in audit.sets)
    return again + folded("Content hashes", pairs(hashes)) + folded("What was counted", met) + machine()
