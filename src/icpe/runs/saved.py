"""Saved runs: evaluate them again, and turn their dial."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icpe.errors import DataError
from icpe.files import write_atomically, write_json
from icpe.recommender.dial import Wish
from icpe.recommender.evaluation import front_on_test
from icpe.recommender.front import SETTING, Front
from icpe.recommender.model import Model
from icpe.recommender.store import FRONT, save_settings
from icpe.runs.config import RunConfig
from icpe.runs.load import load
from icpe.runs.measure import evaluations, measure, without_nan
from icpe.runs.plugins import Plugin
from icpe.runs.run import CONFIG, PER_USER, RESULT, SPLIT, TEST_FRONT
from icpe.split import Parts


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A finished run together with its data.

    Attributes:
        folder: folder of the run.
        config: its configuration.
        result: content of ``result.json``.
        model: the trained model.
        parts: the split that it was trained on.
    """

    folder: Path
    config: RunConfig
    result: dict[str, Any]
    model: Model
    parts: Parts

    @classmethod
    def open(cls, folder: Path, data_dir: Path | None = None, plugins: Iterable[Plugin] = ()) -> "SavedRun":
        """Return the run in a folder. Its data are read and split again.

        Args:
            folder: folder of the run.
            data_dir: folder in which to look for the data first.
            plugins: files or classes of user-defined backbones and methods.

        Raises:
            DataError: the folder contains no finished run, or the data have changed since the run.
        """
        try:
            result: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
            hashes = json.loads((folder / SPLIT).read_text(encoding="utf-8"))["hashes"]
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{folder} holds no finished run ({error}); train with `icpe train … -o {folder}`"
            ) from error
        model = load(folder, plugins)
        config = RunConfig.read(folder / CONFIG).updated("data", {"data_dir": data_dir})
        parts = config.open_parts()
        if parts.manifest["hashes"] != hashes:
            raise DataError(
                f"the data of {folder} have changed since it was made: the content hashes of its split differ"
            )
        return cls(folder, config, result, model, parts)


def evaluate_run(
    folder: Path,
    depths: list[int] | None = None,
    data_dir: Path | None = None,
    adjust: dict[str, Any] | None = None,
    plugins: Iterable[Plugin] = (),
) -> dict[str, Any]:
    """Return the result of a saved run with metrics computed again.

    Args:
        folder: folder of the run.
        depths: list lengths; None for those of the run.
        data_dir: folder in which to look for the data first.
        adjust: changed ranking settings, see :meth:`Model.adjusted`.
        plugins: files or classes of user-defined backbones and methods.

    Raises:
        ConfigError: the method has no such ranking setting.
        DataError: the folder contains no finished run, or the data have changed since the run.
    """
    run = SavedRun.open(folder, data_dir, plugins)
    model = run.model.adjusted(**adjust) if adjust else run.model
    return {**run.result, "beta": model.beta, **measure(model, run.parts, depths or run.config.depths)}


@dataclass(frozen=True, eq=False)
class Dialled:
    """A run whose dial was turned.

    Attributes:
        model: the model at the chosen setting.
        wish: what was asked for.
        front: the front on the validation part.
        metrics: metrics on the validation and the test part at the chosen setting.
    """

    model: Model
    wish: Wish
    front: Front
    metrics: dict[str, dict[str, float | None]]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, in the form that ``icpe dial --json`` prints."""
        rows = [{"setting": {SETTING: row.pop(SETTING)}, **row} for row in self.front.table.iter_rows(named=True)]
        return {"setting": {SETTING: self.model.beta}, "wish": self.wish.as_dict(), "front": rows, **self.metrics}


def dial_run(
    folder: Path,
    wish: Wish | None = None,
    save: bool = False,
    data_dir: Path | None = None,
    plugins: Iterable[Plugin] = (),
) -> Dialled:
    """Return a saved run with the dial at the setting that meets a wish.

    Args:
        folder: folder of the run.
        wish: what the dial should achieve; None leaves it where it is.
        save: whether the run keeps the setting, so that all other commands use it.
        data_dir: folder in which to look for the data first.
        plugins: files or classes of user-defined backbones and methods.

    Raises:
        ConfigError: no setting meets the wish.
        DataError: the folder contains no finished run, its data have changed, or it has no validation part.
    """
    run = SavedRun.open(folder, data_dir, plugins)
    model, parts = run.model, run.parts
    if len(parts.valid) == 0:
        raise DataError(f"{folder} has no validation part, on which the dial is measured; train with --valid FILE")
    measured_before = model.has_front
    front = model.front(None if measured_before else parts.valid)
    wish = Wish(beta=model.beta) if wish is None else wish
    model = model.dial(**wish.as_dict())
    found = evaluations(model, parts, run.config.depths, per_user=save)
    metrics = {name: without_nan(one.values) for name, one in found.items()}
    if save:
        if not measured_before:  # a run of an earlier version
            write_atomically(folder / FRONT, front.as_frame().write_parquet)
            if len(parts.test):
                write_atomically(folder / TEST_FRONT, front_on_test(model, parts).as_frame().write_parquet)
        if "test" in found and (users := found["test"].per_user) is not None:
            write_atomically(folder / PER_USER, users.write_parquet)
        save_settings(model, folder)
        write_json(folder / RESULT, {**run.result, "beta": model.beta, "wish": wish.as_dict(), **metrics})
    return Dialled(model, wish, front, metrics)
