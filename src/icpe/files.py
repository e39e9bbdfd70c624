"""Atomic writing of files: after a crash the old file is still there. JSON has the same bytes on every machine."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it to ``path``.

    The temporary name keeps the suffix, because many writers choose the format by it. If ``write`` fails, the
    temporary file is removed and ``path`` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        # mkstemp makes files private; the final file follows the user's umask like any other.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as readable JSON with keys in the given order and a final newline, atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8 with Unix line ends, atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
