"""A lock that keeps two processes from working in the same folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icpe.errors import ConfigError

_LOCK = ".lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder if necessary and lock it. The operating system releases the lock when the process ends.

    Windows and file systems without locks are not protected.

    Raises:
        ConfigError: another process has locked the folder, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("a")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}; choose another folder with -o") from error
    with file:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another process is working in {folder}; wait until it ends, or choose another folder with -o"
                ) from None
            except OSError:  # the file system has no locks
                pass
        yield
