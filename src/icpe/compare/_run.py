"""One run of a comparison, as a worker executes it."""

import shutil
import time
from pathlib import Path
from typing import Any

from icpe.compare._state import DIALS, NOTE, read_note
from icpe.data.interactions import Interactions
from icpe.files import write_json, write_together
from icpe.files.atomic import as_json, text_writer
from icpe.runs.config import RunConfig
from icpe.runs.folder import CHECKPOINT, PER_USER, RESULT
from icpe.runs.load import load
from icpe.runs.measure import measure
from icpe.runs.run import Run
from icpe.split import Parts

_NOTE_EVERY = 30.0  # seconds


def run_once(
    folder: Path,
    config: RunConfig,
    dials: list[tuple[str, float]],
    keep_checkpoint: bool,
    data: Interactions | Parts | None = None,
) -> None:
    """Train a run from where it stands, evaluate it, and note how many seconds it took.

    Args:
        folder: of the run.
        config: settings of the run.
        dials: settings of ranking to evaluate after training, each with a value.
        keep_checkpoint: whether to keep the checkpoint of the finished run.
        data: of the run, if they have come from another machine.
    """
    config = config.with_data(data)
    before, started = float(read_note(folder).get("seconds", 0.0)), time.monotonic()
    noted = started

    def note_seconds(*position: Any) -> None:
        """Note the time now and then, so that a killed run does not lose it."""
        nonlocal noted
        if time.monotonic() - noted > _NOTE_EVERY:
            noted = time.monotonic()
            write_json(folder / NOTE, {"seconds": round(before + noted - started, 3)})

    finished = (folder / RESULT).exists() and (folder / PER_USER).exists()
    if not finished or (folder / CHECKPOINT).exists():
        Run(config, folder, note_seconds).train(resume=True)
    if dials:
        _evaluate_dials(config, folder, dials)
    if not keep_checkpoint:
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    write_json(folder / NOTE, {"seconds": round(before + time.monotonic() - started, 3)})


def _evaluate_dials(config: RunConfig, folder: Path, dials: list[tuple[str, float]]) -> None:
    model, parts, found = load(folder), config.open_parts(), []
    for name, value in dials:
        measured = measure(model.adjusted(**{name: value}), parts, config.depths)
        found.append({"dial": name, "value": value, **measured})
    write_together(folder, {DIALS: text_writer(as_json(found))})
