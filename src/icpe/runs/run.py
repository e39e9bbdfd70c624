"""A training run in a folder. A run that is interrupted and resumed gives the same result as one that is not."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from icpe.errors import IcpeError
from icpe.files.atomic import Writer
from icpe.methods import Method
from icpe.recommender.evaluation import front_on_test
from icpe.recommender.fitting import finished_model
from icpe.recommender.model import Model
from icpe.recommender.parameters import write_parameters
from icpe.recommender.store import model_writers
from icpe.recommender.validation import validator
from icpe.runs.config import RunConfig
from icpe.runs.earlier_versions import is_earlier, with_earlier_defaults
from icpe.runs.folder import PER_USER, TEST_FRONT, RunFolder, without_none
from icpe.runs.measure import evaluations, front_summary, without_nan
from icpe.runs.origin import Origin, origin_of, recorded_start
from icpe.runs.together import agreed_after_step, check_group, check_same_data
from icpe.shards import current, first
from icpe.split import Parts
from icpe.train import Trainer
from icpe.train.limits import check_lengths
from icpe.train.loop import Position


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
        files = self._files
        if files is not None:
            files.refuse_existing(resume, force)
        begun = files.saved_identity() if resume and files is not None else {}
        recorded = recorded_start(self.folder) if begun else {}
        self.config = replace(self.config, start={**recorded, **self.config.start})
        origin = origin_of(self.config, recorded)
        earlier = is_earlier(begun.get("train"))
        if earlier:
            self.config = _with_earlier_defaults(self.config)
        # This reports mistakes in the settings before the log is read, which can take long.
        method, settings, depths = self.config.prepare()
        check_group(method, self.config)
        parts = self.config.open_parts(progress=first())
        check_same_data(parts)
        check_lengths(depths, len(parts.train.items))
        found = validator(parts.train, parts.valid, settings)
        trainer = Trainer(method, parts.train, self.config.seed, settings, found)
        self.config = replace(self.config, start=origin.begin(trainer, parts))
        identity = {**self._identity(parts, method, settings.as_dict()), **origin.identity}
        with nullcontext() if files is None else files.locked(resume, force):
            if files is not None:
                files.open(trainer, identity, resume, self.config.as_toml(method, settings), parts.manifest)
                identity = begun if earlier else identity  # so that the run can be interrupted and resumed once more
            started = time.perf_counter()
            with self._interrupts_between_steps(), self._errors_name_checkpoint():
                trainer.run(
                    on_step=lambda position: self._after_step(trainer, identity, position, origin),
                    on_evaluation=lambda record: self._record(trainer, identity, record),
                )
            seconds = time.perf_counter() - started
            saved = files.saved_wish() if files is not None and resume and found else None
            wish = saved or origin.wish
            model = origin.finish(finished_model(trainer, parts.train, found, wish))
            about = {**origin.record, **({"wish": wish.as_dict()} if wish else {})}
            return self._finish(model, trainer, parts, depths, identity, seconds, about)

    @property
    def _files(self) -> RunFolder | None:
        return None if self.folder is None else RunFolder(self.folder)

    def _identity(self, parts: Parts, method: Method, settings: dict[str, Any]) -> dict[str, Any]:
        return {
            "training data": parts.manifest["hashes"]["train"],
            "validation data": parts.manifest["hashes"]["valid"],
            "seed": self.config.seed,
            "backbone": {"name": method.backbone.name, **method.backbone.settings.as_dict()},
            "method": {"name": method.name, **without_none(method.settings.as_dict())},
            "train": settings,
        }

    def _record(self, trainer: Trainer, identity: dict[str, Any], record: dict[str, Any]) -> None:
        if self.on_evaluation is not None:
            self.on_evaluation(record)
        if self._files is not None:
            if first():
                self._files.append(record)
            self._save(trainer, identity)

    def _after_step(self, trainer: Trainer, identity: dict[str, Any], position: Position, origin: Origin) -> None:
        origin.after_step(trainer)
        if self.on_step is not None:
            self.on_step(position, trainer.steps)
        due = time.monotonic() - self._saved > self.save_every
        due, interrupted = agreed_after_step(position.step, due, self._interrupted)
        if interrupted or due:
            self._save(trainer, identity)
        if interrupted:
            raise KeyboardInterrupt

    def _save(self, trainer: Trainer, identity: dict[str, Any]) -> None:
        self._saved = time.monotonic()
        if self._files is not None:
            self._files.save(trainer, identity)

    @contextmanager
    def _interrupts_between_steps(self) -> Iterator[None]:
        """Delay Ctrl-C until the end of a step, when the state is consistent. A second Ctrl-C stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            if self._interrupted and current() is None:  # torchrun repeats the signal, and all processes stop together
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
            if self._files is None or not self._files.has_checkpoint:
                raise
            raise type(error)(f"{error}; {self._files.checkpoint} holds an earlier state") from error

    def _finish(
        self,
        model: Model,
        trainer: Trainer,
        parts: Parts,
        depths: list[int],
        identity: dict[str, Any],
        seconds: float,
        about: dict[str, Any],
    ) -> dict[str, Any]:
        measured = evaluations(model, parts, depths, per_user=self.folder is not None)
        front = front_on_test(model, parts) if "test" in measured and model.has_front else None
        position = trainer.position
        result = {
            "backbone": identity["backbone"]["name"],
            "method": identity["method"]["name"],
            "seed": self.config.seed,
            "steps": position.step,
            "best_step": position.best_step if position.validated else position.step,
            **model.setting,
            **about,
            **{name: without_nan(found.values) for name, found in measured.items()},
            **({} if front is None else {"front": front_summary(front)}),
        }
        if self._files is not None and not first():
            self._save(trainer, identity)
            write_parameters(model.method)
        elif self._files is not None:
            writers: dict[str, Writer] = model_writers(model)
            if "test" in measured and (users := measured["test"].per_user) is not None:
                writers[PER_USER] = users.write_parquet
            if front is not None:
                writers[TEST_FRONT] = front.as_frame().write_parquet
            self._save(trainer, identity)
            self._files.finish(writers, result)
        return {**result, "seconds": round(seconds, 3)}


def _with_earlier_defaults(config: RunConfig) -> RunConfig:
    """Return the configuration with the values that applied in earlier versions where nothing is given."""
    config = config.expanded()
    found = with_earlier_defaults({"method": config.method, "train": config.train})
    return replace(config, method=found["method"], train=found["train"])
