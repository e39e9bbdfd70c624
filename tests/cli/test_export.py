"""``icpe export``: the three formats from a run folder, and what wrong use says."""

import json
import sys

import numpy as np
import polars as pl
import pytest

from icpe import load
from icpe.cli import run
from icpe.export import read_export

QUICK = ["--train.epochs", "2", "--split", "random"]


@pytest.fixture(scope="module")
def runs(log_file, tmp_path_factory):
    """A folder with short runs on two backbones."""
    folder = tmp_path_factory.mktemp("runs")
    for name, settings in (
        ("mf", ["--backbone.dim", "4"]),
        ("neumf", ["--backbone.dim", "4", "--backbone.layers", "4"]),
    ):
        words = ["train", str(log_file), "--backbone", name, "--method", "icpe", *settings, *QUICK]
        assert run([*words, "-o", str(folder / name)]) == 0
    return folder


@pytest.mark.parametrize("kind", ["vectors", "faiss", "onnx"])
def test_each_format(icpe, runs, kind):
    code, out, err = icpe("export", runs / "mf", "--to", kind, "-o", "out")
    assert (code, err) == (0, "")
    assert out.startswith("60 users and ")
    assert f"The dial is at {load(runs / 'mf').beta:g}." in out
    assert read_export("out").description["kind"] == kind


def test_json_is_the_description_with_the_files(icpe, runs):
    code, out, err = icpe("export", runs / "neumf", "--to", "onnx", "-o", "out", "--json")
    assert (code, err) == (0, "")
    said, export = json.loads(out), read_export("out")
    assert said == {"folder": "out", "files": said["files"], **export.description}
    assert set(said["files"]) == set(export.files)


def test_recall_is_printed(icpe, runs):
    code, out, _ = icpe("export", runs / "mf", "--to", "faiss", "--index", "hnsw", "-n", "5", "-o", "out")
    assert code == 0
    assert "recall@5 of the index with the dial at" in out
    assert out.count("(60 users)") == len(read_export("out").description["recall"]["at"])


def test_the_setting_of_the_dial_can_be_given(icpe, runs):
    for flag in ("--beta", "--method.beta"):
        assert icpe("export", runs / "mf", "--to", "vectors", "-o", "out", flag, "-0.5", "--force")[0] == 0
        users = pl.read_parquet("out/users.parquet")["vector"].to_numpy()
        np.testing.assert_array_equal(users[:, -1], -0.5)


def test_wrong_use(icpe, runs, monkeypatch):
    def fails(*words, message, code=2):
        found, out, err = icpe("export", *words)
        assert (found, out) == (code, "")
        assert message in err
        assert "Traceback" not in err

    mf = runs / "mf"
    fails(mf, "-o", "out", message="missing option '--to'")
    fails(mf, "--to", "vectors", message="missing option '-o'")
    fails(mf, "--to", "pickle", "-o", "out", message="'pickle' is not one of")
    fails(mf, "--to", "onnx", "--index", "hnsw", "-o", "out", message="--index is for --to faiss; leave it out")
    fails(mf, "--to", "vectors", "--beta", "nan", "-o", "out", message="--beta")
    fails(runs / "neumf", "--to", "faiss", "-o", "out", message="Pass --to onnx")
    fails(runs, "--to", "vectors", "-o", "out", message="holds no model")
    assert icpe("export", mf, "--to", "vectors", "-o", "out")[0] == 0
    fails(mf, "--to", "onnx", "-o", "out", message="pass --force to replace it")
    fails(mf, "--to", "onnx", "-o", mf, "--force", message="holds other files than an export")
    monkeypatch.setitem(sys.modules, "faiss", None)
    fails(mf, "--to", "faiss", "-o", "new", message="pip install 'icpe[faiss]'")
