"""The page of a comparison says what the grid found, where the subject loses too."""

import re
from dataclasses import replace

from icpe.compare.significance import Comparison, ResultRow
from icpe.compare.tables import ResultTable, table_of
from icpe.report.comparison_sentences import headline
from icpe.report.pages.comparison import comparison_report
from icpe.tables import as_html

METRICS = ["recall@20", "recall_head@20", "recall_niche@20", "coverage@20", "apt@20"]


def row(label, method, values):
    means = dict(zip(METRICS, values, strict=True))
    return ResultRow(label, "mf", method, True, [0, 1], means, dict.fromkeys(METRICS, 0.01))


NORMAL = row("Normal", "normal", [0.2, 0.4, 0.1, 0.3, 0.1])
ICPE = row("ICPE", "icpe", [0.2, 0.3, 0.2, 0.9, 0.5])


def compared(metric, rival, difference, p=0.01, corrected=0.01):
    return Comparison("mf", metric, "ICPE", rival, difference, p, corrected, difference > 0)


def test_the_headline_tells_gains_and_losses():
    tests = [
        compared("recall@20", "MACR", -0.05), compared("recall_niche@20", "MACR", 0.02),
        compared("coverage@20", "Normal", 0.00001, 0.9, 0.9), compared("apt@20", "MACR", -0.1, 0.2, 0.4),
    ]  # fmt: skip
    shown, fits = headline(ResultTable(METRICS, [NORMAL, ICPE], tests), ICPE, NORMAL)
    shares = re.findall(r"\d+", shown.replace("\N{NO-BREAK SPACE}", " "))
    assert shares == ["50", "10", "90", "30"]
    gains, _, losses = fits.partition(".")[0].partition("loses")
    assert [name for name in ("Recall@20 niche", "Coverage@20", "APT@20") if name in gains] == [
        "Recall@20 niche", "Coverage@20", "APT@20",
    ]  # fmt: skip
    assert "Recall@20 head" in losses
    ahead, _, behind = fits.partition(".")[2].partition("behind")
    assert "Recall@20 niche (MACR*)" in ahead
    assert "Coverage" not in ahead  # the difference is below the four decimals of the table
    assert "Recall@20 (MACR°), APT@20 (MACR)" in behind
    assert "2 of these differences are significant" in behind


def test_the_headline_without_tests_baseline_or_subject():
    untested = ResultTable(METRICS, [NORMAL, ICPE], [compared("recall@20", "Normal", -0.1, None, None)])
    assert "too few seeds" in headline(untested, ICPE, NORMAL)[1]
    assert "compared with 1 other row." in headline(untested, ICPE, None)[0]
    better = replace(ICPE, means={**ICPE.means, "recall@20": 0.3})
    assert headline(ResultTable(METRICS, [NORMAL, better]), None, None) == ("ICPE has the best Recall@20 on MF.", "")
    assert headline(ResultTable(METRICS, []), None, None) == ("Nothing was measured yet.", "")
    floor = row("Popularity", "popularity", [0.4, 0.4, 0.1, 0.3, 0.1])
    assert headline(ResultTable(METRICS, [NORMAL, floor]), None, None)[0] == (
        "Normal has the best Recall@20 on MF of all trained methods, but Popularity has more."
    )


def test_the_page_holds_the_table_the_failures_and_how_to_make_it_again(comparison, grid):
    text = comparison.read_text()
    table = table_of(grid)
    assert as_html(table.table()) in text
    for one in table.rows:
        assert f"{one.means['recall@20']:.4f}" in text
        assert f"± {one.stds['recall@20']:.4f}" in text
    best = max(one.means["recall@20"] for one in table.rows if one.method != "popularity")
    assert f"<b>{best:.4f}</b>" in text
    assert "ICPE &lt;i&gt; against Normal, Popularity on log.csv" in text
    assert "<h2>What failed</h2>" in text
    assert "loss is nan &amp; &lt;b&gt;" in text
    assert "seed 1" in text
    assert f"icpe compare --cells {grid.folder / 'grid.toml'}" in text
    assert "method.clusters 4" in text
    assert "they would stretch the axes: Popularity." in text
    assert re.findall("<h2>(.*?)</h2>", text)[-2:] == ["Lists of a few people", "How it was made"]


def test_the_same_grid_gives_the_same_bytes(comparison, grid, tmp_path):
    assert comparison_report(grid, tmp_path / "again.html").read_bytes() == comparison.read_bytes()


def test_other_subjects_and_nothing_at_all(grid, tmp_path):
    text = comparison_report(grid, tmp_path / "nobody.html", subject=None).read_text()
    assert "<h1>3 methods on log.csv</h1>" in text
    assert "has the best Recall@20 on MF" in text
    alone = replace(grid, results=grid.results.filter(label="Normal"), failures=[])
    text = comparison_report(alone, tmp_path / "alone.html").read_text()
    assert "<h1>1 method on log.csv</h1>" in text
    assert "What failed" not in text
    empty = comparison_report(replace(grid, results=grid.results.clear()), tmp_path / "empty.html").read_text()
    assert "nothing was measured yet" in empty
    assert "What failed" in empty
