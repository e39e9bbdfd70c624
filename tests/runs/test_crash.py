"""A process that is killed at any file operation leaves a run that can be resumed and ends with the same bytes.

`make test` kills at about fifteen operations, spread over the run. `make crash` kills at every one.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from icpe.testing import skewed_log

THOROUGH = "ICPE_ALL_CRASHES" in os.environ
POINTS = 15


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed as on Linux")
def test_a_kill_at_any_file_operation(tmp_path):
    log, whole = tmp_path / "log.csv", tmp_path / "whole"
    skewed_log(users=40, items=30, pairs=500).write(log)
    command = [sys.executable, str(Path(__file__).with_name("crash_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def train(folder: Path, kill_at: int, resume: bool) -> tuple[int, int]:
            task = {"log": str(log), "folder": str(folder), "kill_at": kill_at, "resume": resume}
            server.stdin.write(json.dumps(task) + "\n")
            server.stdin.flush()
            return tuple(json.loads(server.stdout.readline()))

        code, operations = train(whole, 0, False)
        assert code == 0
        assert operations > 100
        expected, resumable = contents(whole), 0
        points = range(1, operations + 1, 1 if THOROUGH else operations // POINTS)
        for kill_at in points:
            folder, where = tmp_path / "killed" / f"{kill_at}", f"killed at operation {kill_at} of {operations}"
            assert train(folder, kill_at, False)[0] == -signal.SIGKILL, where
            resumable += (folder / "checkpoint" / "state.json").exists()
            assert train(folder, 0, True)[0] == 0, where
            assert contents(folder) == expected, where
            assert not list(folder.rglob(".*")), f"nothing half-written is left; {where}"
        assert resumable > len(points) / 2
