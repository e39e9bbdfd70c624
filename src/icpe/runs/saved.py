"""Saved runs: evaluate them again, and turn their dial."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icpe.errors import DataError
from icpe.files import MANIFEST, check_files, lock_folder, read_json, write_together
from icpe.files.atomic import Writer, as_json, text_writer
from icpe.recommender.dial import Wish
from icpe.recommender.evaluation import front_on_test
from icpe.recommender.front import SETTING, Front
from icpe.recommender.model import Model
from icpe.recommender.saved_log import SETTINGS
from icpe.recommender.store import model_writers, settings_writer, training_data_hash
from icpe.runs.config import RunConfig
from icpe.runs.folder import CONFIG, LIVE, PER_USER, RECORDS, RESULT, SPLIT, TEST_FRONT
from icpe.runs.load import load
from icpe.runs.measure import evaluations, measure, measure_with_bias, without_nan
from icpe.runs.plugins import Plugin
from icpe.split import Parts
from icpe.train.limits import check_lengths


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
    def open(
        cls, folder: Path, data_dir: Path | None = None, plugins: Iterable[Plugin] = (), verify: bool = True
    ) -> "SavedRun":
        """Return the run in a folder. Its data are read and split again.

        Args:
            folder: folder of the run.
            data_dir: folder in which to look for the data first.
            plugins: files or classes of user-defined backbones and methods.
            verify: whether to compare the files with their checksums.

        Raises:
            DataError: the folder contains no finished run, it is damaged, or the data have changed since the run.
        """
        if verify:
            check_files(folder, RECORDS)
        try:
            result: dict[str, Any] = read_json(folder / RESULT)
            hashes = read_json(folder / SPLIT)["hashes"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder} holds no finished run ({error}); train with `icpe train … -o {folder}`"
            ) from error
        if "refit" in result:
            raise DataError(
                f"{folder} was trained on all parts, so nothing is held out to measure it on; measure and dial "
                f"{result['refit']['of']} instead, whose settings it has"
            )
        model = load(folder, plugins, verify)
        check_same_data(folder, hashes)
        config = RunConfig.read(folder / CONFIG).updated("data", {"data_dir": data_dir})
        parts = config.open_parts()
        if parts.manifest["hashes"] != hashes:
            raise DataError(
                f"the data of {folder} have changed since it was made: the content hashes of its split differ"
            )
        return cls(folder, config, result, model, parts)


def check_same_data(folder: Path, hashes: dict[str, str]) -> None:
    """Check that the model in a run folder was trained on the training part of the split beside it.

    Raises:
        DataError: it was trained on other data.
    """
    if training_data_hash(folder) not in (None, hashes.get("train")):
        raise DataError(f"the model in {folder} was trained on other data than {folder / SPLIT} describes; train again")


def evaluate_run(
    folder: Path,
    depths: list[int] | None = None,
    data_dir: Path | None = None,
    adjust: dict[str, Any] | None = None,
    plugins: Iterable[Plugin] = (),
    verify: bool = True,
    bias: bool = False,
) -> dict[str, Any]:
    """Return the result of a saved run with metrics computed again.

    Args:
        folder: folder of the run.
        depths: list lengths; None for those of the run.
        data_dir: folder in which to look for the data first.
        adjust: changed ranking settings, see :meth:`Model.adjusted`.
        plugins: files or classes of user-defined backbones and methods.
        verify: whether to compare the files with their checksums.
        bias: whether to add the metrics of an audit, and ``intervals``.

    Raises:
        ConfigError: the method has no such ranking setting, or a length is larger than the number of items.
        DataError: the folder contains no finished run, or the data have changed since the run.
    """
    run = SavedRun.open(folder, data_dir, plugins, verify)
    model = run.model.adjusted(**adjust) if adjust else run.model
    lengths = depths or run.config.depths
    check_lengths(lengths, len(run.parts.train.items))
    measured = (measure_with_bias if bias else measure)(model, run.parts, lengths)
    return {**_without_setting(run.result), **model.setting, **measured}


@dataclass(frozen=True, eq=False)
class Dialled:
    """A run whose dial was turned.

    Attributes:
        model: the model at the chosen setting.
        wish: what was asked for.
        front: the front on the validation part.
        metrics: metrics on the validation and the test part at the chosen setting.
        unboosted: the front without the boost, if there is a boost.
    """

    model: Model
    wish: Wish
    front: Front
    metrics: dict[str, dict[str, float | None]]
    unboosted: Front | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, in the form that ``icpe dial --json`` prints."""
        rows = [{"setting": {SETTING: row.pop(SETTING)}, **row} for row in self.front.table.iter_rows(named=True)]
        return {"setting": self.model.setting, "wish": self.wish.as_dict(), "front": rows, **self.metrics}


