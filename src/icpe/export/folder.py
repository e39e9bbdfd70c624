"""The folder of an export: its files, a description that says how to use them, and a manifest with checksums."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from icpe.errors import ConfigError, DataError
from icpe.files import MANIFEST, check_files, finish_interrupted, read_json, write_together
from icpe.files.atomic import STAGING, as_json, text_writer
from icpe.files.manifest import read_manifest
from icpe.recommender.model import Model

DESCRIPTION = "export.json"
FORMAT = 1


@dataclass(frozen=True)
class Export:
    """An exported model.

    Attributes:
        folder: the folder.
        files: names of the files in it.
        description: the content of ``export.json``: the format, the model, and how to query it.
    """

    folder: Path
    files: tuple[str, ...]
    description: dict[str, Any]


def read_export(folder: Path | str) -> Export:
    """Return the export in a folder after comparing its files with their checksums.

    Raises:
        DataError: the folder holds no export, or a file is missing or damaged.
    """
    source = Path(folder)
    finish_interrupted(source)
    if not (source / DESCRIPTION).is_file():
        raise DataError(f"{source} holds no export: {DESCRIPTION} does not exist; create one with `icpe export`")
    names = tuple(read_manifest(source) or ())
    check_files(source, {*names, DESCRIPTION}, required=True)
    return Export(source, (*names, MANIFEST), read_json(source / DESCRIPTION))


def check_folder(folder: Path | str, force: bool) -> Path:
    """Return the folder as a path if an export may go there.

    Raises:
        ConfigError: the folder is not empty and ``force`` is false, or it holds something else than an export.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{target} is a file; expected a folder for the export")
    if target.exists():
        finish_interrupted(target)
    if not target.exists() or all(path.name.startswith(STAGING) for path in target.iterdir()):
        return target
    if not (target / DESCRIPTION).is_file():
        raise ConfigError(f"{target} holds other files than an export; choose a new or an empty folder")
    if not force:
        raise ConfigError(
            f"{target} holds an export already; choose another folder, or pass force=True (command line: --force) to "
            "replace it"
        )
    return target


def write_export(
    model: Model,
    folder: Path,
    kind: str,
    writers: Mapping[str, Callable[[Path], object]],
    details: Mapping[str, Any],
) -> Export:
    """Write all files of an export, its description and its manifest, or change nothing if one of them fails.

    Args:
        model: the exported model.
        folder: a folder that :func:`check_folder` has accepted.
        kind: name of the format.
        writers: file name → function that writes the file to a path.
        details: what the description says beside the format and the model.

    Raises:
        IcpeError: a file cannot be written.
    """
    description = {
        "format": FORMAT,
        "kind": kind,
        "icpe": version("icpe"),
        "method": model.method.name,
        "backbone": model.method.backbone.name,
        "users": len(model.log.users),
        "items": len(model.log.items),
        **details,
    }
    every = {**writers, DESCRIPTION: text_writer(as_json(description))}
    write_together(folder, every, remove=[name for name in _earlier_files(folder) if name not in every])
    return Export(folder, (*every, MANIFEST), description)


def _earlier_files(folder: Path) -> list[str]:
    """Return the files of the export that is replaced. A damaged manifest is removed, since it protects nothing."""
    try:
        return list(read_manifest(folder) or ())
    except DataError:
        (folder / MANIFEST).unlink()
        return []
