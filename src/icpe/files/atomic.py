"""Atomic and durable writing: after a crash or a power failure, the old file or the new one is there, complete.

A file is written in a staging folder beside its final place, flushed to the disk and renamed. All staging folders have
names that begin with :data:`STAGING`. Their writer holds a lock on them, so that the next process can see which ones a
killed process has left behind, and remove those.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ENOENT, ENOSPC, EPERM, EROFS
from functools import cache
from pathlib import Path
from typing import Any

from icpe.errors import IcpeError
from icpe.files.lock import UNLOCKED, release, try_lock

STAGING, JOURNAL = ".icpe-tmp-", ".icpe-journal.json"
Writer = Callable[[Path], object]
# Polars and safetensors hide the error of the operating system in the text of an error of their own.
_HIDDEN_ERROR = re.compile(r"([^:]+) \(os error (\d+)\)")
_SPACE = "free some space, or choose a folder on another disk"
_PERMISSION = "choose a folder that you may write to"
_REMEDIES = {
    ENOSPC: _SPACE,
    EDQUOT: _SPACE,
    EACCES: _PERMISSION,
    EPERM: _PERMISSION,
    EROFS: _PERMISSION,
    ENOENT: "the folder has disappeared; create it again",
}


def write_atomically(path: Path, write: Writer) -> None:
    """Let ``write`` create a file in a staging folder, flush it to the disk, and rename it to ``path``.

    The staged file has the name of the final one, because many writers choose the format by the suffix. If ``write``
    fails, ``path`` stays as it was.

    Raises:
        IcpeError: the disk is full, the folder cannot be written to or has disappeared.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers_once(path.parent)
        staging = Staging(path.parent)
        try:
            staging.write(path.name, write).replace(path)
            sync(path.parent)
        finally:
            staging.remove()


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as readable JSON with keys in the given order and a final newline, atomically."""
    write_text(path, as_json(content))


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8 with Unix line ends, atomically."""
    write_atomically(path, text_writer(text))


def as_json(content: Any) -> str:
    """Return ``content`` as JSON that has the same bytes on every machine."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def text_writer(text: str) -> Writer:
    """Return a writer of text as UTF-8 with Unix line ends."""
    return lambda path: path.write_text(text, encoding="utf-8", newline="\n")


class Staging:
    """A locked folder in which new files wait until they are complete.

    Args:
        parent: the folder in which the files will have their final names.
    """

    def __init__(self, parent: Path) -> None:
        while True:
            self.folder = parent / f"{STAGING}{secrets.token_hex(4)}"
            self.folder.mkdir()
            # A process that removes leftovers may take the folder before this one has locked it; then try another name.
            try:
                lock = try_lock(self.folder)
            except FileNotFoundError:
                continue
            if lock is not None and self.folder.exists():
                break
        self._lock = lock
        # The kernel applied the user's umask to the folder; the files get the same permissions without "execute".
        self._mode = self.folder.stat().st_mode & 0o666

    def write(self, name: str, write: Writer) -> Path:
        """Return the path of a new file that ``write`` has filled and that has reached the disk."""
        path = self.folder / name
        write(path)
        path.chmod(self._mode)  # some writers create private files
        sync(path)
        return path

    def remove(self) -> None:
        """Remove the folder and what is still in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Give up the lock and leave the files."""
        release(self._lock)
        self._lock = UNLOCKED


def remove_leftovers(folder: Path) -> None:
    """Remove the staging folders that killed processes have left in a folder. Those in use stay."""
    if (folder / JOURNAL).exists():  # staged files that only lack their final names
        return
    for path in folder.glob(f"{STAGING}*"):
        try:
            if (lock := try_lock(path)) is None:
                continue
            shutil.rmtree(path, ignore_errors=True)
            release(lock)
        except OSError:  # another process has removed it, or this user may not
            continue


# Once per folder and process, because listing a folder with many files takes longer than writing one.
_remove_leftovers_once = cache(remove_leftovers)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open folders and writes their names by itself
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence that names the file, the reason and the remedy."""
    try:
        yield
    except OSError as error:
        hidden = _HIDDEN_ERROR.search(str(error)) if error.errno is None else None
        number = int(hidden[2]) if hidden else error.errno
        raise _cannot_write(path, hidden[1] if hidden else error.strerror or str(error), number) from error
    except Exception as error:
        if isinstance(error, IcpeError) or (hidden := _HIDDEN_ERROR.search(str(error))) is None:
            raise
        raise _cannot_write(path, hidden[1], int(hidden[2])) from error


def _cannot_write(path: Path, reason: str, number: int | None) -> IcpeError:
    remedy = _REMEDIES.get(number or 0, "check the disk and the name of the file")
    return IcpeError(f"cannot write {path}: {reason.strip()}; {remedy}. What was there before is unchanged")
