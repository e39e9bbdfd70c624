"""Tables on results made by hand: every number, mark and word can be checked with a pencil."""

import math
from pathlib import Path

import polars as pl
import pytest
from scipy import stats

from icpe.compare.differences import differences_of
from icpe.compare.grid import Cell, Failure, Grid
from icpe.compare.names import metric_name
from icpe.compare.tables import seed_statistics, table_of
from icpe.errors import ConfigError
from icpe.metrics.statistics import holm
from icpe.runs.config import RunConfig
from icpe.runs.folder import PER_USER

DATA = {"data": {"source": "lastfm"}, "split": {"mode": "ips"}}
VALUES = {  # recall@20 and gini@20 by seed; the first is better high, the second low
    "Normal": ([0.10, 0.12, 0.11], [0.90, 0.92, 0.91]),
    "MACR": ([0.20, 0.21, 0.22], [0.80, 0.80, 0.80]),
    "ICPE": ([0.30, 0.32, 0.31], [0.80, 0.81, 0.85]),
    "Random": ([0.50, 0.50, 0.50], [0.10, 0.10, 0.10]),
}


def cell(label: str, backbone: str = "mf", tuned: bool = True) -> Cell:
    return Cell(label, RunConfig(**DATA, backbone={"name": backbone}, method={"name": label.lower()}), tuned)


def row(label: str, seed: int, recall: float, gini: float, backbone: str = "mf") -> dict:
    keys = {"label": label, "backbone": backbone, "method": label.lower(), "seed": seed}
    measured = {"recall@20": recall, "gini@20": gini, "users": 1700 + seed, "users_skipped": 30}
    return {**keys, "steps": 10, "best_step": 5, "seconds": 1.0, **measured, "valid_ndcg@20": 0.1}


def results_frame(rows: list[dict]) -> pl.DataFrame:
    kinds = {"label": pl.String, "backbone": pl.String, "method": pl.String, "seed": pl.Int64}
    return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None) if rows else pl.DataFrame(schema=kinds)


def grid(values=VALUES, seeds=(0, 1, 2), failures=(), untuned=("Normal",), folder=Path("nowhere")) -> Grid:
    cells = [cell(label, tuned=label not in untuned) for label in values]
    rows = [
        row(label, seed, recall[seed], gini[seed])
        for label, (recall, gini) in values.items()
        for seed in range(len(recall))
    ]
    return Grid(cells, list(seeds), folder, results_frame(rows), list(failures))


METRICS = ["recall@20", "gini@20"]


def test_values_marks_and_caption():
    made = table_of(grid(failures=[Failure("Slow", "mf", 1, "the loss is nan.")]), METRICS)
    # ICPE less MACR in Recall: .10, .11, .09, mean .10, standard error .01/√3, t = 17.32, p = .0033, times 2 tests.
    p = 2 * stats.t.sf(0.1 / (0.01 / math.sqrt(3)), 2)
    assert [one.corrected < 0.05 for one in made.comparisons] == [True, False]
    assert made.comparisons[0].p == pytest.approx(p)
    assert made.comparisons[0].corrected == pytest.approx(2 * p)
    lines = [line.split() for line in made.as_text().splitlines()]
    assert lines[0] == ["backbone", "method", "Recall@20", "↑", "Gini@20", "↓"]
    assert lines[2:6] == [
        ["MF", "Normal", "†", "0.1100", "±", "0.0100", "0.9100", "±", "0.0100"],
        ["MF", "MACR", "0.2100", "±", "0.0100²", "0.8000", "±", "0.0000¹"],
        ["MF", "ICPE", "0.3100", "±", "0.0100¹*", "0.8200", "±", "0.0265²"],
        ["MF", "Random", "0.5000", "±", "0.0000", "0.1000", "±", "0.0000"],
    ]
    caption = " ".join(made.as_text().split("\n\n")[1].split())
    for said in (
        "lastfm, unbiased split (ips)",
        "1,700 to 1,702 test users",
        "30 without test items",
        "over 3 seeds",
        "paired t-test over seeds",
        "Holm's correction for 2 tests",
        "Slow on mf, seed 1 (the loss is nan)",
        "¹: best; ²: second",
    ):
        assert said in caption


def test_a_table_fits_the_terminal():
    made = table_of(grid(), METRICS)
    assert max(map(len, made.as_text(width=50).splitlines())) <= 50
    assert made.as_text(width=50).count("Normal †") == 2
    assert made.as_text().count("Normal †") == 1


