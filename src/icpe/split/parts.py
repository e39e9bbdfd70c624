"""Training, validation and test part of a log, and the manifest that identifies them."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.data.stored import StoredLog
from icpe.errors import ConfigError, DataError
from icpe.files import check_files, read_json, write_together
from icpe.files.atomic import Writer, as_json, text_writer
from icpe.shown import shortened
from icpe.types import IntArray

FORMAT = 1

TRAIN, VALID, TEST = 0, 1, 2
PARTS = ("train", "valid", "test")
ITEMS = "items.parquet"


Log = TypeVar("Log", Interactions, StoredLog)


@dataclass(frozen=True, eq=False)
class AnyParts(Generic[Log]):
    """Three logs, in memory or in files, that share the users and items of the training part.

    Attributes:
        train: the only part that a method may learn from.
        valid: the part for early stopping and for choosing settings.
        test: the part for the final metrics only.
        recipe: kind of split and its settings, as in the manifest.
        moved: number of held-out interactions that returned to training because their user or item had none there.
        dropped: number of interactions that were left out, by reason.
        log: the log that was split, or its content hash if only that is known; None for given parts.
    """

    train: Log
    valid: Log
    test: Log
    recipe: dict[str, Any]
    moved: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    log: Log | str | None = None

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Settings, counts and content hashes. The same log and settings give the same manifest on every machine."""
        return {
            "format": FORMAT,
            **self.recipe,
            "counts": {name: _counts(part) for name, part in self.named()},
            "moved_to_train": self.moved,
            "dropped": self.dropped,
            "hashes": {
                "log": self.log if self.log is None or isinstance(self.log, str) else self.log.content_hash,
                **{name: part.content_hash for name, part in self.named()},
            },
        }

    def save(self, folder: Path | str, force: bool = False) -> None:
        """Write ``train.parquet``, ``valid.parquet``, ``test.parquet`` and ``split.json``, all or none of them.

        Raises:
            ConfigError: the folder already holds a split and ``force`` is not set.
        """
        folder = Path(folder)
        if (folder / "split.json").exists() and not force:
            raise ConfigError(
                f"{folder} already holds a split; choose another folder, or pass force=True "
                "(command line: --force) to replace it"
            )
        writers: dict[str, Writer] = {f"{name}.parquet": part.write_parquet for name, part in self.named()}
        if self.train.item_info is not None:
            writers[ITEMS] = self.train.item_info.write_parquet
        writers["split.json"] = text_writer(as_json(self.manifest))
        write_together(folder, writers, remove=[] if ITEMS in writers else [ITEMS], fresh=True)

    def as_text(self) -> str:
        """Settings, counts, and what was moved or dropped, as text for the terminal."""
        total = sum(len(part) for _, part in self.named())
        settings = ", ".join(f"{key} {value}" for key, value in self.recipe.items() if key != "split")
        lines = [f"split {self.recipe['split']} ({settings})", ""]
        for name, part in self.named():
            users, items = (int((counts > 0).sum()) for counts in (part.user_counts, part.item_counts))
            share = len(part) / total
            lines.append(
                f"  {name:<6} {len(part):>12,} interactions {share:>7.1%}   {users:>9,} users {items:>9,} items"
            )
        if self.moved:
            lines.append(f"  note   {self.moved:,} interactions of users or items without training data moved to train")
        lines += [
            f"  note   {count:,} interactions dropped: {reason}" for reason, count in self.dropped.items() if count
        ]
        return "\n".join(lines)

    def named(self) -> list[tuple[Literal["train", "valid", "test"], Log]]:
        """The parts with their names."""
        return [("train", self.train), ("valid", self.valid), ("test", self.test)]


class Parts(AnyParts[Interactions]):
    """The parts in memory."""


class StoredParts(AnyParts[StoredLog]):
    """The parts of a log that is larger than memory, in files."""


def _counts(part: Interactions | StoredLog) -> dict[str, int]:
    users, items = int((part.user_counts > 0).sum()), int((part.item_counts > 0).sum())
    return {"users": users, "items": items, "interactions": len(part)}


SomeParts = TypeVar("SomeParts", Parts, StoredParts)


