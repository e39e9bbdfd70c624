"""Verification of files by the manifest of their folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icpe.errors import DataError
from icpe.files.manifest import MANIFEST, REMEDY, file_entry, read_manifest
from icpe.files.together import finish_interrupted


def check_files(folder: Path, names: Iterable[str], required: bool = False) -> None:
    """Compare files with the manifest of their folder, after finishing an interrupted :func:`write_together`.

    Files that the manifest does not list, such as those of earlier versions, are not checked.

    Args:
        folder: folder of the files.
        names: names of the files to check.
        required: whether the manifest must exist and list all of these files.

    Raises:
        DataError: a file is missing or differs from the manifest, or the manifest is damaged.
    """
    finish_interrupted(folder)
    entries = read_manifest(folder)
    if entries is None and required:
        raise DataError(f"{folder / MANIFEST} is missing, so the files beside it cannot be verified; {REMEDY}")
    for name in names:
        expected = (entries or {}).get(name)
        if expected is not None:
            _check_file(folder / name, expected)
        elif required:
            raise DataError(f"{folder / MANIFEST} does not list {name}; {REMEDY}")


def _check_file(path: Path, expected: Mapping[str, Any]) -> None:
    try:
        found = file_entry(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; {REMEDY}") from error
    for name, unit in (("bytes", "bytes"), ("sha256", "as SHA-256")):
        if found[name] != expected.get(name):
            raise DataError(
                f"{path} is damaged or was changed: it has {found[name]} {unit}, "
                f"the manifest beside it says {expected.get(name)}; {REMEDY}"
            )
