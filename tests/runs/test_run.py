"""A run that is killed at any write can be resumed and ends with the same bytes."""

import json
from pathlib import Path

import pytest

from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.testing import skewed_log


class Killed(BaseException):
    """Simulated kill. It is not an Exception, so that no handler catches it."""


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=40, items=30, pairs=500).write(path)
    settings = {"epochs": 2, "batch_size": 80, "evaluate_every": 4}
    return RunConfig(data={"source": str(path)}, backbone={"dim": 2}, train=settings)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def count_writes(monkeypatch, kill_at=None, after=False):
    """Count the renames that end each write, and raise Killed before or after one of them."""
    done = []
    replace = Path.replace

    def counted(self, target):
        done.append(Path(target).name)
        if len(done) == kill_at and not after:
            raise Killed
        moved = replace(self, target)
        if len(done) == kill_at:
            raise Killed
        return moved

    monkeypatch.setattr(Path, "replace", counted)
    return done


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    Run(config, folder).train()
    return folder


@pytest.mark.parametrize("after", [False, True], ids=["before the rename", "after the rename"])
def test_a_kill_at_every_write(config, whole, tmp_path, monkeypatch, after):
    with monkeypatch.context() as patch:
        writes = count_writes(patch)
        Run(config, tmp_path / "counted").train()
    assert {"metrics.jsonl", "config.toml", "split.json", "state.json", "model.json", "result.json"} <= set(writes)
    assert writes.count("manifest.json") == writes.count(".icpe-journal.json") > 4
    for kill_at in range(1, len(writes) + 1):
        folder = tmp_path / f"run-{kill_at}"
        with monkeypatch.context() as patch:
            count_writes(patch, kill_at, after)
            with pytest.raises(Killed):
                Run(config, folder).train()
        Run(config, folder).train(resume=True)
        assert contents(folder) == contents(whole), f"killed at write {kill_at}, {writes[kill_at - 1]}"


def test_nothing_is_written_without_a_folder(config, tmp_path, monkeypatch, whole):
    monkeypatch.chdir(tmp_path)
    result = Run(config).train()
    assert list(tmp_path.iterdir()) == []
    assert {key: value for key, value in result.items() if key != "seconds"} == json.loads(
        (whole / "result.json").read_text()
    )


def test_checkpoints_between_validations(config, whole, tmp_path):
    """Checkpoints are also written between validations that are far apart; here after every step."""
    folder, seen = tmp_path / "run", []

    def stop(position, steps):
        state = folder / "checkpoint" / "state.json"
        if state.exists():
            seen.append(json.loads(state.read_text())["record"]["step"])
        if position.step == 7:
            raise Killed

    with pytest.raises(Killed):
        Run(config, folder, on_step=stop, save_every=-1.0).train()
    assert seen == [1, 2, 4, 4, 5, 6], "the checkpoint at the end of each step; a validation saves before the step ends"
    Run(config, folder).train(resume=True)
    assert contents(folder) == contents(whole)
