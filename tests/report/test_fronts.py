"""Fronts on pages: the curves and points are what was measured, and runs without a front are not drawn."""

import json
import re
import shutil

import numpy as np
import polars as pl
import pytest

from icpe.data.popularity import head_mask
from icpe.files import write_together
from icpe.recommender.front import MEASURES
from icpe.report.dial_lists import further_settings, representative_users
from icpe.report.figures.fronts import curve_of, front_curves, mean_curves
from icpe.report.figures.style import method_styles, position_style
from icpe.report.pages.comparison import comparison_report
from icpe.report.pages.runs import runs_report
from icpe.runs.record import read_runs

HEADING = "<h2>What debiasing costs</h2>"


def drawn(figure):
    """The curves of a figure and its large points, each as an array [points, 2]."""
    lines = [line.get_xydata() for line in figure.axes[0].lines]
    return lines[::2], lines[1::2]


@pytest.mark.parametrize(
    ("view", "across", "up"), [("places", "apt", "ndcg"), ("balanced", "coverage", "balanced_ndcg")]
)
def test_curves_and_points_are_what_was_measured(paths, view, across, up):
    runs = read_runs(paths)
    styles = method_styles(["normal", "icpe"])
    made = [curve_of(run.label, style, run.front, run.model.beta) for run, style in zip(runs, styles, strict=True)]
    figure = front_curves(made, view)
    curves, points = drawn(figure)
    for path, curve, point in zip(paths, curves, points, strict=True):
        stored = pl.read_parquet(path / "front_test.parquet")
        np.testing.assert_allclose(curve, stored.select(100 * pl.col(across), up).to_numpy())
        test = json.loads((path / "result.json").read_text())["test"]
        np.testing.assert_allclose(point, [[100 * test[f"{across}@20"], test[f"{up}@20"]]])
    assert {text.get_text() for text in figure.axes[0].texts} == {"Normal", "ICPE"}


def test_the_page_begins_with_the_fronts_and_says_what_they_cost(page, paths):
    text = page.read_text()
    assert re.findall("<h2>(.*?)</h2>", text)[:2] == ["What debiasing costs", "Head and niche"]
    for label, path in zip(("Normal", "ICPE"), paths, strict=True):
        result = json.loads((path / "result.json").read_text())
        ndcg = f"{result['test']['ndcg@20']:.4f}".removeprefix("0")
        start = f"<b>{label}.</b> The dial is at beta {result['beta']:g}: NDCG {ndcg} on the test part"
        assert start in text


def test_runs_without_a_front_are_not_drawn(paths, tmp_path):
    old = shutil.copytree(paths[0], tmp_path / "old")
    write_together(old, {}, remove=["front_test.parquet"])
    assert HEADING not in runs_report([old], tmp_path / "old.html").read_text()
    both = runs_report([old, paths[1]], tmp_path / "both.html").read_text()
    assert HEADING in both
    assert "<b>ICPE.</b> The dial" in both
    assert "<b>Normal.</b> The dial" not in both


def test_mean_curves_end_where_a_seed_ends():
    """Two seeds with straight curves, so that the mean is known."""
    rows = [
        ("A", "mf", "normal", seed, 1.0, beta, *(height - share,) * 4, share, share, 20, 500.0)
        for seed, height, shares in ((0, 1.0, (0.4, 0.1)), (1, 2.0, (0.8, 0.2)))
        for beta, share in zip((0.0, 1.0), shares, strict=True)
    ]
    rows.append(("Floor", "mf", "popularity", 0, 0.0, 0.0, *(0.1,) * 6, 20, 500.0))
    rows.append(("B", "neumf", "icpe", 0, 0.0, 0.0, *(0.1,) * 6, 20, 500.0))
    names = ["label", "backbone", "method", "seed", "chosen", "beta", *MEASURES, "n", "balanced_pairs"]
    (curve,) = mean_curves(pl.DataFrame(rows, names, orient="row"), "mf")
    assert curve.label == "A"
    assert curve.values["apt"][[0, -1]] == pytest.approx([0.2, 0.4])
    np.testing.assert_allclose(curve.values["ndcg"], 1.5 - curve.values["apt"])
    assert curve.chosen["apt"] == pytest.approx(0.15)
    assert curve.chosen["ndcg"] == pytest.approx((0.9 + 1.8) / 2)


def test_the_comparison_begins_with_the_fronts_of_its_methods(comparison, grid):
    text = comparison.read_text()
    assert re.findall("<h2>(.*?)</h2>", text)[:2] == ["What debiasing costs", "All methods"]
    curves = mean_curves(grid.fronts(), "mf")
    assert [curve.label for curve in curves] == ["Normal", "ICPE <i>"]
    for curve in curves:
        mean = grid.results.filter(label=curve.label).select("apt@20", "ndcg@20", "coverage@20").mean().row(0)
        assert [curve.chosen[name] for name in ("apt", "ndcg", "coverage")] == pytest.approx(mean)


def test_a_comparison_without_fronts_has_no_section(grid, tmp_path, monkeypatch):
    empty = grid.fronts().clear()
    monkeypatch.setattr(type(grid), "fronts", lambda self: empty)
    assert HEADING not in comparison_report(grid, tmp_path / "page.html").read_text()


def test_further_settings_differ_from_the_chosen_one(paths):
    model = read_runs(paths)[1].model
    front = model.front()
    for beta in front["beta"][[0, -1]]:
        found = further_settings(model.adjusted(beta=float(beta)))
        assert found
        shares = [front.at(turned.beta)["apt"] for _, turned in found]
        assert shares == sorted(shares)
        both = sorted([*shares, front.at(beta)["apt"]])
        assert min(np.diff(both)) >= 0.05
        for (name, _), share in zip(found, shares, strict=True):
            assert name in ("highest NDCG", f"{100 * share:.0f} % niche")


def test_cards_show_the_lists_of_the_turned_dial(page, paths):
    model = read_runs(paths)[1].model
    found = further_settings(model)
    users = re.findall("<h3>User ([^<]*)<", page.read_text())
    assert users == [
        str(user) for user in representative_users([read_runs(paths)[0].model, model, *(m for _, m in found)], 10)
    ]
    head = set(model.log.items.filter(pl.Series(head_mask(model.log.item_counts))))
    cards = page.read_text().split("<h3>User ")[1:]
    for card, user in zip(cards, users, strict=True):
        for name, turned in found:
            niche = sum(item not in head for item in turned.recommend([int(user)], 10)["item_id"])
            assert f'<h3>ICPE, {name} <span class="small">{niche} of 10 niche</span>' in card


def test_one_point_is_a_curve_too():
    values = {name: np.array([0.1]) for name in MEASURES}
    from icpe.report.figures.fronts import Curve

    curves, points = drawn(front_curves([Curve("A", position_style(0), values, dict.fromkeys(MEASURES, 0.1), 20)]))
    assert (len(curves[0]), points[0].tolist()) == (1, [[10.0, 0.1]])
