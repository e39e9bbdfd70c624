"""Comparisons: no run is trained twice, none is lost, and none is stopped by another that fails."""

import json
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import psutil
import pytest

from icpe.compare.grid import Cell, Failure, open_grid, run_folder, run_grid
from icpe.compare.study_file import read_cells
from icpe.errors import ConfigError, DataError
from icpe.files import lock_folder
from icpe.methods import METHODS, Normal
from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.runs.saved import evaluate_run
from icpe.testing import skewed_log

TABLES = {f"{name}.{kind}" for name in ("table", "fronts") for kind in ("txt", "md", "tex", "csv")}
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
    """Return a function that makes a cell on small data."""

    def make_cell(label: str, method: str = "normal", tuned: bool = True, ranking=None, train=(), **settings) -> Cell:
        config = RunConfig(
            data={"source": str(log_file)},
            backbone={"name": "mf", "dim": 4},
            method={"name": method, **settings},
            train={"epochs": 2, "batch_size": 256, **dict(train)},
        )
        return Cell(label, config, tuned, ranking or {})

    return make_cell


@pytest.fixture
def trained(monkeypatch) -> list[Path]:
    """Return a list that collects the folders of the runs that are trained."""
    calls: list[Path] = []
    train = Run.train

    def noted(self, resume=False, force=False):
        calls.append(self.folder)
        return train(self, resume, force)

    monkeypatch.setattr(Run, "train", noted)
    return calls


class Fragile(Normal):
    """A method whose loss is not a number."""

    name = "fragile"

    def loss(self, batch, rng=None):
        return super().loss(batch, rng) * float("nan")


def test_a_grid_and_its_folder(make, tmp_path, trained):
    cells = [
        make("Normal", tuned=False),
        make("ICPE", "icpe", ranking={"beta": [0.0, 0.5]}),
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
    assert names == FILES | {"dials.parquet", "fronts.parquet", *TABLES}

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

    # A second call trains nothing and returns the same, and so does the folder alone.
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
    METHODS.add(Fragile)
    cells = [make("Fragile", "fragile"), make("Normal")]
    grid = run_grid(cells, [0, 1], tmp_path)
    assert grid.results["label"].to_list() == ["Normal", "Normal"]
    assert [(one.label, one.backbone, one.seed) for one in grid.failures] == [
        ("Fragile", "mf", 0),
        ("Fragile", "mf", 1),
    ]
    assert grid.failures[0].reason.startswith("the loss is nan at step 1")
    assert [Failure(**one) for one in json.loads((tmp_path / "failures.json").read_text())] == grid.failures
    table = (tmp_path / "table.txt").read_text()
    assert "Fragile on mf" in table
    assert "loss is nan" in table.replace("\n", " ")
    assert open_grid(tmp_path).failures == grid.failures

    monkeypatch.setattr(Fragile, "loss", Normal.loss)
    trained.clear()
    grid = run_grid(cells, [0, 1], tmp_path)
    assert len(trained) == 2
    assert grid.failures == json.loads((tmp_path / "failures.json").read_text()) == []
    assert grid.results.height == 4


class Interrupting(Normal):
    """A method that sends Ctrl-C to its own process in one of its steps."""

    name = "interrupting"
    calls = 0
    interrupt_at = 0

    def loss(self, batch, rng=None):
        type(self).calls += 1
        if self.calls == self.interrupt_at:
            signal.raise_signal(signal.SIGINT)
        return super().loss(batch, rng)


def test_an_interrupted_run_continues_from_its_checkpoint(make, tmp_path, monkeypatch):
    """After Ctrl-C between two steps, everything ends bit for bit as without the interruption."""
    METHODS.add(Interrupting)
    cells = [make("X", "interrupting", train={"epochs": 6}), make("MACR", "macr")]
    whole = run_grid(cells, [0], tmp_path / "whole")
    steps = Interrupting.calls
    assert steps > 9

    monkeypatch.setattr(Interrupting, "calls", 0)
    monkeypatch.setattr(Interrupting, "interrupt_at", 9)
    with pytest.raises(KeyboardInterrupt):
        run_grid(cells, [0], tmp_path / "pieces")
    assert (tmp_path / "pieces" / "table.txt").exists()
    assert Interrupting.calls == 9
    pieces = run_grid(cells, [0], tmp_path / "pieces")
    assert Interrupting.calls == steps  # no step was done twice
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
        ({"train": {"lr": 0.5}}, r"holds a run with train.lr = 0.001, .* 0.5; .*-o"),
        ({"reg": 0.25}, r"holds a run with method.reg = 1e-05, .* 0.25"),
        ({"method": "macr"}, r"holds a run with method.name = 'normal', .* 'macr'"),
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
    with pytest.raises(DataError, match="the data have changed since .*x-mf-0"):
        run_grid(cells, [0], tmp_path / "cmp")


def test_a_folder_somebody_works_in_is_refused(make, tmp_path):
    pytest.importorskip("fcntl")
    with lock_folder(tmp_path), pytest.raises(ConfigError, match="another process is working in .* -o"):
        run_grid([make("X")], [0], tmp_path)


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([], {}, "nothing to compare"),
        (["A", "A"], {}, "'A' on mf appears twice"),
        (["w/o CR", "W-o CR"], {}, "appears twice"),
        (["A"], {"seeds": []}, "seeds are"),
        (["A"], {"seeds": [1, 1]}, "seeds are"),
        (["A"], {"workers": 0}, "workers is 0"),
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
        (Cell("A", RunConfig(data={"train": "x.csv", "valid": "y.csv"})), "add --test FILE"),
        (Cell("A", RunConfig()), "no data: name a file"),
    ]:
        with pytest.raises(ConfigError, match=message):
            run_grid([make("B"), cell] if "data" not in message else [cell], [0], tmp_path / "cmp")
    assert not (tmp_path / "cmp" / "runs").exists()


# Processes


def kill_one_worker(folder: Path) -> None:
    """Wait until a run is being trained, then kill the worker that was started first."""
    deadline = time.monotonic() + 120
    while not list(folder.glob("runs/*/checkpoint/state.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = psutil.Process().children()
    workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    min(workers, key=lambda child: child.create_time()).kill()


def test_a_killed_worker_costs_its_run_only_and_workers_do_not_change_results(make, tmp_path):
    long = {"epochs": 40, "evaluate_every": 2, "patience": 99}
    cells = [make("Normal", train=long), make("MACR", "macr", train=long), make("Floor", "popularity")]
    alone = run_grid(cells, [0], tmp_path / "alone")
    killer = threading.Thread(target=kill_one_worker, args=(tmp_path / "together",))
    killer.start()
    grid = run_grid(cells, [0], tmp_path / "together", workers=2)
    killer.join()
    assert len(grid.failures) == 1
    assert grid.results.height == 2
    assert "process ended" in grid.failures[0].reason
    assert grid.failures[0].label in (tmp_path / "together" / "table.txt").read_text()
    grid = run_grid(cells, [0], tmp_path / "together", workers=2)
    assert grid.failures == []
    assert grid.results.drop("seconds").equals(alone.results.drop("seconds"))
    assert grid.per_user().equals(alone.per_user())
    assert (tmp_path / "together" / "table.csv").read_text() == (tmp_path / "alone" / "table.csv").read_text()


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
ranking.beta = [0.0, 1.0]
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
    assert [(one.label, one.tuned, one.ranking) for one in cells] == [
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
        ("[cells]\nA = 3", "cell 'A' must be a table"),
        ("[cells.A]\nranking.beta = 1", r"ranking of cell 'A' must hold lists"),
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
