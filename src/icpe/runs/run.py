"""A training run in a folder. A run that is interrupted and resumed gives the same result as one that is not."""

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from icpe.errors import ConfigError, DataError, IcpeError
from icpe.files import write_atomically, write_json
from icpe.methods import Method
from icpe.recommender.evaluation import front_on_test
from icpe.recommender.fitting import finished_model
from icpe.recommender.model import Model
from icpe.recommender.store import FRONT, SETTINGS
from icpe.recommender.validation import validator
from icpe.runs.config import RunConfig
from icpe.runs.earlier_versions import is_earlier, upgraded, with_earlier_defaults
from icpe.runs.measure import evaluations, front_summary, without_nan
from icpe.split import Parts
from icpe.train import Trainer, load_checkpoint, save_checkpoint
from icpe.train.checkpoint import STATE, saved_identity
from icpe.train.loop import Position

CONFIG, RESULT, CURVE, CHECKPOINT = "config.toml", "result.json", "metrics.jsonl", "checkpoint"
SPLIT, PER_USER, TEST_FRONT = "split.json", "per_user.parquet", "front_test.parquet"
_HALF_WRITTEN = re.compile(
    r"\.(config|metrics|model|front|front_test|users|items|seen|split|result|per_user|state(-\d+)?)-\w{8}\.\w+"
)


