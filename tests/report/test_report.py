"""The page about runs: what it says, that it is one safe file, and that a browser draws it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe.cli import run
from icpe.report.icpe_figures import cosines, weights
from icpe.report.page import compare_report, run_report
from icpe.report.record import read_runs
from icpe.report.svg import inline_svg
from icpe.report.table import blocks_of
from icpe.report.words import headline
from icpe.testing import skewed_log

NASTY = "<script>alert('$1')</script> & \"quoted\""
QUICK = ["--train.epochs", "3", "--train.evaluate_every", "5", "--backbone.dim", "8"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The runs ``normal`` and ``icpe $x$ <b>`` of a log whose items have dangerous names."""
    folder = tmp_path_factory.mktemp("runs")
    log = skewed_log()
    log.write(folder / "log.csv")
    names = pl.DataFrame({"item_id": log.items, "name": [f"{NASTY} {item}" for item in log.items]})
    names.write_csv(folder / "items.csv")
    train = ["train", str(folder / "log.csv"), "--items", str(folder / "items.csv"), *QUICK]
    assert run([*train, "-o", str(folder / "normal")]) == 0
    assert run([*train, "--method", "icpe", "-o", str(folder / "icpe $x$ <b>")]) == 0
    return folder


@pytest.fixture(scope="module")
def paths(folder):
    return [folder / "normal", folder / "icpe $x$ <b>"]


@pytest.fixture(scope="module")
def page(folder, paths):
    return compare_report(paths, folder / "report.html")


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


def test_one_file_without_anything_from_elsewhere(page):
    text = page.read_text()
    assert not re.findall(r"<(?:script|img|iframe|object|embed)\b|@import|javascript:", text, re.IGNORECASE)
    assert not re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", text)
    assert text.count("<svg ") == 10
    assert len(text) < 1_000_000
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    assert {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)} <= set(ids)


def test_what_comes_from_the_data_is_escaped(page):
    text = page.read_text()
    assert "&lt;script&gt;alert(&#x27;$1&#x27;)&lt;/script&gt; &amp; &quot;quoted&quot; " in text
    assert "alert('" not in text
    assert "icpe $x$ &lt;b&gt;/config.toml" in text


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


MEASURE = """<!doctype html><title>measuring</title><pre id="found"></pre>
<iframe src="report.html" style="width: 1280px; height: 900px"></iframe>
<iframe src="report.html" style="width: 390px; height: 900px"></iframe>
<script>
onload = () => {
  const pages = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument;
    const sizes = [...page.querySelectorAll("svg")].map((one) => one.getBoundingClientRect());
    const uses = [...page.querySelectorAll("svg use")].map((one) => one.getBBox());
    const text = page.querySelector("svg text");
    return {
      sizes: sizes.map((one) => [one.width, one.height]),
      drawn: uses.filter((one) => one.width > 0 || one.height > 0).length,
      uses: uses.length,
      font: parseFloat(getComputedStyle(text).fontSize) * sizes[0].width / page.querySelector("svg").viewBox.baseVal.width,
      overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      ink: getComputedStyle(page.body).color,
      label: getComputedStyle(text).fill,
    };
  });
  document.getElementById("found").textContent = JSON.stringify(pages);
};
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_draws_it(page, tmp_path, dark):
    shutil.copy(page, tmp_path / "report.html")
    (tmp_path / "measure.html").write_text(MEASURE)
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    flags += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--enable-logging=stderr"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "measure.html").as_uri()]
    done = subprocess.run([CHROMIUM, *flags], capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert found
    for frame in json.loads(found[1]):
        assert len(frame["sizes"]) == 10
        assert all(width > 250 and height > 150 for width, height in frame["sizes"])
        assert frame["uses"] == frame["drawn"] > 50
        assert frame["font"] > 9
        assert frame["overflow"] == 0
        light = sum(map(int, re.findall(r"\d+", frame["ink"])[:3])) > 3 * 128
        assert light == dark
        assert frame["label"] == frame["ink"]
