"""``icpe evaluate --audit``: the metrics of an audit for a model, equal to those of an audit of its lists."""

import json

import polars as pl
import pytest

from icpe.audit import audit
from icpe.cli import run
from icpe.runs.saved import SavedRun


@pytest.fixture(scope="module")
def folder(log_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    flags = ["--split", "random", "--method", "normal", "--train.epochs", "2", "-n", "5"]
    assert run(["train", str(log_file), *flags, "-o", str(path)]) == 0
    return path


def test_a_model_has_the_metrics_of_an_audit_of_its_lists(folder, capfd):
    capfd.readouterr()
    assert run(["evaluate", str(folder), "-n", "5", "-n", "3", "--audit", "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    saved = SavedRun.open(folder)
    train, valid = saved.parts.train, saved.parts.valid
    # Validation lists hide what was used in training, as those of `recommend` do.
    lists = saved.model.recommend(valid.users.filter(pl.Series(valid.user_counts > 0)), n=5)
    for n in (3, 5):
        (audited,) = audit(train, lists, valid, n=n).sets
        ours = {name: value for name, value in result["valid"].items() if name.endswith(f"@{n}")}
        assert len(ours) > 35
        assert ours == pytest.approx({name: audited.values[name] for name in ours}, nan_ok=True)
        bounds = {name: both for name, both in result["intervals"]["valid"].items() if name.endswith(f"@{n}")}
        assert bounds.keys() == audited.intervals.keys()
        assert bounds["popularity_lift@" + str(n)] == pytest.approx(audited.intervals[f"popularity_lift@{n}"])
    assert {"ee_l@5", "popularity_jsd_niche_users@3"} <= result["test"].keys()


def test_the_terminal_shows_intervals_on_demand(folder, capfd):
    capfd.readouterr()
    assert run(["evaluate", str(folder)]) == 0
    assert "interval" not in capfd.readouterr().out
    assert run(["evaluate", str(folder), "--audit"]) == 0
    out = capfd.readouterr().out
    assert "95 % interval, test" in out
    assert "popularity_lift_blockbuster_users@5" in out
