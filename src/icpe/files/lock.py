"""A lock that keeps two processes from working in the same folder.

The lock is on the folder itself, so no lock file is left behind, and the operating system releases it when the process
ends, however it ends. Windows and file systems without locks are not protected.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from icpe.errors import ConfigError, IcpeError

UNLOCKED = -1
_PAUSE = 0.05  # seconds between two attempts


def try_lock(folder: Path) -> int | None:
    """Return a handle that locks the folder until it is closed, or None if another process has the lock.

    The handle is -1 where folders cannot be locked.
    """
    if sys.platform == "win32":
        return UNLOCKED
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # the file system has no locks
        os.close(handle)
        return UNLOCKED
    return handle


def release(handle: int) -> None:
    """Give up the lock of a handle from :func:`try_lock`."""
    if handle != UNLOCKED:
        os.close(handle)


@contextmanager
def lock_folder(folder: Path, wait: float = 0.0, remedy: str = "choose another folder with -o") -> Iterator[None]:
    """Create the folder if necessary and lock it for one process.

    Args:
        folder: the folder.
        wait: seconds to wait for another process that has locked the folder.
        remedy: what messages advise, besides waiting.

    Raises:
        ConfigError: another process has locked the folder, or it is a file.
        IcpeError: the folder cannot be created or opened.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, end = try_lock(folder), monotonic() + wait
        while handle is None and monotonic() < end:
            sleep(_PAUSE)
            handle = try_lock(folder)
    except OSError as error:
        # A file where a folder should be is a wrong name; all else is a trouble of the disk.
        kind = ConfigError if isinstance(error, FileExistsError | NotADirectoryError) else IcpeError
        raise kind(f"{folder} cannot be written to: {error.strerror}; {remedy}") from error
    if handle is None:
        raise ConfigError(f"another process is working in {folder}; wait until it ends, or {remedy}")
    try:
        yield
    finally:
        release(handle)
