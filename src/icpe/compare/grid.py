"""Comparisons: cells × seeds in one folder, which a later call continues."""

from collections.abc import Callable, Sequence
from pathlib import Path

from icpe.compare._checks import check_request, refuse_other_settings
from icpe.compare._files import read_grid, write_results, write_tables
from icpe.compare._schedule import Event, Schedule
from icpe.compare._state import Cell, Failure, Grid, results_frame, run_folder
from icpe.files import lock_folder
from icpe.jobs import Workers

__all__ = ["Cell", "Event", "Failure", "Grid", "open_grid", "results_frame", "run_folder", "run_grid"]


def run_grid(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    folder: Path,
    *,
    workers: Workers = 1,
    on_event: Callable[[Event], None] | None = None,
    keep_checkpoints: bool = False,
    subject: str | None = "icpe",
    tables: bool = True,
) -> Grid:
    """Train every cell with every seed and return all results. Finished runs are not trained again.

    Each run is a folder of :class:`icpe.runs.run.Run` below ``folder/runs``. An interrupted run continues from its
    checkpoint. A run that fails is recorded with its reason, does not stop the others, and is tried again at the next
    call. Calls with other cells may use the same folder. Tables are written beside the runs.

    Args:
        cells: what to compare.
        seeds: of every cell; a seed decides the split, the initial values and all sampling.
        folder: of the comparison.
        workers: number of processes that train, with one thread each, as many as fit into memory; 1 trains in this
            process; ``icpe.jobs.RayCluster("auto")`` trains on the machines of a cluster, which need no shared folder.
        on_event: receives all progress.
        keep_checkpoints: whether to keep the checkpoints of finished runs, which take most of the space.
        subject: label or method that the tables test against the others.
        tables: whether to write tables beside the runs. Without them, several comparisons can share a folder of runs.

    Raises:
        ConfigError: a setting is wrong, the folder holds a run with other settings, or another process works in it.
        DataError: the data cannot be read, or are not those of the runs in the folder.
        KeyboardInterrupt: after Ctrl-C. Finished runs are kept, and the others continue from their checkpoints.
    """
    cells, seeds, folder = list(cells), list(seeds), Path(folder)
    check_request(cells, seeds, workers)
    for cell in cells:
        for seed in seeds:
            refuse_other_settings(cell.run_config(seed), run_folder(folder, cell, seed))
    with lock_folder(folder):
        schedule = Schedule(cells, seeds, folder, on_event, keep_checkpoints, workers)
        schedule.find_finished()
        try:
            schedule.execute(subject, tables)
        except BaseException:
            if tables:
                write_tables(schedule.grid(), subject)
            raise
        grid = schedule.grid()
        if tables:
            write_results(grid, subject)
    return grid


def open_grid(folder: Path) -> Grid:
    """Return the comparison in a folder, with all runs that are finished there.

    Raises:
        DataError: the folder holds no comparison.
    """
    return read_grid(Path(folder))