def test_means_and_deviations_over_seeds():
    found = seed_statistics(grid().results, "mf", METRICS)
    assert found["label"].to_list() == ["Normal", "MACR", "ICPE"]  # Random learns nothing
    assert found["recall@20"].to_list() == pytest.approx([0.11, 0.21, 0.31])
    assert found["gini@20_std"].to_list() == pytest.approx([0.01, 0.0, 0.02645751])
    assert seed_statistics(grid().results.filter(seed=0), "mf", METRICS)["gini@20_std"].to_list() == [0.0, 0.0, 0.0]
    assert seed_statistics(grid().results, "neumf", METRICS).is_empty()


def test_markdown_and_latex():
    made = table_of(grid(), METRICS)
    lines = made.as_markdown().splitlines()
    assert lines[0] == "| backbone | method | Recall@20 ↑ | Gini@20 ↓ |"
    assert lines[4] == r"| MF | ICPE | **0.3100 ± 0.0100**\* | <u>0.8200 ± 0.0265</u> |"
    latex = made.as_latex()
    assert r"MF & ICPE & \textbf{0.3100 $\pm$ 0.0100}\textsuperscript{*} & \underline{0.8200 $\pm$ 0.0265} \\" in latex
    assert r"Backbone & Method & Recall@20 $\uparrow$ & Gini@20 $\downarrow$ \\" in latex
    assert latex.count("{") == latex.count("}")
    assert r"Normal \textsuperscript{\textdagger}" in latex


def test_names_that_mean_something_in_latex():
    made = table_of(grid({"A_b & 5 % β": VALUES["ICPE"]}), METRICS)
    assert r"A\_b \& 5 \% $\beta$" in made.as_latex()
    made = table_of(grid({r"S^g ~ a\b {λ} > 0": VALUES["ICPE"]}), METRICS)
    assert r"S\textasciicircum{}g \textasciitilde{} a\textbackslash{}b \{$\lambda$\} $>$ 0 &" in made.as_latex()


def test_frame_and_csv():
    made = table_of(grid(), METRICS)
    frame = made.frame()
    assert frame["label"].to_list() == list(VALUES)
    icpe = frame.row(2, named=True)
    assert (icpe["recall@20"], icpe["recall@20_std"]) == pytest.approx((0.31, 0.01))
    assert icpe["recall@20_p_holm"] == made.comparisons[0].corrected
    assert frame["recall@20_p"].null_count() == 3
    again = pl.read_csv(made.as_csv().encode())
    assert again["recall@20"].to_list() == frame["recall@20"].to_list()
    assert again["seeds"].to_list() == ["0 1 2"] * 4


def test_holm_goes_over_all_backbones_and_each_has_its_own_rival():
    first = grid({name: VALUES[name] for name in ("Normal", "ICPE")})
    cells = [*first.cells, cell("MACR", "neumf"), cell("ICPE", "neumf")]
    more = [row("MACR", seed, 0.3 + 0.01 * seed**2, 0.5, "neumf") for seed in range(3)]
    more += [row("ICPE", seed, 0.2 + 0.03 * seed, 0.5, "neumf") for seed in range(3)]
    made = table_of(Grid(cells, [0, 1, 2], Path(), results_frame([*first.results.to_dicts(), *more])), METRICS)
    assert [(one.backbone, one.rival) for one in made.comparisons] == [("mf", "Normal")] * 2 + [("neumf", "MACR")] * 2
    assert made.comparisons[3].p == 1.0  # the same on both
    found = [one.corrected for one in made.comparisons]
    assert found == pytest.approx(holm([one.p for one in made.comparisons]))
    assert "correction for 3 tests" in made.caption  # ICPE is above Normal by .2 on each seed, which is no test
    assert made.as_text().splitlines()[4] == ""  # between the backbones


def test_worse_is_marked_too_and_the_papers_test():
    values = {"ICPE": ([0.20, 0.21, 0.23], [0.5] * 3), "MACR": ([0.30, 0.32, 0.33], [0.5] * 3)}
    made = table_of(grid(values), ["recall@20"])
    assert (made.comparisons[0].mark, made.comparisons[0].better) == ("°", False)
    paper = table_of(grid(values), ["recall@20"], test="paper")
    expected = stats.ttest_1samp(values["ICPE"][0], sum(values["MACR"][0]) / 3).pvalue
    assert paper.comparisons[0].p == pytest.approx(expected)
    assert "one-sample t-test" in paper.caption


def test_one_seed_has_neither_deviation_nor_test():
    values = {name: (recall[:1], gini[:1]) for name, (recall, gini) in VALUES.items()}
    made = table_of(grid(values, seeds=[0]), METRICS)
    assert "0.3100" not in made.as_text()
    assert "0.3000¹ " in made.as_text()
    assert [one.p for one in made.comparisons] == [None, None]
    assert "One seed (0)" in made.caption
    assert "No test of ICPE" in made.caption


