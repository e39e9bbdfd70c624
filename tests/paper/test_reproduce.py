"""Studies of the paper: verdicts follow from the numbers, and printed numbers are those of the paper."""

from dataclasses import replace

import polars as pl
import pytest

from icpe.data.datasets import item_tags
from icpe.paper import METHODS, STUDIES, Claim, Finding, Reproduction
from icpe.paper.printed_numbers import DATASETS, all_numbers, printed_table, printed_value
from icpe.paper.reproduction import PAPER
from icpe.paper.studies.ablation import ablation_claims
from icpe.paper.studies.case import cluster_claims
from icpe.paper.studies.sweeps import sweep_table
from icpe.paper.studies.tables import best_method_claim
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log


def table(**values: float) -> pl.DataFrame:
    """One backbone's rows with a single metric."""
    rows = [{"backbone": "mf", "label": label.replace("_", " "), "recall@20": value} for label, value in values.items()]
    return pl.DataFrame(rows)


# What the paper prints, looked up by eye in three places of each table.
@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("Table 1", "lastfm", "mf", "Normal", "recall@20"), 0.0353),
        (("Table 1", "gowalla", "neumf", "CausPref", "ndcg@20"), 0.1325),
        (("Table 1", "yelp2018", "lightgcn", "InvPref", "ndcg@20"), 0.0460),
        (("Table 2", "lastfm", "neumf", "CausPref", "coverage@20"), 0.6627),
        (("Table 2", "yelp2018", "lightgcn", "ICPE", "apt@20"), 0.1168),
        (("Table 3", "lastfm", "lightgcn", "ICPE w/o CR", "recall_niche@20"), 0.0061),
        (("Table 3", "gowalla", "lightgcn", "ICPE", "ndcg@20"), 0.1626),
        (("Table 4", "yelp2018", "lightgcn", "ICPE", "interactions of cluster 4"), 2.60),
    ],
)
def test_the_papers_numbers_are_there(where, value):
    assert printed_value(*where) == value


def test_the_papers_tables_are_whole():
    printed = all_numbers()
    assert printed.group_by("table").len().sort("table")["len"].to_list() == [144, 144, 72, 12]
    for dataset in DATASETS:
        for number in ("Table 1", "Table 2"):
            found = printed_table(number, dataset)
            assert found["label"].unique().sort().to_list() == sorted(METHODS.values())
            assert found.height == 24
            assert found.null_count().sum_horizontal().item() == 0
    assert printed_table("Table 1", "demo").is_empty()
    assert printed_value("Table 1", "demo", "mf", "ICPE", "recall@20") is None


def test_icpe_must_beat_every_rival_and_not_its_own_other_form():
    won = best_method_claim(table(Normal=0.1, MACR=0.2, ICPE=0.3, ICPE_paper=0.4), "mf", "recall@20")
    assert won.held is True
    assert "+50.0% against MACR" in won.seen
    assert "+200.0% against Normal" in won.seen
    lost = best_method_claim(table(Normal=0.1, MACR=0.3, ICPE=0.2), "mf", "recall@20")
    assert lost.held is False
    assert best_method_claim(table(Normal=0.1, MACR=0.3), "mf", "recall@20") is None


def test_what_the_paper_says_of_itself_is_what_must_be_seen():
    # On NeuMF and Last.FM the paper's own table has CausPref ahead of ICPE in Coverage.
    rows = [
        {"backbone": "neumf", "label": label, "coverage@20": ours, "coverage@20 paper": theirs}
        for label, ours, theirs in (("Normal", 0.5, 0.5580), ("CausPref", 0.6, 0.6627), ("ICPE", 0.9, 0.6418))
    ]
    claim = best_method_claim(pl.DataFrame(rows), "neumf", "coverage@20")
    assert "ICPE is not the best" in claim.said
    assert claim.held is False


def part_claims(**without: list[list[float]]) -> list[Claim]:
    """Claims from the six figures of each seed: ICPE has about .4 everywhere."""
    metrics = ("recall_niche@20", "ndcg_niche@20", "coverage@20", "apt@20", "recall@20", "ndcg@20")
    seeds = len(next(iter(without.values())))
    figures_by = {"ICPE": [[0.4 + 0.01 * seed] * 6 for seed in range(seeds)]}
    figures_by |= {f"ICPE w/o {name}": values for name, values in without.items()}
    runs = pl.DataFrame(
        [
            {"label": label, "seed": seed, **dict(zip(metrics, figures, strict=True))}
            for label, each in figures_by.items()
            for seed, figures in enumerate(each)
        ]
    )
    found = runs.group_by("label", maintain_order=True).agg(pl.col(metrics).mean(), pl.len().alias("seeds"))
    return ablation_claims(found, printed_table("Table 3", "lastfm"), "ICPE", runs)


def test_with_one_seed_a_part_helps_only_if_everything_falls_without_it():
    claims = part_claims(CR=[[0.3] * 6], CI=[[0.3, 0.3, 0.3, 0.3, 0.5, 0.3]])
    assert [claim.held for claim in claims] == [True, False]
    assert "Recall +25.0%" in claims[1].seen
    assert "†" not in claims[1].seen
    assert "niche Recall -10.3%" in claims[0].said  # 0.0061 / 0.0068


