"""``icpe reproduce``: all studies on a small log, continuation, and errors."""

import json

import polars as pl
import pytest

from icpe.cli import run
from icpe.testing import skewed_log

SMALL = ["--seeds", "1", "--quick", "--k-core", "1", "--train.epochs", "1", "--backbone.dim", "8"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("reproduce") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    return path


@pytest.mark.slow
def test_everything_is_made_from_one_command_and_not_trained_twice(log, capsys):
    folder = log.parent / "out"
    command = ["reproduce", "all", str(log), "-o", str(folder), "--backbones", "mf,lightgcn", *SMALL]
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["studies"]) == 11
    assert all(one["said"] and one["seen"] for claims in told["studies"].values() for one in claims)
    for stem in ("accuracy", "debiasing", "ablation", "clusters", "alpha", "weights", "case", "gradients", "theory"):
        assert (folder / f"{stem}.svg").stat().st_size > 1000
        assert (folder / f"{stem}.png").stat().st_size > 1000
        assert pl.read_parquet(folder / f"{stem}.parquet").height > 0
    assert (folder / "accuracy.tex").read_text(encoding="utf-8").count("ICPE") >= 2
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 15
    assert "quick version" in page
    results = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")}
    assert len(results) >= 20
    assert run(["reproduce", "ablation", *command[2:]]) == 0
    assert results == {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/result.json")}


def test_some_methods_with_the_settings_of_other_data(log, tmp_path, capsys):
    folder = tmp_path / "out"
    command = ["reproduce", "accuracy", str(log), "-o", str(folder), "--backbones", "mf", *SMALL, "--seeds", "=3"]
    assert run([*command, "--methods", "icpe,normal", "--preset", "lastfm"]) == 0
    assert sorted(path.name for path in folder.glob("runs/*")) == ["icpe-mf-3", "icpe-paper-mf-3", "normal-mf-3"]
    said = (folder / "accuracy-finding.md").read_text(encoding="utf-8")
    for part in ("preset lastfm", "validation data of lastfm", "backbone.dim = 8", "train.epochs = 1"):
        assert part in said
    assert "against Normal" in capsys.readouterr().out
    page = (folder / "accuracy.html").read_text(encoding="utf-8")
    assert f"icpe {' '.join(command)} --methods icpe,normal --preset lastfm" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "demo"], "'nothing' is not one of"),
        (["alpha", "nosuchdata"], "nosuchdata"),
        (["alpha", "demo", "--backbones", "bert"], "--backbones: 'bert'"),
        (["accuracy", "demo", "--methods", "normal,pd"], "--methods: 'pd'"),
        (["accuracy", "demo", "--methods", ","], "--methods: ','"),
        (["alpha", "demo", "--seeds", "many"], "many"),
        (["alpha", "demo", "--seeds", "5,7"], "=5,7,9"),
        (["alpha", "demo", "--preset", "nosuch"], "nosuch"),
    ],
)
def test_mistakes_are_named(arguments, said, tmp_path, capsys):
    assert run(["reproduce", *arguments, "-o", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("runs/*"))