def test_runs_and_values_that_are_missing():
    values = {**VALUES, "MACR": ([0.20, 0.21], [math.nan, math.nan]), "Later": ([], [])}
    made = table_of(grid({**values, "MACR": ([0.20, 0.21], [None, None])}), METRICS)
    assert [one.label for one in made.rows] == list(VALUES)
    assert "fewer so far: MACR on mf 2" in made.caption
    assert made.as_text().splitlines()[3].split()[-1] == "–"
    assert made.comparisons[0].p == pytest.approx(stats.ttest_rel([0.30, 0.32], [0.20, 0.21]).pvalue)
    assert made.comparisons[1].rival == "Normal"
    empty = table_of(grid({"Later": ([], [])}))
    assert empty.rows == []
    assert "nothing was measured yet" in empty.as_text()


@pytest.mark.parametrize(
    ("untuned", "said", "marked"),
    [
        ((), None, 0),
        (("Normal",), "† Default settings", 1),
        (("Normal", "MACR", "ICPE"), "none tuned", 0),
    ],
)
def test_untuned_rows(untuned, said, marked):
    made = table_of(grid(untuned=untuned), METRICS)
    assert ("tuned" in made.caption) == (said is not None)
    assert said is None or said in made.caption
    assert sum(" †" in line for line in made.as_text().splitlines()[2:6]) == marked


def test_the_subject_is_a_label_or_a_method():
    assert table_of(grid(), METRICS, subject="macr").comparisons[0].subject == "MACR"
    assert table_of(grid(), METRICS, subject="nobody").comparisons == []
    assert table_of(grid(), METRICS, subject=None).comparisons == []


def test_wrong_metric_and_test():
    with pytest.raises(
        ConfigError, match="unknown metric 'recal@20'; did you mean 'recall@20'.* seconds, recall@20, gini@20"
    ):
        table_of(grid(), ["recal@20"])
    with pytest.raises(ConfigError, match="test is 'z'; expected one of seeds, paper"):
        table_of(grid(), METRICS, test="z")


def test_names_of_metrics():
    names = ["recall@20", "recall_head@5", "ndcg_niche@20", "hit_rate@1", "apt@20", "popularity@20", "mrr@20"]
    assert [metric_name(name) for name in names] == [
        "Recall@20 ↑",
        "Recall@5 head ↑",
        "NDCG@20 niche ↑",
        "Hit rate@1 ↑",
        "APT@20 ↑",
        "Popularity@20 ↓",
        "MRR@20 ↑",
    ]


USERS = {  # values of users a to d by seed; c is there on one seed only, d has no value
    ("ICPE", 0): {"a": 0.5, "b": 0.4, "c": 0.9, "d": None},
    ("ICPE", 1): {"a": 0.7, "b": 0.5, "d": None},
    ("Normal", 0): {"b": 0.1, "a": 0.3, "c": 0.2, "d": 0.5},
    ("Normal", 1): {"a": 0.1, "b": 0.4, "c": 0.1, "d": None},
}


def test_differences_by_hand(tmp_path):
    values = {"Normal": ([0.10, 0.20], [0.9, 0.8]), "ICPE": ([0.30, 0.45], [0.8, 0.7])}
    made = grid(values, seeds=[0, 1], folder=tmp_path)
    for one in made.cells:
        for seed in (0, 1):
            place = made.run_folder(one, seed) / PER_USER
            place.parent.mkdir(parents=True)
            users = USERS[one.label, seed]
            pl.DataFrame({"user_id": list(users), "recall@20": list(users.values())}).write_parquet(place)
    found = differences_of(made, METRICS).frame
    recall, gini = found.to_dicts()
    # a: .2 and .6, so .4; b: .3 and .1, so .2; c: .7 on the only seed both have; d: nothing.
    assert recall["users"] == 3
    assert recall["user_difference"] == pytest.approx(1.3 / 3)
    assert recall["p_users"] == pytest.approx(stats.ttest_1samp([0.4, 0.2, 0.7], 0).pvalue)
    assert (recall["low"], recall["high"]) == pytest.approx((0.2, 0.7), abs=0.07)
    assert recall["difference"] == pytest.approx(0.225)
    assert recall["p_seeds"] == pytest.approx(stats.ttest_rel([0.30, 0.45], [0.10, 0.20]).pvalue)
    assert (gini["users"], gini["p_users"], gini["low"]) == (None, None, None)
    assert gini["difference"] == pytest.approx(-0.1)
    assert recall["p_seeds_holm"] == recall["p_seeds"]  # the other has no spread, and is no test
    assert gini["p_seeds"] is None
    text = differences_of(made, METRICS).as_markdown()
    assert "| MF | ICPE less Normal | Gini@20 ↓ | -0.1000 | – | – | – |" in text
