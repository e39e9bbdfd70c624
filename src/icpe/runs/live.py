"""The refit of a run on all its parts: the model that goes live."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, LIVE
from icpe.runs.run import Run
from icpe.train.loop import Position


def refit_run(
    folder: Path,
    resume: bool = False,
    force: bool = False,
    on_step: Callable[[Position, int], None] | None = None,
    plugins: Sequence[str] = (),
) -> dict[str, Any]:
    """Train on all parts of a finished run, into the folder ``live`` in it, and return the content of ``result.json``.

    Args:
        folder: folder of a finished run with a validation part.
        resume: whether to resume a refit that was interrupted.
        force: whether to replace an existing refit.
        on_step: function that is called with the position and the total number of steps.
        plugins: files of user-defined backbones and methods.

    Raises:
        ConfigError: the run has no validation part, or the refit exists, and neither resume nor force is set.
        DataError: the folder contains no finished run, or its data cannot be read.
    """
    config = RunConfig.read(folder / CONFIG)
    start = {name: value for name, value in config.start.items() if name == "init_from"}
    start["refit_of"] = str(folder.absolute())
    return Run(replace(config, start=start, plugins=tuple(plugins)), folder / LIVE, on_step).train(resume, force)