def test_with_several_seeds_only_certain_changes_count():
    noise = [[0.41] * 6, [0.40] * 6, [0.42] * 6]  # against .40, .41, .42
    lower, higher = [0.301, 0.312, 0.322], [0.501, 0.512, 0.522]
    falls = [[value, *rest[1:]] for value, rest in zip(lower, noise, strict=True)]
    mixed = [[low, high, *rest[2:]] for low, high, rest in zip(lower, higher, noise, strict=True)]
    claims = part_claims(CR=noise, PD=falls, CI=mixed)
    assert [claim.held for claim in claims] == [False, True, False]
    assert "†" not in claims[0].seen
    assert claims[1].seen.count("†") == 1
    assert "niche Recall -24.0%†," in claims[1].seen
    assert claims[2].seen.count("†") == 2


def test_clusters_must_differ_from_neighbour_to_neighbour():
    sizes = pl.DataFrame({"cluster": [1, 2, 3], "interactions": [40.0, 10.0, 9.0]})
    [claim] = cluster_claims("lastfm", sizes)
    assert claim.held is False
    assert "74.3 / 12.3 / 9.2 / 3.6" in claim.said
    assert "1.11" in claim.seen
    [claim] = cluster_claims("lastfm", sizes.head(2))
    assert claim.held is True


def test_the_default_value_keeps_the_plain_label_and_counts_as_that_value():
    frame = pl.DataFrame({"label": [PAPER, f"{PAPER} alpha=0.01", f"{PAPER} alpha=0"], "ndcg@20": [1.0, 2.0, 3.0]})
    found = sweep_table(frame, (PAPER,), "alpha")
    assert found["value"].to_list() == [0.0, 2e-3, 1e-2]
    assert found["ndcg@20"].to_list() == [3.0, 1.0, 2.0]


def test_a_finding_tells_what_was_said_seen_and_held():
    finding = Finding("alpha", "Title", [Claim("A.", "B.", None)], "Caption.", {"alpha": pl.DataFrame()}, notes=["N."])
    text = finding.as_text()
    assert text.startswith("## Title")
    for part in ("A.", "B.", "**Undecided.**", "N.", "*Caption.*"):
        assert part in text


def test_reproductions_come_from_the_preset_where_it_has_them(tmp_path):
    (tmp_path / "mine.toml").write_text("[normal.mf.train]\nlr = 0.5\nbatch_size = 64\n", encoding="utf-8")
    reproduction = Reproduction(
        "demo", RunConfig(train={"epochs": 3}), tmp_path, [0], ["mf"], preset=str(tmp_path / "mine.toml")
    )
    normal, other = reproduction.cell("Normal", "normal", "mf"), reproduction.cell("MACR", "macr", "mf")
    assert (normal.tuned, other.tuned) == (True, False)
    assert normal.config.expanded().train == {"lr": 0.5, "batch_size": 64, "epochs": 3}
    # The paper's form is trained as Normal is, with its own preset of the method.
    ours = reproduction.paper_cell(PAPER, "mf", alpha=0.5)
    assert ours.config.train == {"lr": 0.5, "batch_size": 64, "epochs": 3}
    assert ours.config.method == {"name": "icpe", "preset": "paper", "alpha": 0.5}
    assert [cell.label for cell in reproduction.trainings()] == [*METHODS.values(), PAPER]


def test_reproductions_of_a_backbone_hold_for_that_backbone_only():
    reproduction = Reproduction("demo", RunConfig(backbone={"name": "mf", "dim": 8}), None, [0], ["mf", "neumf"])
    assert reproduction.cell("Normal", "normal", "mf").config.backbone == {"name": "mf", "dim": 8}
    assert reproduction.cell("Normal", "normal", "neumf").config.backbone == {"name": "neumf"}


def test_tags_come_from_what_is_known_of_items():
    log = skewed_log(users=5, items=3, pairs=9)
    assert item_tags(log, "mine") == {}
    info = pl.DataFrame({"item_id": log.items, "genre": ["rock|pop", None, "jazz"][: len(log.items)]})
    tags = item_tags(replace(log, item_info=info), "mine")
    assert tags[log.items[0]] == {"rock", "pop"}
    assert log.items[1] not in tags


def test_every_study_is_there():
    assert list(STUDIES) == [
        "accuracy", "debiasing", "tradeoff", "ablation", "clusters", "alpha", "frontier", "weights", "case", "gradients", "theory",
    ]  # fmt: skip


def test_long_computations_are_kept_until_something_changes(tmp_path):
    skewed_log(users=60, items=40, pairs=900).write(tmp_path / "log.csv")
    config = RunConfig(data={"source": str(tmp_path / "log.csv")}, method={"name": "normal"})
    reproduction = Reproduction("log", config, tmp_path / "out", [0], ["mf"])
    made = []

    def make():
        made.append(1)
        return {"one": pl.DataFrame({"a": [len(made)]}), "two": pl.DataFrame({"b": ["x"]})}

    first = reproduction.cached("thing", config, make, times=2)
    again = replace(reproduction).cached("thing", config, make, times=2)
    assert made == [1]
    assert all(first[name].equals(again[name]) for name in ("one", "two"))
    for other, times in (
        (config, 3),
        (config.updated("train", {"lr": 0.5}), 2),
        (config.updated("train", {"seed": 1}), 2),
    ):
        assert reproduction.cached("thing", other, make, times=times)["one"]["a"].item() == len(made)
    assert len(made) == 4
    # Killed before all was written: it does not count.
    for path in (tmp_path / "out" / "computed").glob("*/inputs.json"):
        path.unlink()
    assert reproduction.cached("thing", config, make, times=2)["one"]["a"].item() == 5
    # Another log in the same place.
    skewed_log(users=60, items=40, pairs=800).write(tmp_path / "log.csv")
    assert replace(reproduction).cached("thing", config, make, times=2)["one"]["a"].item() == 6
