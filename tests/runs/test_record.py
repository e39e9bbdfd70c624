"""Finished runs that are read from their folders, and their provenance."""

import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest

from icpe import DataError
from icpe.cli import run
from icpe.runs.config import RunConfig
from icpe.runs.provenance import hash_rows, setting_rows, split_rows, train_command, versions
from icpe.runs.record import read_runs
from icpe.testing import skewed_log

QUICK = ["--train.epochs", "2", "--train.evaluate_every", "5", "--backbone.dim", "8"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    skewed_log().write(folder / "log.csv")
    train = ["train", str(folder / "log.csv"), *QUICK]
    assert run([*train, "-o", str(folder / "normal")]) == 0
    assert run([*train, "--method", "icpe", "-o", str(folder / "icpe")]) == 0
    return [folder / "normal", folder / "icpe"]


def test_positions_are_counted_as_lists_are_given(paths):
    record = read_runs(paths)[1]
    counted = dict(record.model.recommend(n=20)["item_id"].value_counts().iter_rows())
    shown = dict(zip(record.model.log.items, record.shown.tolist(), strict=True))
    assert {item: times for item, times in shown.items() if times} == counted
    assert (record.method, record.part) == ("icpe", "test")


def test_labels_are_unique(paths, tmp_path):
    assert [one.label for one in read_runs(paths)] == ["Normal", "ICPE"]
    copy = shutil.copytree(paths[1], tmp_path / f"copy{'-again' * 9}")
    labels = [one.label for one in read_runs([paths[1], copy])]
    assert labels == ["ICPE (icpe)", "ICPE (copy-again-…-again-again)"]
    assert [one.label for one in read_runs([copy, copy])] == ["ICPE 1", "ICPE 2"]


def test_slow_scores_are_counted_for_fewer_users(paths, tmp_path):
    log = paths[0].parent / "log.csv"
    assert run(["train", str(log), "--backbone", "neumf", "--train.epochs", "1", "-o", str(tmp_path / "neumf")]) == 0
    slow, fast = (read_runs([path])[0] for path in (tmp_path / "neumf", paths[0]))
    limit = 120 * len(slow.model.log.items)
    users = [len(replace(one, max_scores=limit).listed) for one in (slow, fast)]
    assert users == [120, len(fast.model.log.users)]
    assert len(np.unique(replace(slow, max_scores=limit).listed)) == 120


def test_folders_without_runs_and_runs_of_other_splits(paths, tmp_path):
    with pytest.raises(DataError, match="contains no finished run"):
        read_runs([tmp_path])
    log = paths[0].parent / "log.csv"
    assert run(["train", str(log), *QUICK, "--seed", "1", "-o", str(tmp_path / "other")]) == 0
    with pytest.raises(DataError, match="different data or splits"):
        read_runs([paths[0], tmp_path / "other"])


def test_provenance(paths):
    records = read_runs(paths)
    rows = setting_rows(record.config for record in records)
    assert rows["method.name"] == ["normal", "icpe"]
    assert rows["method.clusters"] == ["–", "4"]
    assert rows["backbone.dim"] == ["8", "8"]
    manifest = records[0].manifest
    assert hash_rows([manifest, manifest])["train"] == [manifest["hashes"]["train"]] * 2
    assert hash_rows([{"hashes": {"train": None}}]) == {"train": ["unknown"]}
    assert split_rows(manifest)["hash of train"] == manifest["hashes"]["train"]
    assert "torch" in versions()


def test_the_command_repeats_a_run(paths, monkeypatch):
    arguments = shlex.split(train_command(paths[0]))
    assert arguments[:2] == ["icpe", "train"]
    assert run(arguments[1:]) == 0
    again = paths[0].with_name("normal-again")
    assert (again / "result.json").read_bytes() == (paths[0] / "result.json").read_bytes() or (
        read_runs([again])[0].values == read_runs([paths[0]])[0].values
    )
    assert RunConfig.read(again / "config.toml") == RunConfig.read(paths[0] / "config.toml")
