"""Fixtures every test may use: the real data sets, where they are, and a small log of known content."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # before NumPy is loaded: the workers of a test run share the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from icpe import Interactions
from icpe.backbones import BACKBONES
from icpe.cli import run
from icpe.data.readers import delimited
from icpe.methods import METHODS
from icpe.testing import skewed_log


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Steps on toy data are too small to share: threads that wait for each other only cost time."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_registries() -> Iterator[None]:
    """What a test registers is forgotten after it, so that no test depends on the order of others."""
    before = [(registry, set(registry)) for registry in (METHODS, BACKBONES)]
    yield
    for registry, names in before:
        for name in set(registry) - names:
            registry.remove(name)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the public data sets: ``ICPE_DATA``, else ``../shared/data`` beside the repository."""
    named = os.environ.get("ICPE_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public data sets are neither in ICPE_DATA nor in ../shared/data")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    """Write a file below the test's folder and return its path."""

    def write_file(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture(params=["at once", "in batches"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text files are read at once, or in batches as large ones are."""
    if request.param == "in batches":
        monkeypatch.setattr(delimited, "STREAM_FROM_BYTES", 0)


@pytest.fixture(scope="session")
def skewed() -> Interactions:
    """The long-tailed log most tests work on."""
    return skewed_log()


@pytest.fixture
def icpe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in a folder of its own; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()  # what fixtures have said

    def invoke(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return invoke
