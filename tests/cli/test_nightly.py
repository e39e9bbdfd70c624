"""``icpe train --init-from`` and ``--refit``: settings that follow the earlier run, and one line for every mistake."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from icpe import load
from icpe.cli import run

QUICK = ["--backbone.dim", "4", "--train.epochs", "3", "--train.batch_size", "128", "--train.evaluate_every", "5"]


@pytest.fixture(scope="module")
def monday(tmp_path_factory) -> Path:
    """A world, and a run on it with settings of its own."""
    folder = tmp_path_factory.mktemp("nights")
    world = folder / "world"
    assert run(["data", "make", "--users", "90", "--items", "70", "--interactions", "1500", "-o", str(world)]) == 0
    split = ["--split", "chronological"]
    assert run(["train", str(world), *split, *QUICK, "--method.loss", "softmax", "-o", str(folder / "monday")]) == 0
    return folder / "monday"


def test_the_settings_of_the_earlier_run_are_the_defaults(icpe, monday):
    code, out, err = icpe("train", "--init-from", monday, "--train.epochs", 1, "--json", "-o", "tuesday")
    assert code == 0, err
    config, before = (Path(one, "config.toml").read_text().split("[start]")[0].strip() for one in ("tuesday", monday))
    assert config == before.replace("epochs = 3", "epochs = 1")
    assert json.loads(out)["start"]["users"]["dropped"] == 0
    code, out, _ = icpe("train", "--init-from", monday, "--train.epochs", 1, "-o", "again")
    assert f"Started from {monday}: users 90 kept, 0 new, 0 dropped" in out


def test_the_wish_is_kept_unless_another_is_made(icpe, monday):
    assert icpe("dial", monday, "--niche-share", 0.75, "--save")[0] == 0
    for number, (flags, wish) in enumerate(
        (([], {"niche_share": 0.75}), (["--goal", "balanced"], None), (["--method.beta", "0.1"], None))
    ):
        code, out, err = icpe(
            "train", "--init-from", monday, "--train.epochs", 1, *flags, "--json", "-o", f"run{number}"
        )
        assert code == 0, err
        assert json.loads(out).get("wish") == wish


def test_a_wish_with_a_boost_is_kept(icpe, monday, tmp_path):
    earlier = shutil.copytree(monday, tmp_path / "boosted")
    assert icpe("dial", earlier, "--niche-share", 0.9, "--boost", "--save")[0] == 0
    code, out, err = icpe("train", "--init-from", earlier, "--train.epochs", 1, "--refit", "--json", "-o", "night")
    assert code == 0, err
    found = json.loads(out)
    assert found["wish"] == {"niche_share": 0.9, "boost": True}
    assert found["boost"] > 0
    assert load("night").setting == load("night/live").setting == {name: found[name] for name in ("beta", "boost")}


def test_a_saved_choice_reaches_the_refit(icpe, monday, tmp_path):
    code, _, err = icpe("train", "--init-from", monday, "--train.epochs", 1, "--refit", "-o", "run")
    assert code == 0, err
    for words in (["--niche-share", 0.8], ["--niche-share", 0.9, "--boost"], ["--goal", "balanced"]):
        before = load("run/live").recommend(load("run/live").log.users, 10)
        code, out, err = icpe("dial", "run", *words, "--save")
        assert code == 0, err
        assert f"Saved in run and {Path('run/live')}" in out
        run, live = load("run"), load("run/live")
        assert live.setting == run.setting
        assert live.front().table.equals(run.front().table)
        assert {
            name: json.loads(Path("run/live/result.json").read_text()).get(name) for name in run.setting
        } == run.setting
        lists = live.recommend(live.log.users, 10)
        assert not lists.equals(before)
        assert icpe("recommend", "run/live", "--all", "-n", 10, "-o", f"{words[-1]}.parquet")[0] == 0
        assert pl.read_parquet(f"{words[-1]}.parquet").equals(lists)
    chosen = load("run").setting
    code, _, err = icpe("train", "--init-from", monday, "--train.epochs", 1, "--refit", "-o", "run", "--resume")
    assert code == 0, err
    assert load("run").setting == load("run/live").setting == chosen


def test_a_run_that_goes_on_keeps_the_saved_choice(icpe, monday, tmp_path):
    run = shutil.copytree(monday, tmp_path / "run")
    assert icpe("dial", run, "--keep", 0.7, "--save")[0] == 0
    before = load(run).setting
    command = ["train", monday.parent / "world", "--split", "chronological", *QUICK, "--method.loss", "softmax"]
    code, out, err = icpe(*command, "-o", run, "--resume", "--json")
    assert code == 0, err
    assert json.loads(out)["wish"] == {"keep": 0.7}
    assert load(run).setting == before


def test_refit_goes_live_and_resumes(icpe, monday):
    code, out, err = icpe("train", "--init-from", monday, "--train.epochs", 1, "--refit", "-o", "run")
    assert code == 0, err
    assert f"The model that goes live is {Path('run/live')}, trained on all parts for 1 epoch." in out
    assert icpe("recommend", "run/live", "--all", "-o", "recs.csv")[0] == 0
    result = json.loads(Path("run/live/result.json").read_text())
    code, out, err = icpe(
        "train", "--init-from", monday, "--train.epochs", 1, "--refit", "-o", "run", "--resume", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["live"]["steps"] == result["steps"]
    code, _, err = icpe("evaluate", "run/live")
    assert (code, "was trained on all parts" in err) == (2, True)
    assert icpe("report", "run/live")[0] == 0


def test_parts_of_the_earlier_run_give_way_to_data(icpe, monday):
    log = monday.parent / "world" / "log.parquet"
    assert icpe("split", log, "--split", "chronological", "-o", "cut")[0] == 0
    given = [word for part in ("train", "valid", "test") for word in (f"--{part}", f"cut/{part}.parquet")]
    assert icpe("train", "--init-from", monday, *given, "--train.epochs", 1, "-o", "parts")[0] == 0
    assert "source" not in Path("parts/config.toml").read_text()
    code, _, err = icpe("train", log, "--init-from", "parts", "--split", "chronological", "-o", "whole")
    assert code == 0, err
    assert "source" in Path("whole/config.toml").read_text()


def test_mistakes_are_told_in_one_line(icpe, monday):
    Path("log.csv").write_text("user_id,item_id,timestamp\n" + "".join(f"{n % 9},{n % 7},{n}\n" for n in range(60)))
    for flags, message in (
        (
            ["--method", "icpe"],
            f"method is 'icpe' here and 'normal' in {monday}; a training can start from a model of the",
        ),
        (["--backbone", "neumf"], f"backbone is 'neumf' here and 'mf' in {monday}"),
        (["--backbone.dim", "8"], f"backbone.dim is 8 here and 4 in {monday}"),
        (["log.csv"], "user ids are text in"),
        (["log.csv"], "pass --ids text"),
        (["--init-from", "nowhere"], "--init-from is nowhere, which holds no model"),
    ):
        code, out, err = icpe("train", "--init-from", monday, *flags, "-o", "run")
        assert (code, out) == (2, ""), flags
        assert message in err, err
        assert len(err.splitlines()) == 1
        assert not Path("run").exists()
    code, _, err = icpe("train", "--init-from", monday, "--force", "-o", monday)
    assert (code, "--init-from and -o are the same folder" in err) == (2, True)
