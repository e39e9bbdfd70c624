"""A comparison while it runs: a live table on a terminal, elsewhere a line for each run that ends."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import mean
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from icpe.compare.grid import Cell, Event

_SHOWN = ("recall@", "ndcg@", "recall_niche@", "apt@")


@contextmanager
def shown(cells: Sequence["Cell"] = (), seeds: Sequence[int] = ()) -> Iterator[Callable[["Event"], None]]:
    """A function that takes what happens; cells that are not named before are added when something happens to them."""
    if not sys.stderr.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    board = Board(cells, seeds)
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=4, get_renderable=board.table) as live:

        def show(event: "Event") -> None:
            board.note(event)
            if event.kind == "failed":
                live.console.print(line(event), highlight=False, markup=False)

        yield show


def _print(event: "Event") -> None:
    if event.kind in ("finished", "failed", "waiting"):
        click.echo(line(event), err=True)


def line(event: "Event") -> str:
    """What happened, in words."""
    who = f"[{event.done}/{event.total}] {event.label} on {event.backbone}, seed {event.seed}"
    if event.kind == "waiting":
        return f"{who} waits: {event.reason}"
    if event.kind == "failed" or event.row is None:
        return f"{who} {event.kind}" + (f": {event.reason}" if event.reason else "")
    values = ", ".join(f"{name} {value:.4f}" for name, value in main_values(event.row).items())
    return f"{who}: {values}, {event.row['seconds'] or 0:.0f} s{_left(event.seconds_left)}"


def _left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f", {hours} h {minutes} min left" if hours else f", {minutes} min {rest} s left"


def main_values(row: dict[str, Any]) -> dict[str, float]:
    """The main metrics at the first list length."""
    names = [next((name for name in row if name.startswith(start)), "") for start in _SHOWN]
    return {name: row[name] for name in names if name and row[name] is not None}


class Board:
    """What is known of each cell, as a table for the terminal."""

    def __init__(self, cells: Sequence["Cell"], seeds: Sequence[int]) -> None:
        self._seeds = len(seeds)
        self._rows: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
        self._running: dict[tuple[str, str], list[int]] = {}
        self._failed: dict[tuple[str, str], int] = {}
        self._below = ""
        for cell in cells:
            self._add((cell.label, cell.backbone))

    def _add(self, key: tuple[str, str]) -> None:
        self._rows.setdefault(key, {})
        self._running.setdefault(key, [])
        self._failed.setdefault(key, 0)

    def note(self, event: "Event") -> None:
        """Take in what happened."""
        key = (event.label, event.backbone)
        self._add(key)
        if event.kind == "started":
            self._running[key].append(event.seed)
        elif event.kind != "waiting" and event.seed in self._running[key]:
            self._running[key].remove(event.seed)
        if event.row is not None:
            self._rows[key][event.seed] = main_values(event.row)
        self._failed[key] += event.kind == "failed"
        waits = f"; {event.reason}" if event.kind == "waiting" else ""
        self._below = f"{event.done} of {event.total} runs{_left(event.seconds_left)}{waits}"

    def table(self) -> Any:
        """As it is now."""
        from rich.table import Table

        names = list(dict.fromkeys(name for rows in self._rows.values() for row in rows.values() for name in row))
        table = Table("method", "backbone", "seeds", *names, "state", caption=self._below, caption_justify="left")
        for (label, backbone), rows in self._rows.items():
            found = [[row[name] for row in rows.values() if name in row] for name in names]
            means = [f"{mean(values):.4f}" if values else "" for values in found]
            state = self._state((label, backbone), len(rows))
            number = f"{len(rows)}/{self._seeds}" if self._seeds else str(len(rows))
            table.add_row(label, backbone, number, *means, state)
        return table

    def _state(self, key: tuple[str, str], done: int) -> str:
        words = [f"{self._failed[key]} failed"] if self._failed[key] else []
        if self._running[key]:
            words.append(f"seed {', '.join(map(str, self._running[key]))} runs")
        if not words:
            words = ["done" if done and done >= self._seeds else "waits"]
        return ", ".join(words)
