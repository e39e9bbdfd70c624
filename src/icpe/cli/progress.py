"""Progress bars, on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icpe.train.loop import Position


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[..., None]]:
    """Yield a function ``report(done, total, note="")`` that moves a bar on standard error.

    The function does nothing if standard error is not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    rate, notes = TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[note]}", markup=False)
    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn(), notes)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(unit, total=None, rate="", note="")

        def report(done: int, total: int, note: str = "") -> None:
            speed = bars.tasks[0].speed
            bars.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "", note=note)

        yield report


class TrainingProgress:
    """Moves a progress bar during training, with the loss and the latest validation score beside it.

    Args:
        report: what :func:`progress_bar` yields.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report, self._loss, self._score = report, "", ""

    def on_step(self, position: "Position", steps: int) -> None:
        """Show the position; the loss is the mean since the last validation."""
        if position.loss_steps:
            self._loss = f"loss {position.loss_sum / position.loss_steps:.4f}"
        self._report(position.step, steps, f"{self._loss}  {self._score}".strip())

    def on_evaluation(self, record: dict[str, Any]) -> None:
        """Remember the score of a validation."""
        if "valid" in record:
            self._score = f"valid NDCG@20 {record['valid']['ndcg@20']:.4f}"
