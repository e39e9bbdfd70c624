"""Runs that build on an earlier run: a warm start that keeps the wish of the dial, and the refit that goes live."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from icpe import Interactions, load, make_world
from icpe.errors import ConfigError, DataError
from icpe.recommender.dial import Wish
from icpe.runs.config import RunConfig
from icpe.runs.live import refit_run
from icpe.runs.origin import with_init_from
from icpe.runs.run import Run
from icpe.runs.saved import dial_run, evaluate_run

LOOP = {"epochs": 6, "batch_size": 256, "evaluate_every": 5, "patience": 4, "lr": 0.02}


class Killed(BaseException):
    """Simulated kill. It is not an Exception, so that no handler catches it."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> tuple[Path, Path]:
    """Yesterday's log, and today's."""
    folder = tmp_path_factory.mktemp("logs")
    log = make_world(users=90, items=70, interactions=1800).log
    old = log.keep(log.timestamp < np.quantile(log.timestamp, 0.8)).compact()
    for name, one in (("monday.parquet", old), ("tuesday.parquet", log)):
        one.write(folder / name)
    return folder / "monday.parquet", folder / "tuesday.parquet"


def config_of(log, method="icpe", **sections) -> RunConfig:
    backbone = {"name": "mf", "dim": 4}
    return RunConfig(
        data={"source": str(log)}, split={"kind": "chronological"}, backbone=backbone, method={"name": method},
        train=LOOP, **sections,
    )  # fmt: skip


@pytest.fixture(scope="module")
def monday(logs, tmp_path_factory) -> Path:
    """A run whose dial was set to a wish."""
    folder = tmp_path_factory.mktemp("runs") / "monday"
    Run(config_of(logs[0]), folder).train()
    dial_run(folder, Wish(niche_share=0.75), save=True)
    return folder


@pytest.fixture(scope="module")
def tuesday(logs, monday, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tuesday"
    Run(with_init_from(config_of(logs[1]), monday), folder).train()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the checksums, which depend on the names of the folders that other files contain."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


def pairs(log):
    return log.to_frame().select("user_id", "item_id")


def kill_at(step):
    def stop(position, steps):
        if position.step == step:
            raise Killed

    return stop


def test_the_wish_of_the_dial_is_met_on_the_new_validation_part(monday, tuesday):
    result = read(tuesday)
    assert result["wish"] == {"niche_share": 0.75}
    assert result["valid"]["apt@20"] == pytest.approx(0.75, abs=0.02)
    assert load(tuesday).beta == result["beta"] != load(monday).beta


def test_the_files_say_where_the_run_comes_from(logs, monday, tuesday):
    start = RunConfig.read(tuesday / "config.toml").start
    log = [set(Interactions.read(path).users) for path in logs]
    assert start["init_from"] == str(monday)
    assert start["wish"] == {"niche_share": 0.75}
    assert start["users"]["kept"] + start["users"]["dropped"] == len(load(monday).log.users) <= len(log[0])
    assert start["users"]["kept"] + start["users"]["new"] == len(load(tuesday).log.users)
    assert start["known"] == {"valid": 0.0, "test": 0.0}
    assert read(tuesday)["start"]["items"] == start["items"]
    first = json.loads((tuesday / "metrics.jsonl").read_text().splitlines()[0])
    assert (first["step"], first["loss"]) == (0, None)


def test_a_wish_can_be_left_behind(logs, monday):
    result = Run(with_init_from(config_of(logs[1]), monday, keep_wish=False)).train()
    assert "wish" not in result
    assert result["valid"]["apt@20"] != pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("step", [1, 7])
@pytest.mark.parametrize("named", [True, False], ids=["with init_from", "without"])
def test_a_resumed_run_needs_the_earlier_one_no_more(logs, monday, tuesday, tmp_path, step, named):
    gone = tmp_path / "earlier"
    shutil.copytree(monday, gone)
    config = with_init_from(config_of(logs[1]), gone)
    with pytest.raises(Killed):
        Run(config, tmp_path / "run", kill_at(step)).train()
    shutil.rmtree(gone)
    Run(config if named else config_of(logs[1]), tmp_path / "run").train(resume=True)
    whole, resumed = contents(tuesday), contents(tmp_path / "run")
    assert whole.keys() == resumed.keys()
    for name in whole:
        path = str(gone).encode()
        assert resumed[name].replace(path, str(monday).encode()) == whole[name], name


def test_resume_refuses_another_start(logs, monday, tuesday, tmp_path):
    shutil.copytree(tuesday, tmp_path / "run")
    with pytest.raises(
        DataError, match="belongs to another run: its start is '.*monday'.*but this run has '.*tuesday'"
    ):
        Run(with_init_from(config_of(logs[1]), tuesday), tmp_path / "run").train(resume=True)


def test_without_its_checkpoint_a_run_needs_the_earlier_one(logs, tmp_path):
    config = with_init_from(config_of(logs[1]), tmp_path / "nowhere")
    with pytest.raises(DataError, match="nowhere holds no model"):
        Run(config, tmp_path / "run").train(resume=True)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("method", "method is 'normal' here and 'icpe' in .*monday"),
        ("backbone", "backbone is 'neumf' here and 'mf' in"),
    ],
)
def test_another_kind_of_model_is_refused_before_anything_is_read(logs, monday, section, message):
    other = {"method": {"name": "normal"}, "backbone": {"name": "neumf"}}[section]
    with pytest.raises(ConfigError, match=message):
        with_init_from(replace(config_of(logs[1]), **{section: other}), monday)


