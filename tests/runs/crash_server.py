"""Trains small runs in forked processes and kills them before one of their file operations.

Each line of standard input is a JSON object with the arguments of :func:`train`. For each, the script prints the exit
code of the process and the number of file operations. It imports everything once, because importing takes longer than
training.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numba.np.linalg  # noqa: F401  # imported by compiled code when it is loaded, which takes half a second

from icpe.runs.config import RunConfig
from icpe.runs.run import Run

OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}


def train(log: str, folder: str, kill_at: int, resume: bool) -> int:
    """Train a run and return the number of its file operations, or kill this process before the one given."""
    done = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        if event in OPERATIONS and str(arguments[0]).startswith(folder):
            done += 1
            if done == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    settings = {"epochs": 2, "batch_size": 80, "evaluate_every": 5}
    Run(RunConfig(data={"source": log}, backbone={"dim": 2}, train=settings), Path(folder)).train(resume=resume)
    return done


def main() -> None:
    """Carry out the tasks on standard input."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.write(writer, str(train(**json.loads(line))).encode())
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(process, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), int(os.read(reader, 20) or 0)]), flush=True)
        os.close(reader)


if __name__ == "__main__":
    main()
