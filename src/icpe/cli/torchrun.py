"""The command line in processes that torchrun has started: one of them talks, and all end with the same exit code."""

import os
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from icpe.shards import Group

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def under_torchrun() -> bool:
    """Return whether torchrun has started this process as one of several."""
    return all(name in os.environ for name in _VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1


def program() -> str:
    """Return what users type to start the program: ``icpe``, or its path if the shell does not find it by name."""
    started = sys.argv[0]
    if shutil.which("icpe") is None and Path(started).stem == "icpe" and Path(started).is_file():
        return shlex.quote(started)
    return "icpe"


def launcher() -> str:
    """Return how the running command was started, as users type it."""
    if not under_torchrun():
        return "icpe"
    nodes = int(os.environ["WORLD_SIZE"]) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    machines = f" --nnodes {nodes}" if nodes > 1 else ""
    return f"torchrun{machines} --nproc-per-node {os.environ.get('LOCAL_WORLD_SIZE', '1')} -m icpe"


def run_together(run: Callable[[list[str], Callable[[int], bool]], int], arguments: list[str]) -> NoReturn:
    """Run one command in all processes of torchrun and exit.

    The process that fails first prints the reason, and all end with its exit code. The end skips the clean-up of
    Python, because that of gloo aborts every third process.

    Args:
        run: function that runs a command, see :func:`icpe.cli.run`.
        arguments: the words after ``icpe``.
    """
    from icpe.shards import join

    group = join()
    if group.rank:
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the process ends
        warnings.simplefilter("ignore")
    code = _run(run, arguments, group)
    for stream in (sys.stdout, sys.stderr, sys.__stderr__):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _run(run: Callable[[list[str], Callable[[int], bool]], int], arguments: list[str], group: "Group") -> int:
    """Return the exit code of the command, which is that of the first process that fails."""
    agreed = 0

    def reports(code: int) -> bool:
        nonlocal agreed
        is_first, agreed = group.fail(code)
        sys.stderr = sys.__stderr__
        return is_first

    try:
        code = run(arguments, reports) if _is_training(arguments) else _refuse(reports)
        if code == 0:
            group.wait()
        return agreed or code
    except Exception:  # a lost connection to a process that has failed, or a defect
        if reports(1):
            traceback.print_exc()
        return agreed


def _is_training(arguments: list[str]) -> bool:
    """Return whether the command is one that several processes can work on, or asks for help."""
    return not arguments or arguments[0] == "train" or arguments[0].startswith("-")


def _refuse(reports: Callable[[int], bool]) -> int:
    """Return the exit code of a command that several processes cannot work on, after saying so."""
    if reports(2):
        print("error: torchrun works with `icpe train` only; run other commands without it", file=sys.stderr)
    return 2