def test_without_a_validation_part_the_dial_stays_where_it_was(logs, monday, tmp_path):
    config = replace(config_of(logs[1]), data={"train": str(logs[1])}, split={})
    Run(with_init_from(config, monday), tmp_path / "run").train()
    assert load(tmp_path / "run").beta == load(monday).beta


def test_unknown_words_about_the_start_are_named(logs):
    with pytest.raises(ConfigError, match="unknown setting of .start. 'init'; did you mean 'init_from'"):
        Run(config_of(logs[0], start={"init": "x"})).train()


@pytest.fixture(scope="module")
def live(logs, tmp_path_factory) -> Path:
    """A run from scratch and its refit."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    Run(config_of(logs[1]), folder).train()
    refit_run(folder)
    return folder


def test_the_refit_knows_everything_and_keeps_the_choices(logs, live):
    model, chosen, log = load(live / "live"), load(live), Interactions.read(logs[1])
    assert pairs(model.log).equals(pairs(log))
    assert len(chosen.log) < len(log)
    assert model.beta == chosen.beta
    assert model.front().table.equals(chosen.front().table)


def test_the_refit_trains_for_the_epochs_found(logs, live):
    curve = [json.loads(line) for line in (live / "metrics.jsonl").read_text().splitlines()]
    found, result = read(live), read(live / "live")
    (epochs,) = (one["epoch"] for one in curve if one["step"] == found["best_step"])
    size = -(-len(Interactions.read(logs[1])) // LOOP["batch_size"])  # steps of an epoch on all data
    assert result["refit"]["epochs"] == epochs
    assert result["steps"] == round(epochs * size)


def test_the_result_says_what_the_refit_is(live):
    result = read(live / "live")
    assert not {"valid", "test"} & result.keys()
    assert result["refit"]["of"] == str(live)
    assert result["refit"]["selection"]["test"] == read(live)["test"]
    assert "trained_on" in result["refit"]


def test_the_refit_cools_when_the_run_did(logs, tmp_path):
    """Validation decides the temperature of ICPE, so the refit must follow what validation has decided."""
    config = replace(config_of(logs[1]), train={**LOOP, "evaluate_every": 1, "patience": 30, "lr": 0.1})
    Run(config, tmp_path).train()
    refit_run(tmp_path)
    chosen, model = load(tmp_path).method, load(tmp_path / "live").method
    assert chosen.temperature < chosen.settings.temperature  # else the test shows nothing
    assert model.temperature == pytest.approx(chosen.temperature)


def test_a_choice_of_ranking_is_kept(logs, tmp_path):
    Run(config_of(logs[1], "penalty"), tmp_path).train()
    chosen = load(tmp_path)
    chosen.method.choose_ranking(strength=0.125)
    chosen.save(tmp_path)
    refit_run(tmp_path)
    assert load(tmp_path / "live").method.ranking_choice() == {"strength": 0.125}


def test_a_refit_that_is_killed_ends_the_same(live, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(live, folder, ignore=shutil.ignore_patterns("live"))
    with pytest.raises(Killed):
        refit_run(folder, on_step=kill_at(7))
    assert not (folder / "live" / "model.json").exists()
    refit_run(folder, resume=True)
    expected = contents(live / "live")
    for name, content in contents(folder / "live").items():
        assert content.replace(str(folder).encode(), str(live).encode()) == expected[name], name


def test_the_refit_of_a_warm_start_starts_where_the_run_did(logs, monday, tuesday, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(tuesday, folder)
    with pytest.raises(Killed):
        refit_run(folder, on_step=kill_at(3))
    result = refit_run(folder, resume=True)
    assert result["refit"]["epochs"] >= 1
    assert result["wish"] == {"niche_share": 0.75}
    kept = load(folder / "live")
    near = torch.nn.functional.cosine_similarity(
        *(
            one.method.backbone.user_table.detach()[[one.log.users.index_of(load(monday).log.users[0])]]
            for one in (kept, load(monday))
        )
    )
    assert float(near) > 0.5


def test_nothing_is_left_to_measure_a_refit_on(live):
    for measure in (evaluate_run, dial_run):
        with pytest.raises(DataError, match=f"was trained on all parts.*{live} instead"):
            measure(live / "live")


def test_training_again_removes_the_old_refit(logs, live, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(live, folder)
    Run(config_of(logs[1]), folder).train(force=True)
    with pytest.raises(DataError, match="holds no model"):
        load(folder / "live")


def test_a_refit_needs_a_validation_part(logs, tmp_path):
    config = replace(config_of(logs[0]), data={"train": str(logs[0])}, split={})
    Run(config, tmp_path).train()
    with pytest.raises(ConfigError, match="has no validation part.*a refit needs one"):
        refit_run(tmp_path)


def test_given_parts_are_read_as_one_log(logs, tmp_path):
    """Users and items that are in the newest part only get rows too."""
    log = Interactions.read(logs[1])
    edges = np.quantile(log.timestamp, [0.5, 0.75])
    for name, low, high in (("train", 0, edges[0]), ("valid", *edges), ("test", edges[1], np.inf)):
        log.keep((log.timestamp >= low) & (log.timestamp < high)).write(tmp_path / f"{name}.parquet")
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("train", "valid", "test")}
    Run(replace(config_of(logs[1]), data=files, split={}), tmp_path / "run").train()
    refit_run(tmp_path / "run")
    assert pairs(load(tmp_path / "run" / "live").log).equals(pairs(log))
