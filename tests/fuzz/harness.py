"""One attempt: damage a file, read it within bounds of time and memory, and judge how that ended."""

import random
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from fuzz.mutations import mutated
from fuzz.targets import Target
from icpe.errors import ConfigError, DataError

SECONDS = 30  # far more than any attempt needs; a loop without end is found, a busy machine does not matter
BYTES = 2 << 30


class FuzzError(AssertionError):
    """An attempt ended in another way than success or an error that explains the input."""


def damage(name: str, target: Target, seed: int, folder: Path) -> str:
    """Write the files of a target, one of them damaged, into an empty folder; returns the name of that one."""
    rng = random.Random(f"{name} {seed}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, content in target.files.items():
        (folder / file).write_bytes(content)
    damaged = rng.choice(target.damaged)
    (folder / damaged).write_bytes(mutated(target.files[damaged], rng))
    return damaged


def attempt(name: str, target: Target, seed: int, folder: Path) -> str:
    """Read a damaged file in this process; returns ``"read"`` or ``"refused"``.

    Raises:
        FuzzError: reading ended with any other error, or did not keep within the bounds of time and memory.
    """
    damaged = damage(name, target, seed, folder)
    try:
        with _bounded(), warnings.catch_warnings(action="ignore"):
            target.read(folder, damaged)
    except (DataError, ConfigError) as error:
        if not str(error).strip() or len(str(error)) > 20_000:
            raise FuzzError(f"{name}, seed {seed}: the error has {len(str(error))} characters") from error
        return "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # polars panics are no subclass of Exception
        raise FuzzError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
    return "read"


def attempt_program(name: str, target: Target, seed: int, folder: Path) -> str:
    """Read a damaged file with the command line in a process of its own; returns ``"read"`` or ``"refused"``."""
    assert target.command is not None
    damaged = damage(name, target, seed, folder)
    command = [sys.executable, "-m", "icpe", *target.command(damaged)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
    if done.returncode not in (0, 2) or "Traceback" in done.stderr:
        raise FuzzError(f"{name}, seed {seed}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return "refused" if done.returncode else "read"


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise if the block takes too long; let allocations beyond the bound fail."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"reading took more than {SECONDS} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
