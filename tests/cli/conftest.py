"""Fixtures for the command line: a small log, commands run in this process, and the real program."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icpe.testing import skewed_log

PROGRAM = Path(sys.executable).with_name("icpe")


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log on which training takes a moment."""
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    return path


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the real program, which does not outlive the test."""
    started = []

    def begin(*arguments: object) -> "subprocess.Popen[str]":
        command = [str(PROGRAM), *(str(argument) for argument in arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()
