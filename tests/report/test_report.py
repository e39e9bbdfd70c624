"""The page about runs: what it says, of whom, and what it refuses."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from icpe.cli import run
from icpe.report.icpe_figures import cosines, weights
from icpe.report.page import compare_report, run_report
from icpe.report.record import read_runs
from icpe.report.svg import inline_svg
from icpe.report.table import blocks_of
from icpe.report.words import headline

QUICK = ["--train.epochs", "3", "--train.evaluate_every", "5", "--backbone.dim", "8"]


class Cells(HTMLParser):
    """Rows of the first table as (text, bold)."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.bold, self.cell = [], False, None
        self.feed(text[text.index("<table") : text.index("</table")])

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell, self.bold = "", False
        elif tag == "b":
            self.bold = True

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append((self.cell, self.bold))
            self.cell = None


def test_the_table_holds_the_results_and_marks_the_best(page, paths):
    names = [f"{metric}{group}@20" for metric in ("recall", "ndcg") for group in ("", "_head", "_niche")]
    names += ["coverage@20", "apt@20"]
    values = [json.loads((path / "result.json").read_text())["test"] for path in paths]
    rows = Cells(page.read_text()).rows[2:]
    assert [row[0][0] for row in rows] == ["Normal", "ICPE"]
    for place, name in enumerate(names, 1):
        both = [round(one[name], 4) for one in values]
        assert [row[place] for row in rows] == [(f"{value:.4f}", value == max(both)) for value in both], name


def test_folders_with_odd_names_are_escaped(page):
    assert "icpe $x$ &lt;b&gt;/config.toml" in page.read_text()


def test_the_same_runs_give_the_same_bytes(page, paths, tmp_path):
    assert compare_report(paths, tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_the_headline_says_who_wins_where(paths):
    runs = read_runs(paths)
    values = [run.values for run in runs]
    made = [
        {**values[0], "apt@20": 0.09, "coverage@20": 0.5, "recall@20": 0.1, "recall_head@20": 0.2, "recall_niche@20": 0.01},
        {**values[0], "apt@20": 0.41, "coverage@20": 0.5, "recall@20": 0.1, "recall_head@20": 0.15, "recall_niche@20": 0.03},
    ]  # fmt: skip
    runs = [replace(run, result={**run.result, "test": one}) for run, one in zip(runs, made, strict=True)]
    ((shown, fits),) = headline(runs, blocks_of(runs))
    said = f"{shown} {fits}"
    assert said.replace("\N{NO-BREAK SPACE}", " ") == (
        "ICPE puts 41 % of the list places on niche items where Normal puts 9.0 %, and shows 50 % of all items where "
        "Normal shows 50 %. Recall@20 is 0.1000 against 0.1000 overall, 0.1500 against 0.2000 for head items, 0.0300 "
        "against 0.0100 for niche items. Normal is ahead of ICPE in: Recall@20 head."
    )
    ((shown, fits),) = headline(runs[1:], blocks_of(runs[1:]))
    said = f"{shown} {fits}".replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("ICPE puts 41 % of the list places on niche items, which are 80 % of the catalogue and take")
    assert said.endswith(
        "It shows 50 % of all items. Recall@20 is 0.1000 overall, 0.1500 for head items, 0.0300 for niche items."
    )


def test_places_are_counted_as_lists_are_given(paths):
    record = read_runs(paths)[1]
    lists = record.model.recommend(n=20)
    counted = dict(lists["item_id"].value_counts().iter_rows())
    assert {
        item: int(times) for item, times in zip(record.model.log.items, record.shown, strict=True) if times
    } == counted


def test_labels_tell_runs_apart(paths, tmp_path):
    assert [run.label for run in read_runs(paths)] == ["Normal", "ICPE"]
    assert [run.label for run in read_runs(paths[1:])] == ["ICPE"]
    copy = shutil.copytree(paths[1], tmp_path / "copy")
    assert [run.label for run in read_runs([paths[1], copy])] == ["ICPE (icpe $x$ <b>)", "ICPE (copy)"]
    assert [run.label for run in read_runs([copy, copy])] == ["ICPE 1", "ICPE 2"]


def test_slow_scores_are_sampled_and_many_runs_fit(folder, paths, tmp_path, monkeypatch):
    train = ["train", str(folder / "log.csv"), "--backbone", "neumf", "--train.epochs", "1"]
    assert run([*train, "-o", str(tmp_path / "neumf")]) == 0
    monkeypatch.setattr("icpe.report.record._PAIRS", 120 * 150)
    long = shutil.copytree(paths[1], tmp_path / f"icpe{'-again' * 9}")
    path = compare_report([tmp_path / "neumf", *paths, long], tmp_path / "many.html")
    assert "<h1>3 runs against Normal (neumf)</h1>" in path.read_text()
    assert "ICPE (icpe-again-…-again-again)" in path.read_text()
    assert "lists of 150 to 300 users" in path.read_text()


def test_clusters_that_come_and_go_are_drawn():
    noted = [{"step": step, "weight": [1.0] * count} for step, count in ((1, 4), (2, 2), (3, 7))]
    assert "cluster 7" in inline_svg(lambda: weights(noted), "weights")
    text = inline_svg(lambda: cosines({"cosine": np.eye(3).tolist()}), "cosines")
    assert text.count(">1.00<") == 3
    assert "currentColor" in text
    assert ">0.00<" not in inline_svg(lambda: cosines({"cosine": np.eye(12).tolist()}), "cosines")


def test_a_run_without_validation_and_test(folder, tmp_path):
    assert run(["train", "--train", str(folder / "log.csv"), *QUICK, "-o", str(tmp_path / "run")]) == 0
    text = run_report(tmp_path / "run").read_text()
    assert "Nothing was measured" in text
    assert "Nothing was validated" in text


def test_the_verb(paths, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(paths[0], "normal")
    capfd.readouterr()
    assert run(["report", "normal", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"file": "normal/report.html", "runs": ["normal"]}
    assert "<h1>Normal on MF</h1>" in Path("normal/report.html").read_text()
    assert run(["report", "normal", str(paths[1]), "--user", "7", "-o", "both.html"]) == 0
    assert re.findall("<h3>User ([^<]*)<", Path("both.html").read_text()) == ["7"]


def test_wrong_questions(folder, paths, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["train", str(folder / "log.csv"), *QUICK, "--seed", "1", "-o", "other"]) == 0
    Path("empty").mkdir()
    before = sorted(Path().rglob("*"))
    normal = str(paths[0])
    for arguments, message in (
        ([normal, str(paths[1])], "name it with -o report.html"),
        ([normal, "other", "-o", "both.html"], "different data or splits"),
        ([normal, "-o", "report.pdf"], "should end in .html"),
        (["empty"], "empty holds no finished run"),
        ([normal, "--user", "99999", "-o", "one.html"], "user 99999 is not in the training data"),
        ([normal, "--user", "ann", "-o", "one.html"], "ids are integers"),
    ):
        capfd.readouterr()
        assert run(["report", *arguments]) == 2
        out, err = capfd.readouterr()
        assert message in err
        assert (out, len(err.splitlines())) == ("", 1)
    assert sorted(Path().rglob("*")) == before
