"""User-defined backbones and methods load from a file in every command, and only if the user names the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icpe import ConfigError, load, make_world
from icpe.backbones import BACKBONES
from icpe.methods import METHODS
from icpe.runs.plugins import load_plugins
from icpe.testing.backbones import check_backbone
from icpe.testing.methods import check_method

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin.py"
PROGRAM = Path(sys.executable).with_name("icpe")


def run(*arguments, cwd):
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def example():
    load_plugins([PLUGIN])


def test_the_example_fulfils_both_contracts(example):
    check_backbone(lambda: BACKBONES["metric"](dim=4))
    check_method(lambda backbone: METHODS["hinge"](backbone), [lambda: BACKBONES["metric"](dim=4)])


def test_the_example_is_short():
    lines = PLUGIN.read_text().splitlines()
    assert len(lines) - lines.index("class MetricSettings(Settings):") < 60


@pytest.mark.slow
def test_trained_here_recommended_in_another_process(tmp_path):
    make_world(users=120, items=80, interactions=1500).save(tmp_path / "world")
    names = ["--plugin", PLUGIN, "--backbone", "metric", "--method", "hinge"]
    done = run("train", "world", *names, "--train.epochs", 3, "--json", "-o", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test"]["ndcg@20"] > 0
    lists = run("recommend", "run", "--plugin", PLUGIN, "--user", "u0003", "-n", 4, "--json", cwd=tmp_path)
    assert lists.returncode == 0, lists.stderr
    assert [row["rank"] for row in json.loads(lists.stdout)] == [1, 2, 3, 4]
    for command in (["recommend", "run", "--user", "u0003"], ["evaluate", "run"], ["report", "run", "-o", "x.html"]):
        refused = run(*command, cwd=tmp_path)
        assert refused.returncode == 2
        assert "unknown backbone 'metric'" in refused.stderr
        assert "--plugin" in refused.stderr
        assert "Traceback" not in refused.stderr
    for command in (["evaluate", "run"], ["report", "run", "-o", "x.html"]):
        done = run(*command, "--plugin", PLUGIN, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_in_python(tmp_path, skewed, example):
    model = METHODS["hinge"](BACKBONES["metric"](dim=4)).fit(skewed, epochs=1)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model", plugins=[PLUGIN])
    assert again.recommend(n=2).equals(model.recommend(n=2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "defines no subclass of icpe.Backbone or icpe.Method"),
        ("import nonsense_that_does_not_exist", "cannot be loaded: ModuleNotFoundError"),
        ("def broken(:", "cannot be loaded: SyntaxError"),
        ("from icpe import MF\nclass Mine(MF):\n    name = 'mf'", "'mf' already exists in icpe"),
    ],
)
def test_bad_plugins_are_refused(write, content, message):
    with pytest.raises(ConfigError, match=message):
        load_plugins([write("plugin.py", content)])


def test_a_plugin_that_does_not_exist(tmp_path):
    with pytest.raises(ConfigError, match="is not a Python file"):
        load_plugins([tmp_path / "nothing.py"])


@pytest.mark.slow
def test_comparisons_and_tunings_load_it_in_their_workers(tmp_path, skewed):
    skewed.write(tmp_path / "log.csv")
    common = ["log.csv", "--plugin", PLUGIN, "--backbones", "metric", "--train.epochs", 1, "--workers", 2, "--json"]
    done = run("compare", *common, "--methods", "hinge,normal", "--seeds", 1, "-o", "cmp", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("tune", *common, "--methods", "hinge", "--trials", 2, "--seeds", 1, "-o", "tuning", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[hinge.metric.method]" in (tmp_path / "tuning" / "presets.toml").read_text()
    refused = run("compare", "log.csv", "--methods", "hinge", "-o", "other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "unknown method 'hinge'" in refused.stderr
    assert not (tmp_path / "other").exists()
