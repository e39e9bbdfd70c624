"""Runs, a comparison and their pages, made once for all tests of this folder."""

from dataclasses import replace

import polars as pl
import pytest

from icpe import load
from icpe.audit import audit
from icpe.cli import run
from icpe.compare.grid import Cell, Failure, run_grid
from icpe.report.pages.audit import audit_report
from icpe.report.pages.comparison import comparison_report
from icpe.report.pages.runs import runs_report
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log

HOSTILE = "<script>alert('$1')</script> & \"quoted\""
QUICK = ["--train.epochs", "3", "--train.evaluate_every", "5", "--backbone.dim", "8"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The runs ``normal`` and ``icpe $x$ <b>`` of a log whose items have hostile names."""
    folder = tmp_path_factory.mktemp("runs")
    log = skewed_log()
    log.write(folder / "log.csv")
    names = pl.DataFrame({"item_id": log.items, "name": [f"{HOSTILE} {item}" for item in log.items]})
    names.write_csv(folder / "items.csv")
    train = ["train", str(folder / "log.csv"), "--items", str(folder / "items.csv"), *QUICK]
    assert run([*train, "-o", str(folder / "normal")]) == 0
    assert run([*train, "--method", "icpe", "-o", str(folder / "icpe $x$ <b>")]) == 0
    return folder


@pytest.fixture(scope="session")
def paths(folder):
    return [folder / "normal", folder / "icpe $x$ <b>"]


@pytest.fixture(scope="session")
def page(folder, paths):
    return runs_report(paths, folder / "report.html")


@pytest.fixture(scope="session")
def grid(folder):
    """Normal, ICPE with an odd label and the baseline Popularity, two seeds each, and a run that failed."""
    data = {"source": str(folder / "log.csv"), "item_info": str(folder / "items.csv")}
    rest = {"backbone": {"name": "mf", "dim": 8}, "train": {"epochs": 2, "evaluate_every": 5}, "data": data}
    cells = [
        Cell("Normal", RunConfig(method={"name": "normal"}, **rest)),
        Cell("ICPE <i>", RunConfig(method={"name": "icpe"}, **rest)),
        Cell("Popularity", RunConfig(method={"name": "popularity"}, **rest)),
    ]
    made = run_grid(cells, [0, 1], folder / "cmp")
    return replace(made, failures=[Failure("DICE", "mf", 1, "loss is nan & <b>")])


@pytest.fixture(scope="session")
def comparison(folder, grid):
    return comparison_report(grid, folder / "comparison.html")


@pytest.fixture(scope="session")
def audited(folder, paths):
    """The page of an audit of the lists of both runs, one set with items the log does not have."""
    sets = {path.name: load(path).recommend(n=10).drop("score") for path in paths}
    odd = pl.DataFrame({"user_id": [1, 2], "item_id": [10**6, 10**6], "rank": [11, 11]})
    sets["icpe $x$ <b>"] = pl.concat([sets["icpe $x$ <b>"].cast({"rank": pl.Int64}), odd])
    found = audit(folder / "log.csv", sets, item_info=folder / "items.csv")
    return audit_report(found, folder / "audit.html", command="icpe audit --log <log>")
