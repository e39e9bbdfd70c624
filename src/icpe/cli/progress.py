"""A bar with rate and time left, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function ``report(done, total)`` that moves a bar on standard error; silent where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(unit, total=None, rate="")

        def report(done: int, total: int) -> None:
            speed = bars.tasks[0].speed
            bars.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield report
