"""Progress of a comparison: a live table on a terminal, otherwise one line for each run that ends."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from icpe.compare.grid import Cell, Event

_METRICS = ("recall@", "ndcg@", "recall_niche@", "apt@")


@contextmanager
def comparison_progress(cells: Sequence["Cell"] = (), seeds: Sequence[int] = ()) -> Iterator[Callable[["Event"], None]]:
    """Yield a function that shows events on standard error.

    Args:
        cells: rows of the live table; others are added when something happens to them.
        seeds: of every cell.
    """
    if not sys.stderr.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    rows = ProgressTable(cells, seeds)
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=4, get_renderable=rows.render) as live:

        def show(event: "Event") -> None:
            rows.update(event)
            if event.kind == "failed":
                live.console.print(event_line(event), highlight=False, markup=False)

        yield show


def _print(event: "Event") -> None:
    if event.kind in ("finished", "failed", "waiting"):
        click.echo(event_line(event), err=True)


def event_line(event: "Event") -> str:
    """Return an event as one line of text."""
    run = f"[{event.done}/{event.total}] {event.label} on {event.backbone}, seed {event.seed}"
    if event.kind == "waiting":
        return f"{run} waits: {event.reason}"
    if event.kind == "failed" or event.row is None:
        return f"{run} {event.kind}" + (f": {event.reason}" if event.reason else "")
    values = ", ".join(f"{name} {value:.4f}" for name, value in main_metrics(event.row).items())
    return f"{run}: {values}, {event.row['seconds'] or 0:.0f} s"


def main_metrics(row: dict[str, Any]) -> dict[str, float]:
    """Return the main metrics of a run at the first list length."""
    names = [next((name for name in row if name.startswith(start)), "") for start in _METRICS]
    return {name: row[name] for name in names if name and row[name] is not None}


class ProgressTable:
    """The state of each cell, as a table for the terminal.

    Args:
        cells: rows of the table.
        seeds: of every cell.
    """

    def __init__(self, cells: Sequence["Cell"], seeds: Sequence[int]) -> None:
        self._seeds = len(seeds)
        self._rows: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
        self._running: dict[tuple[str, str], list[int]] = {}
        self._failed: dict[tuple[str, str], int] = {}
        self._caption = ""
        self._started, self._ended = time.monotonic(), 0
        for cell in cells:
            self._add((cell.label, cell.backbone))

    def update(self, event: "Event") -> None:
        """Take in an event."""
        key = (event.label, event.backbone)
        self._add(key)
        if event.kind == "started":
            self._running[key].append(event.seed)
        elif event.kind != "waiting" and event.seed in self._running[key]:
            self._running[key].remove(event.seed)
        if event.row is not None:
            self._rows[key][event.seed] = main_metrics(event.row)
        self._failed[key] += event.kind == "failed"
        self._ended += event.kind in ("finished", "failed")
        waits = f"; {event.reason}" if event.kind == "waiting" else ""
        self._caption = f"{event.done} of {event.total} runs{self._rate()}{_time_left(event.seconds_left)}{waits}"

    def render(self) -> Any:
        """Return the table as it is now."""
        from rich.table import Table

        names = list(dict.fromkeys(name for rows in self._rows.values() for row in rows.values() for name in row))
        table = Table("method", "backbone", "seeds", *names, "state", caption=self._caption, caption_justify="left")
        for (label, backbone), rows in self._rows.items():
            found = [[row[name] for row in rows.values() if name in row] for name in names]
            means = [f"{mean(values):.4f}" if values else "" for values in found]
            state = self._state((label, backbone), len(rows))
            number = f"{len(rows)}/{self._seeds}" if self._seeds else str(len(rows))
            table.add_row(label, backbone, number, *means, state)
        return table

    def _add(self, key: tuple[str, str]) -> None:
        self._rows.setdefault(key, {})
        self._running.setdefault(key, [])
        self._failed.setdefault(key, 0)

    def _rate(self) -> str:
        hours = (time.monotonic() - self._started) / 3600
        return f", {self._ended / hours:,.0f} runs/h" if self._ended and hours > 0 else ""

    def _state(self, key: tuple[str, str], done: int) -> str:
        words = [f"{self._failed[key]} failed"] if self._failed[key] else []
        if self._running[key]:
            words.append(f"seed {', '.join(map(str, self._running[key]))} runs")
        if not words:
            words = ["done" if done and done >= self._seeds else "waits"]
        return ", ".join(words)


def _time_left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours} h {minutes} min left" if hours else f", {minutes} min {rest} s left"