@dataclass
class Run:
    """A training run that follows a configuration and stores everything in a folder.

    Args:
        config: configuration of the run.
        folder: folder of the run. With None nothing is stored.
        on_step: function that is called with the position and the total number of steps, for example to show progress.
        on_evaluation: function that is called with the record of each validation.
        save_every: seconds between checkpoints where validations are further apart.
    """

    config: RunConfig
    folder: Path | None = None
    on_step: Callable[[Position, int], None] | None = None
    on_evaluation: Callable[[dict[str, Any]], None] | None = None
    save_every: float = 60.0
    _interrupted: bool = field(default=False, init=False)
    _saved: float = field(default=0.0, init=False)

    def train(self, resume: bool = False, force: bool = False) -> dict[str, Any]:
        """Train, evaluate and save.

        Args:
            resume: whether to resume from the checkpoint in the folder, if it has one.
            force: whether to replace an existing run.

        Returns:
            The content of ``result.json`` (main settings, ``valid`` and ``test`` metrics) and the training time.

        Raises:
            ConfigError: the folder contains a run, and neither resume nor force is set.
            KeyboardInterrupt: the user pressed Ctrl-C. The checkpoint has been saved.
        """
        self._refuse_existing(resume, force)
        begun = saved_identity(self.folder / CHECKPOINT) if resume and self.folder is not None else {}
        earlier = is_earlier(begun.get("train"))
        if earlier:
            self.config = _with_earlier_defaults(self.config)
        # This reports mistakes in the settings before the log is read, which can take long.
        method, settings, depths = self.config.prepare()
        parts = self.config.open_parts(progress=True)
        found = validator(parts.train, parts.valid, settings)
        trainer = Trainer(method, parts.train, self.config.seed, settings, found)
        identity = self._identity(parts, method, settings.as_dict())
        if self.folder is not None:
            self._open_folder(self.folder, trainer, identity, resume)
            identity = begun if earlier else identity  # so that the run can be interrupted and resumed once more
            self.config.write(self.folder / CONFIG, method, settings)
            write_json(self.folder / SPLIT, parts.manifest)
        started = time.perf_counter()
        with self._interrupts_between_steps(), self._errors_name_checkpoint():
            trainer.run(
                on_step=lambda position: self._after_step(trainer, identity, position),
                on_evaluation=lambda record: self._record(trainer, identity, record),
            )
        seconds = time.perf_counter() - started
        model = finished_model(trainer, parts.train, found)
        return self._finish(model, trainer, parts, depths, identity, seconds)

    def _refuse_existing(self, resume: bool, force: bool) -> None:
        if self.folder is not None and (self.folder / CONFIG).exists() and not (resume or force):
            raise ConfigError(
                f"{self.folder} holds a run already; go on with --resume, replace it with --force, "
                "or choose another folder"
            )

    def _identity(self, parts: Parts, method: Method, settings: dict[str, Any]) -> dict[str, Any]:
        return {
            "training data": parts.manifest["hashes"]["train"],
            "validation data": parts.manifest["hashes"]["valid"],
            "seed": self.config.seed,
            "backbone": {"name": method.backbone.name, **method.backbone.settings.as_dict()},
            "method": {"name": method.name, **_without_none(method.settings.as_dict())},
            "train": settings,
        }

    def _open_folder(self, folder: Path, trainer: Trainer, identity: dict[str, Any], resume: bool) -> None:
        # The identity in the checkpoint went through JSON, where tuples became lists, so this one must too.
        found = (
            load_checkpoint(folder / CHECKPOINT, json.loads(json.dumps(identity)), _upgraded_identity)
            if resume
            else None
        )
        kept: list[str] = []
        if resume and found is None and (folder / RESULT).exists():
            raise DataError(
                f"{folder} holds a finished run without its checkpoint, so it cannot be resumed; "
                "train again with --force, or into another folder"
            )
        if found is not None:
            try:
                trainer.restore(*found)
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise DataError(
                    f"the checkpoint in {folder / CHECKPOINT} does not hold this run's state "
                    f"({type(error).__name__}: {str(error).splitlines()[0]}); train again into another folder"
                ) from error
            kept = _curve_until(folder / CURVE, trainer.position.step)
        else:
            # The old model must go too: next to a new config.toml it would look like the model of this run.
            stale = [folder / name for name in (RESULT, PER_USER, SETTINGS, FRONT, TEST_FRONT)]
            for path in (*stale, *(folder / CHECKPOINT).glob("state*")):
                path.unlink(missing_ok=True)
        for place in (folder, folder / CHECKPOINT):
            for path in place.glob(".*"):
                if _HALF_WRITTEN.fullmatch(path.name):
                    path.unlink(missing_ok=True)
        text = "".join(f"{line}\n" for line in kept)
        write_atomically(folder / CURVE, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))

    def _record(self, trainer: Trainer, identity: dict[str, Any], record: dict[str, Any]) -> None:
        if self.on_evaluation is not None:
            self.on_evaluation(record)
        if self.folder is None:
            return
        with (self.folder / CURVE).open("a", encoding="utf-8", newline="\n") as file:
            valid = {"valid": without_nan(record["valid"])} if "valid" in record else {}
            file.write(json.dumps({**record, **valid}) + "\n")
        self._save(trainer, identity)

    def _after_step(self, trainer: Trainer, identity: dict[str, Any], position: Position) -> None:
        if self.on_step is not None:
            self.on_step(position, trainer.steps)
        if self._interrupted or time.monotonic() - self._saved > self.save_every:
            self._save(trainer, identity)
        if self._interrupted:
            raise KeyboardInterrupt

    def _save(self, trainer: Trainer, identity: dict[str, Any]) -> None:
        self._saved = time.monotonic()
        if self.folder is not None:
            save_checkpoint(self.folder / CHECKPOINT, trainer.tensors(), trainer.record(), identity)

    @contextmanager
    def _interrupts_between_steps(self) -> Iterator[None]:
        """Delay Ctrl-C until the end of a step, when the state is consistent. A second Ctrl-C stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def _errors_name_checkpoint(self) -> Iterator[None]:
        """Add to the error of a failing run where its last checkpoint is."""
        try:
            yield
        except IcpeError as error:
            if self.folder is None or not (self.folder / CHECKPOINT / STATE).exists():
                raise
            raise type(error)(f"{error}; {self.folder / CHECKPOINT} holds an earlier state") from error

    def _finish(
        self,
        model: Model,
        trainer: Trainer,
        parts: Parts,
        depths: list[int],
        identity: dict[str, Any],
        seconds: float,
    ) -> dict[str, Any]:
        measured = evaluations(model, parts, depths, per_user=self.folder is not None)
        front = front_on_test(model, parts) if "test" in measured and model.has_front else None
        position = trainer.position
        result = {
            "backbone": identity["backbone"]["name"],
            "method": identity["method"]["name"],
            "seed": self.config.seed,
            "steps": position.step,
            "best_step": position.best_step or position.step,
            "beta": model.beta,
            **{name: without_nan(found.values) for name, found in measured.items()},
            **({} if front is None else {"front": front_summary(front)}),
        }
        if self.folder is not None:
            self._save(trainer, identity)
            model.save(self.folder)
            if "test" in measured and (users := measured["test"].per_user) is not None:
                write_atomically(self.folder / PER_USER, users.write_parquet)
            if front is not None:
                write_atomically(self.folder / TEST_FRONT, front.as_frame().write_parquet)
            write_json(self.folder / RESULT, result)
        return {**result, "seconds": round(seconds, 3)}


def _with_earlier_defaults(config: RunConfig) -> RunConfig:
    """Return the configuration with the values that applied in earlier versions where nothing is given."""
    config = config.expanded()
    found = with_earlier_defaults({"method": config.method, "train": config.train})
    return replace(config, method=found["method"], train=found["train"])


def _upgraded_identity(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a checkpoint as the present version would have written it."""
    found = upgraded(identity)
    method = found.get("method")
    return {**found, "method": _without_none(method)} if isinstance(method, dict) else found


def _curve_until(path: Path, step: int) -> list[str]:
    """Return the lines up to a step. The last line may be incomplete if the process was killed while writing it."""
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            if json.loads(line)["step"] > step:
                break
        except (ValueError, KeyError, TypeError):
            break
        kept.append(line)
    return kept


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None. None means that the method or the validation chooses the value."""
    return {name: value for name, value in values.items() if value is not None}