def dial_run(
    folder: Path,
    wish: Wish | None = None,
    save: bool = False,
    data_dir: Path | None = None,
    plugins: Iterable[Plugin] = (),
    verify: bool = True,
) -> Dialled:
    """Return a saved run with the dial at the setting that meets a wish.

    Args:
        folder: folder of the run.
        wish: what the dial should achieve; None leaves it where it is.
        save: whether the run and its refit on all parts keep the setting, so that all other commands use it.
        data_dir: folder in which to look for the data first.
        plugins: files or classes of user-defined backbones and methods.
        verify: whether to compare the files with their checksums.

    Raises:
        ConfigError: no setting meets the wish, or another process works in the folder.
        DataError: the folder contains no finished run, its data have changed, or it has no validation part.
    """
    with lock_folder(folder) if save else nullcontext():
        run = SavedRun.open(folder, data_dir, plugins, verify)
        model, parts = run.model, run.parts
        if len(parts.valid) == 0:
            raise DataError(f"{folder} has no validation part, on which the dial is measured; train with --valid FILE")
        wish = Wish(beta=model.beta) if wish is None else wish
        if wish.beta is None:
            model = model.adjusted(boost=None)  # a wish without a boost is a wish for none
        measured_before, unboosted = model.has_front, None
        front = model.front(None if measured_before else parts.valid)
        model = model.dial(parts.valid, **wish.as_dict())
        if model.boost and wish.boost:
            measured_before, unboosted, front = False, front, model.front()
        found = evaluations(model, parts, run.config.depths, per_user=save)
        metrics = {name: without_nan(one.values) for name, one in found.items()}
        if save:
            result = {**_without_setting(run.result), **model.setting, "wish": wish.as_dict(), **metrics}
            writers: dict[str, Writer] = {SETTINGS: settings_writer(model), RESULT: text_writer(as_json(result))}
            if "test" in found and (users := found["test"].per_user) is not None:
                writers[PER_USER] = users.write_parquet
            _write_choice(folder, writers, model, parts, measured_before)
            dial_live(folder, model, wish, plugins, verify)
    return Dialled(model, wish, front, metrics, unboosted)


def dial_live(folder: Path, model: Model, wish: Wish, plugins: Iterable[Plugin] = (), verify: bool = True) -> None:
    """Give the refit of a run, if it has one, the setting of the dial that was chosen on the run's validation part."""
    live = folder / LIVE
    if not (live / RESULT).exists():
        return
    with lock_folder(live):
        refit = load(live, plugins, verify).adjusted(beta=model.beta, boost=model.method.settings.boost)
        refit = Model(refit.method, refit.log, model.front(), refit.train_hash)
        result = {**_without_setting(read_json(live / RESULT)), **refit.setting, "wish": wish.as_dict()}
        write_together(live, {**model_writers(refit), RESULT: text_writer(as_json(result))})


def _without_setting(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("beta", "boost")}


def _write_choice(folder: Path, writers: dict[str, Writer], model: Model, parts: Parts, has_front: bool) -> None:
    """Write the changed files of a run. A run of an earlier version gets the files that it lacks, too."""
    if not (folder / MANIFEST).exists() or not has_front:
        writers = {**model_writers(model), **writers}
    if len(parts.test):  # it has the chosen setting, too
        writers[TEST_FRONT] = front_on_test(model, parts).as_frame().write_parquet
    write_together(folder, writers)
