"""The page about runs: what it says, of whom, and what it refuses."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl

from icpe.audit import audit
from icpe.cli import run
from icpe.report.figures.icpe import cosines, gradient_norms, weights
from icpe.report.figures.svg import inline_svg
from icpe.report.pages.audit import audit_report
from icpe.report.pages.runs import runs_report, write_runs_page
from icpe.report.results import group_columns, run_columns
from icpe.report.sentences import best_step_notes, headline
from icpe.runs.record import read_runs

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
    assert runs_report(paths, tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_the_headline_says_who_wins_where(paths):
    runs = read_runs(paths)
    values = [run.values for run in runs]
    made = [
        {**values[0], "apt@20": 0.09, "coverage@20": 0.5, "recall@20": 0.1, "recall_head@20": 0.2, "recall_niche@20": 0.01},
        {**values[0], "apt@20": 0.41, "coverage@20": 0.5, "recall@20": 0.1, "recall_head@20": 0.15, "recall_niche@20": 0.03},
    ]  # fmt: skip
    runs = [replace(run, result={**run.result, "test": one}) for run, one in zip(runs, made, strict=True)]
    columns = run_columns(20, made)
    ((shown, fits),) = headline(runs, columns)
    shown = shown.replace("\N{NO-BREAK SPACE}", " ")
    assert re.findall(r"[\d.]+ %", shown) == ["41 %", "9.0 %", "50 %", "50 %"]
    for words in ("0.1000 against 0.1000 overall", "0.1500 against 0.2000 for head", "0.0300 against 0.0100 for niche"):
        assert words in fits
    assert fits.endswith("Normal is better than ICPE in: Recall@20 head.")
    ((shown, fits),) = headline(runs[1:], run_columns(20, made[1:]))
    assert shown.startswith("ICPE")
    assert re.findall(r"[\d.]+ %", shown.replace("\N{NO-BREAK SPACE}", " "))[:2] == ["41 %", "80 %"]
    assert "0.1500 for head items" in fits
    assert "against" not in fits


def test_first_and_last_validations_are_pointed_out(paths):
    record = read_runs(paths)[0]
    steps = [one["step"] for one in record.curve if "valid" in one]
    assert len(steps) > 2
    found = [best_step_notes([replace(record, result={**record.result, "best_step": step})]) for step in steps[:3]]
    assert "--train.evaluate_every" in found[0][0]
    assert found[1] == []
    assert "--train.epochs" in best_step_notes([replace(record, result={**record.result, "best_step": steps[-1]})])[0]


def test_many_runs_further_columns_and_few_users(folder, paths, tmp_path):
    train = ["train", str(folder / "log.csv"), "--backbone", "neumf", "--train.epochs", "1"]
    assert run([*train, "-o", str(tmp_path / "neumf")]) == 0
    copy = shutil.copytree(paths[1], tmp_path / "copy")
    runs = read_runs([tmp_path / "neumf", *paths, copy])
    runs[0] = replace(runs[0], max_scores=120 * len(runs[0].model.log.items))
    further = group_columns("True <b>", "recall", 20, [{"recall@20": 0.98765}] * 4)
    path = write_runs_page(runs, tmp_path / "many.html", further=further, notes=["A <note>."])
    text = path.read_text()
    assert "<h1>3 runs against Normal (neumf)</h1>" in text
    assert "lists of 120 to 300 users" in text
    assert "True&nbsp;&lt;b&gt;" in text or "True &lt;b&gt;" in text
    assert "A &lt;note&gt;." in text
    assert text.count("0.9877") == 4  # one for each run


def test_a_changing_number_of_clusters_is_drawn():
    noted = [{"step": step, "weight": [1.0] * count} for step, count in ((1, 4), (2, 2), (3, 7))]
    assert "cluster 7" in inline_svg(lambda: weights(noted), "weights")
    text = inline_svg(lambda: cosines({"cosine": np.eye(3).tolist()}), "cosines")
    assert text.count(">1.00<") == 3
    assert "currentColor" in text
    assert ">0.00<" not in inline_svg(lambda: cosines({"cosine": np.eye(12).tolist()}), "cosines")


def test_a_run_without_validation_and_test(folder, tmp_path):
    assert run(["train", "--train", str(folder / "log.csv"), *QUICK, "-o", str(tmp_path / "run")]) == 0
    text = runs_report([tmp_path / "run"], tmp_path / "report.html").read_text()
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
        ([normal, str(paths[1])], "-o report.html"),
        ([normal, "other", "-o", "both.html"], "different data or splits"),
        ([normal, "-o", "report.pdf"], "should end in .html"),
        (["empty"], "empty contains no finished run"),
        ([normal, "--user", "99999", "-o", "one.html"], "user 99999 is not in the training data"),
        ([normal, "--user", "ann", "-o", "one.html"], "ids are integers"),
    ):
        capfd.readouterr()
        assert run(["report", *arguments]) == 2
        out, err = capfd.readouterr()
        assert message in err
        assert (out, len(err.splitlines())) == ("", 1)
    assert sorted(Path().rglob("*")) == before


def test_templates_are_part_of_the_package():
    for package, names in (
        ("icpe.report", ("base.html", "macros.html", "style.css", "runs.html", "comparison.html", "audit.html")),
        ("icpe.tables", ("table.html",)),
        ("icpe.paper", ("studies.html",)),
    ):
        for name in names:
            assert files(package).joinpath("templates", name).is_file()


def test_hostile_names_of_sets_columns_and_users(tmp_path):
    """Nothing that a user can name becomes markup, in any part of an audit's page."""
    hostile = "<script>alert(1)</script>"
    log = pl.DataFrame({"user_id": [hostile, hostile, "b"], "item_id": [hostile, "x", hostile]})
    lists = pl.DataFrame({"user_id": [hostile, "b"], "item_id": ["x", "new <b>"]})
    found = audit(log, {hostile: lists, "<i>": lists}, lists)
    text = audit_report(found, tmp_path / "page.html", command=hostile).read_text()
    assert "<script" not in text
    assert "<i>" not in text
    assert "new <b>" not in text
    assert text.count("&lt;script&gt;") > 8


def test_an_audit_without_common_users(tmp_path):
    log = pl.DataFrame({"user_id": [1, 2], "item_id": [10, 11]})
    sets = {name: pl.DataFrame({"user_id": [user], "item_id": [10]}) for name, user in (("a", 1), ("b", 2))}
    text = audit_report(audit(log, sets), tmp_path / "page.html").read_text()
    assert "No user of the log has a list in every set" in text
    assert "accuracy of the lists is unknown" in text
    assert "<pre>" not in text  # no command was given


def test_no_label_of_an_axis_is_cut_off():
    for top in np.linspace(10, 16, 25):
        text = inline_svg(lambda top=top: gradient_norms({"gradient_norm": [top, 3.0, 1.4, 0.96]}), "norms")
        left = re.search(r'x="(-?[\d.]+)" y="[\d.]+" transform="rotate\(-90[^>]*>gradient norm', text)
        assert float(left[1]) > 8  # the label is 11 px high, and this is the line that its letters stand on
