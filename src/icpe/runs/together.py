"""What a run checks and agrees upon if several processes of torchrun train it together."""

from pathlib import Path
from typing import Any

from icpe.backbones import BACKBONES
from icpe.errors import ConfigError, DataError
from icpe.methods import METHODS
from icpe.runs.config import RunConfig
from icpe.shards import current
from icpe.split import Parts
from icpe.train.method import TrainingMethod

_EVERY = 8  # steps between agreements, which take about as long as a small step


def shareable(kind: type) -> bool:
    """Return whether a method or a backbone says of itself, not of its base class, that processes can share it."""
    return bool(kind.__dict__.get("shareable", False))


def check_group(method: TrainingMethod, config: RunConfig) -> None:
    """Refuse what several processes cannot train together. A process that works alone may train everything.

    Raises:
        ConfigError: the method, the backbone or the start is not supported; the message says what is.
    """
    if current() is None:
        return
    for what, one, known in (("method", method, METHODS), ("backbone", method.backbone, BACKBONES)):
        if not shareable(type(one)):
            names = ", ".join(name for name in known if shareable(known[name]))
            raise ConfigError(
                f"torchrun cannot train the {what} {one.name!r} on several processes; it can train {names}. Train "
                f"without torchrun, or, in a {what} of your own that reads rows with take_rows only, set "
                "shareable = True"
            )
    for name, flag in (("init_from", "--init-from"), ("refit_of", "--refit")):
        if name in config.start:
            raise ConfigError(f"{flag} does not work with torchrun yet; leave it out, or train without torchrun")


def check_same_data(parts: Parts) -> None:
    """Check that all processes have read the same data, which may lie on different machines.

    Raises:
        DataError: the data differ.
    """
    group = current()
    if group is None:
        return
    hashes: list[dict[str, Any]] = group.all_values(dict(parts.manifest["hashes"]))
    for rank, found in enumerate(hashes):
        if found != hashes[0]:
            names = ", ".join(name for name in found if found[name] != hashes[0].get(name))
            raise DataError(
                f"process {rank} has read other data than process 0 ({names} differ); give all machines the same files"
            )


def agreed_folder(folder: Path) -> Path:
    """Return the folder that the first process has chosen; another one may already see it and choose the next."""
    group = current()
    return folder if group is None else Path(group.agreed(str(folder)))


def agreed_after_step(step: int, due: bool, interrupted: bool) -> tuple[bool, bool]:
    """Return whether all processes save a checkpoint now, and whether they stop, given what this one wants."""
    group = current()
    if group is None:
        return due, interrupted
    if step % _EVERY:
        return False, False
    wanted = group.largest(2 if interrupted else int(due))
    return wanted > 0, wanted == 2
