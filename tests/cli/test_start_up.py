"""Commands import only what they need, because torch takes a second to import and its compiler another one."""

import json
import subprocess
import sys

import pytest

from icpe import ICPE, MF
from icpe.testing import skewed_log

PROBE = """
import contextlib, io, json, sys
from icpe.cli import run
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(arguments) == 0
    found = sorted(set(sys.argv[2:]) & set(sys.modules))
    assert not found, (arguments, found)
"""


def check(commands, *unwanted):
    words = [sys.executable, "-c", PROBE, json.dumps(commands), *unwanted]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = skewed_log(users=30, items=20, pairs=300)
    log.write("log.csv")
    model = ICPE(MF(dim=4)).fit(log, epochs=1)
    model.save("model")
    model.recommend(n=5).write_parquet("recs.parquet")
    return tmp_path


def test_commands_without_a_model_do_not_import_torch(folder):
    commands = [
        ["data", "describe", "log.csv"],
        ["split", "log.csv", "-o", "parts"],
        ["recommend", "model", "--user", "3"],
        ["recommend", "model", "--all", "-o", "all.parquet"],
    ]
    check(commands, "torch", "numba", "sklearn", "matplotlib", "pandas")
    check([["audit", "--log", "log.csv", "--recs", "recs.parquet", "-o", "page.html"]], "torch", "numba")


def test_training_does_not_import_the_compiler_of_torch(folder):
    train = ["train", "log.csv", "--method", "icpe", "--train.epochs", "1", "--backbone.dim", "4", "-o", "run"]
    check([train, ["recommend", "run", "--user", "3", "--beta", "0.5"]], "torch._dynamo")
