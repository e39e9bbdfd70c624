"""Grids: nothing done twice, nothing lost, nothing stopped by a run that fails."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from icpe.compare import _run as _grid_run
from icpe.compare.grid import Cell, Failure, open_grid, run_folder, run_grid
from icpe.compare.study_file import read_cells
from icpe.errors import ConfigError, DataError
from icpe.jobs import memory as _pool
from icpe.jobs.memory import MemoryRule, available_memory, peak_memory, resident_memory
from icpe.methods import METHODS, Normal
from icpe.runs.config import RunConfig
from icpe.runs.run import Run, evaluate_run
from icpe.testing import skewed_log

FILES = {
    "grid.toml",
    "runs",
    "results.parquet",
    "summary.parquet",
    "failures.json",
    "differences.md",
    "differences.csv",
}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "log.csv"
    skewed_log(users=60, items=40, pairs=900).write(path)
    return path


@pytest.fixture
def make(log_file):
    """A cell on small data."""

    def make_cell(label: str, method: str = "normal", tuned: bool = True, serving=None, train=(), **settings) -> Cell:
        config = RunConfig(
            data={"source": str(log_file)},
            backbone={"name": "mf", "dim": 4},
            method={"name": method, **settings},
            train={"epochs": 2, "batch_size": 256, **dict(train)},
        )
        return Cell(label, config, tuned, serving or {})

    return make_cell


@pytest.fixture
def trained(monkeypatch) -> list[Path]:
    """Folders of the runs that are really trained."""
    calls: list[Path] = []
    train = Run.train

    def noted(self, resume=False, force=False):
        calls.append(self.folder)
        return train(self, resume, force)

    monkeypatch.setattr(Run, "train", noted)
    return calls


class Fragile(Normal):
    """Loses its way."""

    name = "fragile"

    def loss(self, batch, rng=None):
        return super().loss(batch, rng) * float("nan")


def test_a_grid_and_its_folder(make, tmp_path, trained):
    cells = [
        make("Normal", tuned=False),
        make("ICPE", "icpe", serving={"beta": [0.0, 0.5]}),
        make("Floor", "popularity"),
    ]
    events = []
    grid = run_grid(cells, [0, 3], tmp_path / "cmp", on_event=events.append)
    assert [(one.kind, one.label, one.seed, one.done) for one in events] == [
        entry
        for at, (label, seed) in enumerate((label, seed) for seed in (0, 3) for label in ("Normal", "ICPE", "Floor"))
        for entry in (("started", label, seed, at), ("finished", label, seed, at + 1))
    ]
    assert events[-1].seconds_left == 0
    names = {path.name for path in (tmp_path / "cmp").iterdir()}
    assert names - {".lock"} == FILES | {"dials.parquet", "table.txt", "table.md", "table.tex", "table.csv"}

    # Rows are what the run folders hold, and those are ordinary runs, without their checkpoints.
    keys = ["label", "backbone", "method", "seed"]
    assert grid.results.select(keys).rows() == [
        (label, "mf", method, seed)
        for label, method in (("Normal", "normal"), ("ICPE", "icpe"), ("Floor", "popularity"))
        for seed in (0, 3)
    ]
    folder = grid.run_folder(cells[1], 3)
    assert folder == tmp_path / "cmp" / "runs" / "icpe-mf-3"
    result = json.loads((folder / "result.json").read_text())
    row = grid.results.filter((pl.col("label") == "ICPE") & (pl.col("seed") == 3)).row(0, named=True)
    assert {name: row[name] for name in result["test"]} == result["test"]
    assert (row["steps"], row["valid_ndcg@20"]) == (result["steps"], result["valid"]["ndcg@20"])
    assert row["users_skipped"] == 60 - row["users"]
    assert not (folder / "checkpoint").exists()
    assert evaluate_run(folder)["test"] == result["test"]

    # Values of users average to the metrics, and results.parquet holds all of them.
    users = grid.per_user()
    assert users.columns[:5] == [*keys, "user_id"]
    assert users.equals(pl.read_parquet(tmp_path / "cmp" / "results.parquet"))
    mean = users.filter((pl.col("label") == "ICPE") & (pl.col("seed") == 3))["recall_niche@20"].mean()
    assert mean == pytest.approx(row["recall_niche@20"])

    dials = pl.read_parquet(tmp_path / "cmp" / "dials.parquet")
    assert dials.select("label", "seed", "dial", "value").rows() == [
        ("ICPE", seed, "beta", value) for seed in (0, 3) for value in (0.0, 0.5)
    ]
    assert (
        dials.filter(pl.col("seed") == 3)["recall@20"][0]
        == evaluate_run(folder, adjust={"beta": 0.0})["test"]["recall@20"]
    )

    # Once more: nothing is trained, and the same comes out, also from the folder alone.
    trained.clear()
    again = run_grid(cells, [0, 3], tmp_path / "cmp")
    assert trained == []
    assert again.results.equals(grid.results)
    opened = open_grid(tmp_path / "cmp")
    assert opened.results.equals(grid.results)
    assert (opened.seeds, [one.label for one in opened.cells]) == ([0, 3], ["Normal", "ICPE", "Floor"])
    assert [one.tuned for one in opened.cells] == [False, True, True]
    run_grid(opened.cells, opened.seeds, tmp_path / "cmp")  # all settings are in grid.toml
    assert trained == []


def test_calls_share_what_they_have_in_common(make, tmp_path, trained):
    run_grid([make("Normal")], [0], tmp_path)
    trained.clear()
    grid = run_grid([make("Normal"), make("MACR", "macr")], [0, 1], tmp_path)
    assert [path.name for path in trained] == ["macr-mf-0", "normal-mf-1", "macr-mf-1"]
    assert grid.results.height == 4
    trained.clear()
    assert run_grid([make("MACR", "macr")], [1], tmp_path).results.height == 1
    assert trained == []


def test_checkpoints_can_be_kept(make, tmp_path):
    run_grid([make("Normal")], [0], tmp_path, keep_checkpoints=True)
    assert (tmp_path / "runs" / "normal-mf-0" / "checkpoint").is_dir()


def test_a_cell_that_fails_does_not_stop_the_rest_and_is_tried_again(make, tmp_path, monkeypatch, trained):
    monkeypatch.setitem(METHODS, "fragile", Fragile)
    cells = [make("Fragile", "fragile"), make("Normal")]
    grid = run_grid(cells, [0, 1], tmp_path)
    assert grid.results["label"].to_list() == ["Normal", "Normal"]
    assert [(one.label, one.backbone, one.seed) for one in grid.failures] == [
        ("Fragile", "mf", 0),
        ("Fragile", "mf", 1),
    ]
    assert grid.failures[0].reason.startswith("the loss is nan at step 1")
    assert [Failure(**one) for one in json.loads((tmp_path / "failures.json").read_text())] == grid.failures
    assert "Failed: Fragile on mf, seeds 0, 1 (the loss is nan at step 1" in (
        tmp_path / "table.txt"
    ).read_text().replace("\n", " ")
    assert open_grid(tmp_path).failures == grid.failures

    monkeypatch.setattr(Fragile, "loss", Normal.loss)
    trained.clear()
    grid = run_grid(cells, [0, 1], tmp_path)
    assert len(trained) == 2
    assert grid.failures == json.loads((tmp_path / "failures.json").read_text()) == []
    assert grid.results.height == 4


def test_interrupted_it_goes_on_inside_the_run(make, tmp_path, monkeypatch):
    """As Ctrl-C between two steps: the checkpoint is there, and all ends bit for bit as if nothing had happened."""
    cells = [make("Normal", train={"epochs": 6}), make("MACR", "macr")]
    whole = run_grid(cells, [0], tmp_path / "whole")
    monkeypatch.setattr(_grid_run, "_NOTE_EVERY", 0.0)
    steps = []

    class Stopping(Run):
        def _after_step(self, trainer, identity, position):
            steps.append(position.step)
            self._interrupted = len(steps) == 9
            super()._after_step(trainer, identity, position)

    with monkeypatch.context() as patch:
        patch.setattr(_grid_run, "Run", Stopping)
        with pytest.raises(KeyboardInterrupt):
            run_grid(cells, [0], tmp_path / "pieces")
        assert (tmp_path / "pieces" / "table.txt").exists()
        before = len(steps)
        pieces = run_grid(cells, [0], tmp_path / "pieces")
        assert steps[before] == 10  # not from the beginning
    assert pieces.results.drop("seconds").equals(whole.results.drop("seconds"))
    assert pieces.per_user().equals(whole.per_user())
    for one in (tmp_path / "whole" / "runs").glob("*/*"):
        if one.name != "grid.json":
            assert one.read_bytes() == (tmp_path / "pieces" / one.relative_to(tmp_path / "whole")).read_bytes()


def test_a_run_killed_before_its_checkpoint_was_removed_is_finished(make, tmp_path, trained):
    run_grid([make("Normal")], [0], tmp_path, keep_checkpoints=True)
    (tmp_path / "runs" / "normal-mf-0" / "grid.json").unlink()
    trained.clear()
    grid = run_grid([make("Normal")], [0], tmp_path)
    assert trained == []
    assert grid.results["seconds"].to_list() == [None]
    assert not (tmp_path / "runs" / "normal-mf-0" / "checkpoint").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": {"lr": 0.5}}, r"holds a run with train.lr = 0.001, here it is 0.5; take another folder"),
        ({"reg": 0.25}, r"holds a run with method.reg = 1e-05, here it is 0.25"),
        ({"method": "macr"}, r"holds a run with method.name = 'normal', here it is 'macr'"),
    ],
)
def test_a_run_of_other_settings_is_refused(make, tmp_path, change, message):
    run_grid([make("X")], [0], tmp_path)
    with pytest.raises(ConfigError, match=message):
        run_grid([make("X", **change)], [0], tmp_path)
    moved = make("X", train={"device": "cpu"})  # where it happens is another matter
    run_grid([moved], [0], tmp_path)


def test_other_data_of_the_same_name_are_refused(make, tmp_path, log_file):
    run_grid([make("X")], [0], tmp_path / "cmp")
    skewed_log(users=60, items=40, pairs=900, seed=9).write(tmp_path / "log.csv")
    other = make("X").config.updated("data", {"source": str(tmp_path / "log.csv")})
    shutil.copy(log_file, tmp_path / "same.csv")
    cells = [Cell("X", other), Cell("Y", other)]
    with pytest.raises(DataError, match="the data have changed since .*x-mf-0 was made"):
        run_grid(cells, [0], tmp_path / "cmp")


def test_a_folder_somebody_works_in_is_refused(make, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process is at work in .* --storage URL"):
            run_grid([make("X")], [0], tmp_path)


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([], {}, "nothing to compare"),
        (["A", "A"], {}, "'A' on mf is there twice"),
        (["w/o CR", "W-o CR"], {}, "is there twice; cells need names of their own"),
        (["A"], {"seeds": []}, "seeds are"),
        (["A"], {"seeds": [1, 1]}, "seeds are"),
        (["A"], {"workers": 0}, "workers is 0"),
        (["A"], {"storage": "nonsense://x"}, "the database of --storage cannot be opened"),
    ],
)
def test_wrong_arguments(make, tmp_path, cells, options, message):
    with pytest.raises(ConfigError, match=message):
        run_grid([make(label) for label in cells], **{"seeds": [0], "folder": tmp_path, **options})


def test_wrong_settings_are_told_before_anything_is_trained(make, tmp_path):
    for cell, message in [
        (make("A", "norml"), "unknown method 'norml'"),
        (make("A", colour=3), "has no setting 'colour'"),
        (make("A", train={"epochs": 0}), "epochs is 0"),
        (Cell("A", RunConfig(data={"train": "x.csv", "valid": "y.csv"})), "give --test FILE"),
        (Cell("A", RunConfig()), "no data: name a file"),
    ]:
        with pytest.raises(ConfigError, match=message):
            run_grid([make("B"), cell] if "data" not in message else [cell], [0], tmp_path / "cmp")
    assert not (tmp_path / "cmp" / "runs").exists()


# Memory


def rule(monkeypatch, available: float, resident: dict[int, float], peaks: dict[str, float]) -> MemoryRule:
    monkeypatch.setattr(_pool, "available_memory", lambda: int(available * 1e9))
    monkeypatch.setattr(_pool, "resident_memory", lambda process: int(resident.get(process, 0) * 1e9))
    return MemoryRule({backbone: int(peak * 1e9) for backbone, peak in peaks.items()})


@pytest.mark.parametrize(
    ("available", "resident", "peaks", "running", "idle", "objection"),
    [
        (1, {}, {"mf": 9}, [], [], ""),  # none is running: whatever it needs
        (99, {}, {}, [("mf", 7)], [], "the first run shows how much memory one needs"),
        (10, {7: 3}, {"mf": 3}, [("mf", 7)], [], ""),  # the other has all it will have, and 3 fit into 9.5
        (10, {7: 0}, {"mf": 5}, [("mf", 7)], [], "a run needs 5.0 GB of memory, and 4.5 GB are left"),
        (10, {7: 1}, {"mf": 5}, [("mf", 7)], [], ""),  # it needs 4 more, which leaves 5.5
        (4, {7: 5, 8: 2}, {"mf": 5}, [("mf", 7)], [8], ""),  # an idle process has 2 already, 3 more fit into 3.8
        (2, {7: 5, 8: 2}, {"mf": 5}, [("mf", 7)], [8], "a run needs 5.0 GB of memory, and 3.9 GB are left"),
        (10, {7: 1}, {"lightgcn": 8, "mf": 1}, [("mf", 7)], [], ""),  # its own backbone counts
        (
            6,
            {7: 1},
            {"lightgcn": 8, "neumf": 1},
            [("neumf", 7)],
            [],
            "a run needs 8.0 GB of memory, and 5.7 GB are left",
        ),
    ],
)
def test_a_run_begins_if_it_fits(monkeypatch, available, resident, peaks, running, idle, objection):
    assert rule(monkeypatch, available, resident, peaks).objection("mf", running, idle) == objection


def test_memory_is_measured():
    assert resident_memory(os.getpid()) > 1e7 or sys.platform != "linux"
    assert resident_memory(2**30) == 0
    assert peak_memory() is None or peak_memory() >= 0.9 * resident_memory(os.getpid())
    assert available_memory() > 1e7
    assert available_memory(Path("nowhere")) >= available_memory()
    noted = MemoryRule({})
    noted.note("mf", None)
    assert noted.need("mf") is None
    noted.note("mf", 5)
    noted.note("mf", 3)
    assert (noted.need("mf"), noted.need("neumf")) == (5, 5)


# Several machines


@pytest.fixture
def storage(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'shared.db'}"


def test_machines_share_the_runs_of_a_grid(make, tmp_path, storage, trained):
    cells = [make("Normal"), make("MACR", "macr")]
    run_grid(cells[:1], [0], tmp_path / "a" / "cmp")  # before it was shared
    first = run_grid(cells[:1], [0, 1], tmp_path / "a" / "cmp", storage=storage)
    assert first.results.height == 2
    trained.clear()
    events = []
    second = run_grid(cells, [0, 1], tmp_path / "b" / "cmp", storage=storage, on_event=events.append)
    assert [path.name for path in trained] == ["macr-mf-0", "macr-mf-1"]
    assert [(one.label, one.seed) for one in events if one.kind == "elsewhere"] == [("Normal", 0), ("Normal", 1)]
    assert second.results.height == 2
    # Copied together, all is there.
    shutil.copytree(tmp_path / "a" / "cmp" / "runs", tmp_path / "b" / "cmp" / "runs", dirs_exist_ok=True)
    trained.clear()
    assert run_grid(cells, [0, 1], tmp_path / "b" / "cmp", storage=storage).results.height == 4
    assert trained == []


def test_claims(tmp_path, storage):
    from icpe.compare._run_claims import RunClaims
    from icpe.jobs._ledger import open_storage, quiet

    with quiet():
        database = open_storage(storage)
        ours, theirs = RunClaims(database, "compare/x"), RunClaims(database, "compare/x")
    theirs._owner["host"] = "elsewhere"
    assert ours.claim("run")
    assert not theirs.claim("run")
    ours.give_back()  # interrupted
    assert theirs.claim("run")
    assert not ours.claim("run")
    theirs.failed("run", "no memory")
    assert ours.claim("run")  # another machine may try
    ours.done("run")
    assert not theirs.claim("run")
    # One that is silent for long is taken over, and what it says later changes nothing.
    assert theirs.claim("other")
    database.set_trial_user_attr(theirs._mine["other"], "alive", 0.0)
    assert ours.claim("other")
    theirs.done("other")
    ours.done("other")
    assert not theirs.claim("other")


def test_two_that_claim_in_the_same_moment(storage):
    from icpe.compare._run_claims import RunClaims
    from icpe.jobs._ledger import open_storage, quiet

    with quiet():
        database = open_storage(storage)
        first, second = RunClaims(database, "compare/x"), RunClaims(database, "compare/x")
    second._owner["host"] = "elsewhere"
    look, late = second._living, []
    second._living = lambda: look() if late else late.append(first.claim("run")) or []
    assert not second.claim("run")
    assert late == [True]
    assert first._mine
    assert not second._mine


def test_optuna_is_needed_for_sharing_only(make, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "optuna"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("compare._run_claims", "jobs._claims", "jobs._ledger"):
        monkeypatch.delitem(sys.modules, f"icpe.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert run_grid([make("Normal")], [0], tmp_path / "cmp").results.height == 1
    with pytest.raises(ConfigError, match=r"--storage needs Optuna.*pip install 'icpe\[tune\]'"):
        run_grid([make("Normal")], [0], tmp_path / "cmp", storage="sqlite://")


# Processes


def test_processes_give_the_same_and_a_killed_one_costs_its_run_only(make, tmp_path, monkeypatch):
    """The first run is alone, for it shows how much memory one needs; the second process is killed at its run."""
    cells = [make("Floor", "popularity"), make("Killed", "random")]
    alone = run_grid(cells, [0], tmp_path / "alone")
    from icpe.jobs.workers import Processes

    submit = Processes.submit

    def killing(self, key, *arguments):
        submit(self, key, *arguments)
        if arguments[1].name == "killed-mf-0":
            next(one for place, one, _ in self._busy.values() if place == key).kill()

    events = []
    with monkeypatch.context() as patch:
        patch.setattr(Processes, "submit", killing)
        grid = run_grid(cells, [0], tmp_path / "together", workers=2, on_event=events.append)
    assert [one.reason for one in events if one.kind == "waiting"][:1] == [
        "the first run shows how much memory one needs"
    ]
    assert [one.label for one in grid.failures] == ["Killed"]
    assert "its process ended with code -9, perhaps for want of memory" in grid.failures[0].reason
    grid = run_grid(cells, [0], tmp_path / "together", workers=1)
    assert grid.results.drop("seconds").equals(alone.results.drop("seconds"))
    assert grid.per_user().equals(alone.per_user())


# Files with cells

STUDY = """
seeds = [4, 5]
[data]
source = "lastfm"
[backbone]
name = "mf"
dim = 8
[method]
name = "icpe"
alpha = 0.5
[cells.ICPE]
serving.beta = [0.0, 1.0]
[cells."w/o CR"]
method.weights_on = "none"
tuned = false
[cells.Normal]
label = "plain"
method.name = "normal"
[cells.other]
backbone.name = "neumf"
"""


def test_cells_of_a_file(write):
    cells, seeds = read_cells(write("study.toml", STUDY))
    assert seeds == [4, 5]
    assert [(one.label, one.tuned, one.serving) for one in cells] == [
        ("ICPE", True, {"beta": [0.0, 1.0]}),
        ("w/o CR", False, {}),
        ("plain", True, {}),
        ("other", True, {}),
    ]
    assert cells[1].config.method == {"name": "icpe", "alpha": 0.5, "weights_on": "none"}
    assert cells[2].config.method == {"name": "normal"}  # other methods have other settings
    assert cells[3].config.backbone == {"name": "neumf"}


@pytest.mark.parametrize(
    "name", [path.name for path in (Path(__file__).parents[2] / "docs" / "results").glob("*.toml")]
)
def test_the_studies_of_the_docs_can_be_read(name):
    cells, _ = read_cells(Path(__file__).parents[2] / "docs" / "results" / name)
    assert len(cells) > 3
    for cell in cells:
        config = replace(cell.config, method=dict(cell.config.method))
        assert config.train_settings(config.make_method())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data", "cannot be read as TOML"),
        ("[data]\nsource = 'x'", "has no cells; expected tables such as"),
        ("[cells.A]\n[trane]\nlr = 1", r"has no section \[trane\]; did you mean \[train\]"),
        ("[cells.A]\nmetod.name = 'x'", r"cell 'A' has no section \[metod\]; did you mean \[method\]"),
        ("[cells]\nA = 3", "cell 'A' should be a table"),
        ("[cells.A]\nserving.beta = 1", r"serving of cell 'A' should be lists"),
        ("seeds = 'x'\n[cells.A]", "seeds is 'x'; expected whole numbers"),
    ],
)
def test_files_that_are_wrong(write, text, message):
    with pytest.raises(ConfigError, match=message):
        read_cells(write("study.toml", text))


def test_a_folder_without_a_grid(tmp_path):
    with pytest.raises(DataError, match="holds no comparison"):
        open_grid(tmp_path)


def test_names_of_folders():
    cells = [
        Cell("ICPE w/o CR", RunConfig()),
        Cell("β = 0.1", RunConfig(backbone={"name": "neumf"})),
        Cell("!", RunConfig()),
    ]
    names = [run_folder(Path(), cell, 2).name for cell in cells]
    assert names == ["icpe-w-o-cr-mf-2", "β-0.1-neumf-2", "cell-mf-2"]
