"""Run folders that version 0.1 wrote still load, recommend, evaluate and resume."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from icpe import load
from icpe.runs.run import Run

FOLDER = Path(__file__).parent / "version-0.1"
TRAINED_WITH = (
    "--method icpe --backbone.dim 4 --seed 5 --train.batch_size 512 --train.epochs 4 --train.evaluate_every 60"
)

ROUNDING = 0.02  # another processor rounds differently, and items change clusters, as in golden.json


@pytest.fixture
def expected():
    return json.loads((FOLDER / "finished" / "result.json").read_text())


def test_recommends(icpe):
    code, out, _ = icpe("recommend", FOLDER / "finished", "--user", "u0003", "--user", "u0017", "-n", 5, "--json")
    assert code == 0
    found, before = json.loads(out), json.loads((FOLDER / "lists.json").read_text())
    for key in ("user_id", "item_id", "rank", "name"):
        assert [row[key] for row in found] == [row[key] for row in before]
    assert [row["score"] for row in found] == pytest.approx([row["score"] for row in before], rel=1e-5)


def test_loads_in_python():
    model = load(FOLDER / "finished")
    assert model.recommend(["u0003"], n=3).height == 3


def test_evaluates(icpe, expected):
    code, out, _ = icpe("evaluate", FOLDER / "finished", "--json")
    assert code == 0
    found = json.loads(out)
    for part in ("valid", "test"):
        known = {name: found[part][name] for name in expected[part]}  # there are more metrics today
        assert known == pytest.approx(expected[part])


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_resumes(icpe, expected, tmp_path, monkeypatch, again):
    """The command that began the run resumes it, though the defaults have changed; also after another interrupt."""
    shutil.copytree(FOLDER / "interrupted", tmp_path / "run")
    words = ["train", "demo", *TRAINED_WITH.split(), "--resume", "--json", "-o", tmp_path / "run"]
    if again:
        with monkeypatch.context() as patched:
            patched.setattr(Run, "_after_step", interrupt_at_step_200)
            assert icpe(*words)[0] == 130
        assert json.loads((tmp_path / "run" / "checkpoint" / "state.json").read_text())["record"]["step"] == 200
    code, out, err = icpe(*words)
    assert code == 0, err
    found = json.loads(out)
    assert found["beta"] == 0
    assert found["steps"] == expected["steps"]
    assert found["test"]["ndcg@20"] == pytest.approx(expected["test"]["ndcg@20"], rel=ROUNDING)
    curve = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in curve] == [60, 120, 180, 240, 300, 360, 372]


def interrupt_at_step_200(run, trainer, identity, position, origin):
    if position.step == 200:
        run._save(trainer, identity)
        raise KeyboardInterrupt


def test_its_configuration_trains_the_same_again(icpe, expected, tmp_path):
    code, out, err = icpe("train", "--config", FOLDER / "finished" / "config.toml", "--json", "-o", tmp_path / "run")
    assert code == 0, err
    found = json.loads(out)
    assert (found["steps"], found["beta"]) == (expected["steps"], 0)
    assert found["test"]["ndcg@20"] == pytest.approx(expected["test"]["ndcg@20"], rel=ROUNDING)
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["train"]["goal"] == "none"


def test_refuses_to_turn_the_dial_of_a_run_that_began_without(icpe, tmp_path):
    shutil.copytree(FOLDER / "interrupted", tmp_path / "run")
    words = ["train", "demo", *TRAINED_WITH.split(), "--goal", "traffic", "--resume", "-o", tmp_path / "run"]
    code, _, err = icpe(*words)
    assert code == 2
    assert "its train.goal is 'none', but this run has 'traffic'" in err


def test_refuses_to_resume_with_other_settings(icpe, tmp_path):
    shutil.copytree(FOLDER / "interrupted", tmp_path / "run")
    arguments = TRAINED_WITH.replace("--backbone.dim 4", "--backbone.dim 5").split()
    code, _, err = icpe("train", "demo", *arguments, "--resume", "-o", tmp_path / "run")
    assert code == 2
    assert "backbone" in err
