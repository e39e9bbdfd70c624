"""Whole folders as values: all files of a folder, and a folder replaced by such files."""

from collections.abc import Mapping
from pathlib import Path

from icpe.files.atomic import STAGING, Staging, Writer, disk_errors, remove_leftovers, sync
from icpe.files.together import finish_interrupted


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder and below, by their paths in it; nothing if it does not exist."""
    if not folder.is_dir():
        return {}
    finish_interrupted(folder)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = {path.relative_to(folder): path for path in paths}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in names.items()
        if not any(part.startswith(STAGING) for part in name.parts)
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace a folder by one with these files. After a crash, the folder is the old one, or the new one, or missing.

    It is missing only if the crash comes between two renames, when an old folder is replaced.

    Raises:
        IcpeError: the disk is full, or the folder cannot be written to.
    """
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        staging = Staging(folder.parent)
        try:
            new, old = staging.folder / "new", staging.folder / "old"
            new.mkdir()
            for name, content in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                staging.write(f"new/{name}", _bytes_writer(content))
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
            sync(folder.parent)
        finally:
            staging.remove()


def _bytes_writer(content: bytes) -> Writer:
    return lambda path: path.write_bytes(content)
