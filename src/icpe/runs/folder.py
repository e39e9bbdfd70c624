"""The folder of a run: what is written when, and what is checked when a run is resumed."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icpe.errors import ConfigError, DataError, IcpeError
from icpe.files import MANIFEST, lock_folder, read_json, refuse_others, remove_leftovers, write_together
from icpe.files.atomic import Writer, as_json, disk_errors, text_writer
from icpe.files.manifest import file_entry
from icpe.recommender.dial import Wish
from icpe.recommender.saved_log import FRONT, ID_TABLES, PARAMETERS, SETTINGS, VECTORS
from icpe.runs.earlier_versions import upgraded
from icpe.runs.measure import without_nan
from icpe.shards import first, wait
from icpe.train import Trainer, load_checkpoint, save_checkpoint
from icpe.train.checkpoint import STATE, saved_identity

CONFIG, RESULT, CURVE, CHECKPOINT = "config.toml", "result.json", "metrics.jsonl", "checkpoint"
SPLIT, PER_USER, TEST_FRONT = "split.json", "per_user.parquet", "front_test.parquet"
LIVE = "live"  # the refit on all parts, a run folder of its own
RECORDS = (CONFIG, SPLIT, CURVE, RESULT)  # what a finished run consists of besides its model
_RESULTS = (RESULT, PER_USER, FRONT, TEST_FRONT)
_WRITTEN = (*RECORDS, *_RESULTS, SETTINGS, PARAMETERS, VECTORS, *ID_TABLES, MANIFEST)


class RunFolder:
    """The files of a run that is being trained.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self, resume: bool, force: bool) -> Iterator[None]:
        """Keep other processes from writing to the folder.

        Raises:
            ConfigError: another process works in the folder, or it contains a run and neither resume nor force is set.
        """
        if not first():  # the lock of the first process is that of the whole group
            yield
            return
        self.refuse_existing(resume, force)
        with lock_folder(self.path):
            self.refuse_existing(resume, force)  # another process may have finished in between
            yield

    def refuse_existing(self, resume: bool, force: bool) -> None:
        """Raise a ConfigError if the folder contains other files, or a run and neither resume nor force is set.

        A run that has failed or was killed before its first checkpoint has left nothing to keep.
        """
        if not first():
            return
        refuse_others(self.path, _WRITTEN, CONFIG, "a run")
        begun = self.has_checkpoint or any((self.path / name).exists() for name in (RESULT, SETTINGS))
        if begun and (self.path / CONFIG).exists() and not (resume or force):
            raise ConfigError(
                f"{self.path} holds a run already; go on with --resume, replace it with --force, "
                "or choose another folder"
            )

    @property
    def checkpoint(self) -> Path:
        """Folder of the checkpoint."""
        return self.path / CHECKPOINT

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a state from which the run can be resumed."""
        return (self.checkpoint / STATE).exists()

    def saved_identity(self) -> dict[str, Any]:
        """Return the identity in the checkpoint, or an empty one."""
        return saved_identity(self.checkpoint)

    def saved_wish(self) -> Wish | None:
        """Return the wish for the dial that was saved after an earlier end of the run, or None."""
        try:
            wish = read_json(self.path / RESULT).get("wish")
        except (OSError, ValueError):
            return None
        return Wish(**wish) if wish else None

    def open(
        self, trainer: Trainer, identity: dict[str, Any], resume: bool, config: str, split: Mapping[str, Any]
    ) -> None:
        """Restore the trainer if the run is resumed, remove what is out of date, and write configuration and split.

        Raises:
            DataError: the checkpoint is damaged or belongs to another run.
        """
        curve = self._restore(trainer, identity) if resume else None
        if first():
            self._begin(config, split, curve)
        wait()

    def _begin(self, config: str, split: Mapping[str, Any], curve: bytes | None) -> None:
        """Write configuration and split, and the curve up to the checkpoint; None stands for a new run."""
        # Without a checkpoint the old model must go: beside a new configuration it would look like that of this run.
        stale = [*_RESULTS, SETTINGS] if curve is None else []
        writers: dict[str, Writer] = {
            CONFIG: text_writer(config),
            SPLIT: text_writer(as_json(split)),
            CURVE: lambda path: path.write_bytes(curve or b""),
        }
        write_together(self.path, writers, remove=stale, unlisted=[CURVE], fresh=curve is None)
        if curve is None:
            for path in (*self.checkpoint.glob("state*"), self.path / LIVE / RESULT, self.path / LIVE / SETTINGS):
                path.unlink(missing_ok=True)
        remove_leftovers(self.checkpoint)

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of a validation to the curve."""
        valid = {"valid": without_nan(record["valid"])} if "valid" in record else {}
        self._check_exists()
        with disk_errors(self.path / CURVE), (self.path / CURVE).open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps({**record, **valid}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def save(self, trainer: Trainer, identity: dict[str, Any]) -> None:
        """Write a checkpoint."""
        if first():
            self._check_exists()
        curve = file_entry(self.path / CURVE) if first() else None
        save_checkpoint(self.checkpoint, trainer.tensors(), trainer.record(), identity, curve, trainer.pieces())

    def finish(self, writers: Mapping[str, Writer], result: dict[str, Any]) -> None:
        """Write the model and the results of the finished run, all at once."""
        self._check_exists()
        whole = {**writers, RESULT: text_writer(as_json(result))}
        gone = [name for name in _RESULTS if name not in whole]
        write_together(self.path, whole, keep=[CONFIG, SPLIT, CURVE], remove=gone)

    def _check_exists(self) -> None:
        """Raise an error if the folder was moved or deleted, instead of beginning a new one in its place."""
        if not (self.path / CONFIG).exists():
            raise IcpeError(
                f"{self.path / CONFIG} has disappeared while the run was training, so the run stops; "
                "train again, or put the folder back and continue with --resume"
            )

    def _restore(self, trainer: Trainer, identity: dict[str, Any]) -> bytes | None:
        """Restore the trainer from the checkpoint and return the curve so far, or None without a checkpoint."""
        # The identity in the checkpoint went through JSON, where tuples became lists, so this one must too.
        wanted = json.loads(json.dumps(identity))
        found = load_checkpoint(self.checkpoint, wanted, _upgraded_identity, trainer.pieces())
        if found is None:
            if (self.path / RESULT).exists():
                raise DataError(
                    f"{self.path} holds a finished run without its checkpoint, so it cannot be resumed; "
                    "train again with --force, or into another folder"
                )
            return None
        tensors, record, curve = found
        try:
            if record["step"] > trainer.steps:
                raise ValueError(f"it is at step {record['step']}, but the run has only {trainer.steps} steps")
            trainer.restore(tensors, record)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(
                f"the checkpoint in {self.checkpoint} does not hold this run's state "
                f"({type(error).__name__}: {str(error).splitlines()[0]}); train again into another folder"
            ) from error
        return _curve_until(self.path / CURVE, trainer.position.step, curve)


def _curve_until(path: Path, step: int, expected: Mapping[str, Any] | None) -> bytes:
    """Return the curve up to the checkpoint. What a killed process wrote after it is dropped.

    Checkpoints of version 0.1 do not record the size and the checksum of the curve; there the steps decide.
    """
    content = path.read_bytes() if path.exists() else b""
    if expected is None:
        return b"".join(_lines_until(content.decode("utf-8", "replace").splitlines(), step))
    kept = content[: expected["bytes"]]
    if hashlib.sha256(kept).hexdigest() != expected["sha256"]:
        raise DataError(
            f"{path} is damaged or was changed since the checkpoint beside it; restore it, or train again into "
            "another folder"
        )
    return kept


def _lines_until(lines: Iterable[str], step: int) -> Iterator[bytes]:
    """Yield the lines up to a step. The last line may be incomplete if the process was killed while writing it."""
    for line in lines:
        try:
            if json.loads(line)["step"] > step:
                return
        except (ValueError, KeyError, TypeError):
            return
        yield f"{line}\n".encode()


def _upgraded_identity(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a checkpoint as the present version would have written it."""
    found = upgraded(identity)
    method = found.get("method")
    return {**found, "method": without_none(method)} if isinstance(method, dict) else found


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None. None means that the method or the validation chooses the value."""
    return {name: value for name, value in values.items() if value is not None}
