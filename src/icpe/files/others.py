"""A guard for files of other things in a folder that a command is about to fill."""

from collections.abc import Iterable
from pathlib import Path

from icpe.errors import ConfigError


def refuse_others(folder: Path, names: Iterable[str], marker: str, kind: str) -> None:
    """Check that a folder contains nothing else whose files would be overwritten.

    Args:
        folder: the folder, which may not exist yet.
        names: names of the files that would be written.
        marker: file that every folder of this kind contains.
        kind: what would be written, such as "a run".

    Raises:
        ConfigError: the folder has files of these names without the marker.
    """
    if (folder / marker).exists():
        return
    found = sorted(name for name in names if (folder / name).exists())
    if found:
        raise ConfigError(
            f"{folder} holds something else: {kind} would overwrite {', '.join(found)} there; choose a new or an empty "
            "folder"
        )
