"""``--engine`` and ``--address``: mistakes are one clear line, and nothing else needs Ray."""

import sys

import pytest

from icpe.testing import skewed_log

SMALL = ("--methods", "normal", "--seeds", 1, "--train.epochs", 1, "--backbone.dim", 4)


@pytest.fixture
def log(tmp_path) -> str:
    skewed_log(users=60, items=40, pairs=900).write(tmp_path / "log.csv")
    return "log.csv"


def test_without_ray(icpe, log, monkeypatch):
    """The engine names the extra, and everything else runs."""
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = icpe("compare", log, *SMALL, "-o", "cmp", "--engine", "ray")
    assert code == 2
    assert "pip install 'icpe[cluster]'" in err
    assert icpe("compare", log, *SMALL, "-o", "cmp")[0] == 0


def test_mistakes(icpe, log, monkeypatch):
    code, _, err = icpe("tune", log, "-o", "t", "--address", "auto")
    assert (code, "add --engine ray" in err) == (2, True)
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for address, reason in (
        ("auto", "no Ray cluster answers at --address 127.0.0.1:1"),
        ("ray://there:10001", "expected auto or HOST:PORT"),
        ("there", "expected auto or HOST:PORT"),
    ):
        code, _, err = icpe("compare", log, *SMALL, "-o", "cmp", "--engine", "ray", "--address", address)
        assert code == 2
        assert reason in err
        assert len(err.strip().splitlines()) == 1