def assemble(log: Interactions, part: IntArray, recipe: dict[str, Any]) -> Parts:
    """The parts that a label per pair describes (0 train, 1 valid, 2 test).

    A held-out pair whose user or item has no training pair returns to training, which changes ``part`` in place. So
    a model trained on the training part knows every user and item of validation and test.

    Raises:
        DataError: a part is empty because the log is too small.
    """
    held = np.flatnonzero(part != TRAIN)
    user, item = log.user[held], log.item[held]
    has_user = log.user_counts > np.bincount(user, minlength=len(log.users))
    has_item = log.item_counts > np.bincount(item, minlength=len(log.items))
    cold = held[~(has_user[user] & has_item[item])]
    part[cold] = TRAIN
    train, valid, test = (log.keep(part == label) for label in (TRAIN, VALID, TEST))
    return check_not_empty(Parts(train, valid, test, recipe, moved=len(cold), log=log))


def check_not_empty(parts: SomeParts) -> SomeParts:
    """The same parts, after checking that none is empty that should not be.

    Raises:
        DataError: a part is empty; the message says what was moved or dropped.
    """
    wanted = {"train": True, "valid": parts.recipe.get("valid") != 0, "test": True}
    for name, part in parts.named():
        if wanted[name] and len(part) == 0:
            reasons = [f"{parts.moved:,} moved to train"] if parts.moved else []
            reasons += [f"{count:,} {reason}" for reason, count in parts.dropped.items() if count]
            why = f" ({'; '.join(reasons)})" if reasons else ""
            raise DataError(f"the {name} part is empty{why}; the log is too small or too sparse for this split")
    return parts


def load(folder: Path | str) -> Parts:
    """The parts that :meth:`Parts.save` wrote, checked against their manifest.

    Raises:
        DataError: a file is missing or damaged, or does not match the manifest.
    """
    folder = Path(folder)
    path = folder / "split.json"
    check_files(folder, [path.name, ITEMS])  # the content hashes below cover the parts
    try:
        manifest = read_json(path)
        recipe, hashes = _recipe(manifest), manifest["hashes"]
        moved, dropped, log_hash = manifest["moved_to_train"], manifest["dropped"], hashes["log"]
        expected = {name: hashes[name] for name in PARTS}
    except FileNotFoundError:
        raise DataError(f"{folder} holds no split: {path} does not exist. Create one with `icpe split`") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is not a manifest that this version can read: {type(error).__name__}: {shortened(str(error))}"
        ) from error
    frames = [_read_part(folder / f"{name}.parquet") for name in PARTS]
    info = folder / ITEMS
    train = Interactions.read(frames[0], item_info=info if info.exists() else None)
    valid, test = (recode(frame, train) for frame in frames[1:])
    parts = Parts(train, valid, test, recipe, moved, dropped, log_hash)
    for name, part in parts.named():
        if part.content_hash != expected[name]:
            raise DataError(f"{folder / name}.parquet does not match {path}: its content hash differs")
    return parts


def _recipe(manifest: dict[str, Any]) -> dict[str, Any]:
    if manifest["format"] != FORMAT:
        raise ValueError(f"format {manifest['format']}, expected {FORMAT}")
    rest = ("format", "counts", "moved_to_train", "dropped", "hashes")
    return {key: value for key, value in manifest.items() if key not in rest}


def _read_part(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def recode(part: Interactions | pl.DataFrame, train: Interactions) -> Interactions:
    """The pairs of a part with the codes of ``train``, without pairs whose user or item is not in training."""
    if isinstance(part, pl.DataFrame):
        if part.height == 0:
            return train.keep(np.zeros(len(train), bool))
        part = Interactions.read(part, at_least=1)
    for ours, known in ((part.users, train.users), (part.items, train.items)):
        if ours.dtype != known.dtype:
            raise DataError(f"{ours.name!r} has the type {known.dtype} in training and {ours.dtype} in another part")
    user = positions(part.users, train.users)[part.user]
    item = positions(part.items, train.items)[part.item]
    known_pairs = (user >= 0) & (item >= 0)
    moved = replace(part, users=train.users, items=train.items, user=user, item=item, item_info=train.item_info)
    return moved.keep(known_pairs)
