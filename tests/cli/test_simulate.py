"""``icpe simulate``: rows for every arm, the page, and mistakes."""

import json

import polars as pl
import pytest

from icpe import make_world

ARMS = ["normal", "icpe", "oracle", "random", "popularity", "none"]


@pytest.fixture
def world(tmp_path):
    make_world(users=100, items=80, interactions=1200).save(tmp_path / "world")
    return tmp_path / "world"


def test_rows_of_every_round_and_arm(icpe, world, tmp_path):
    command = ("simulate", world, "--quick", "--methods", "normal,icpe", "--rounds", 6, "-o", "sim")
    code, out, err = icpe(*command, "--train.epochs", 2, "--loop.visits", 2, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [(row["arm"], row["round"]) for row in found["rounds"]] == [(arm, k) for arm in ARMS for k in range(1, 7)]
    assert found["settings"]["visits"] == 2
    assert {row["group"] for row in found["groups"]} == {"niche", "mixed", "blockbuster"}
    last = {row["arm"]: row for row in found["rounds"] if row["round"] == 6}
    assert f"Gini {last['icpe']['log_gini']:.3f} against {last['none']['log_gini']:.3f}" in found["headline"][1]
    page = (tmp_path / "sim" / "report.html").read_text(encoding="utf-8")
    assert found["headline"][0].split(".")[0] in page
    assert page.count("<svg ") == 10
    assert (tmp_path / "sim" / "loop.svg").exists()
    code, out, _ = icpe(*command, "--train.epochs", 2, "--loop.visits", 2)
    assert code == 0
    assert "No recommender" in out
    assert "report.html" in out


def test_mistakes_name_flags(icpe, world):
    base = ("simulate", world, "--methods", "normal", "-o", "sim")
    for words, expected in (
        (("--adoption", "half"), "--adoption is 'half'; expected shares"),
        (("--adoption", "2"), "--adoption 0.5"),
        (("--loop.herdin", "1"), "did you mean --loop.herding?"),
        (("--loop.herding", "7"), "--loop.herding is 7; expected"),
        (("--train.seed", "7"), "use --seeds"),
        (("--seeds", "0"), "--seeds is '0'"),
        (("--explore", "1.5"), "--explore is 1.5; expected"),
        (("--drift", "-1"), "--drift is -1.0; expected"),
        (("--backbones", "mf,fm"), "unknown backbone 'fm'"),
        (("--backbones", "mf,neumf", "--backbone.layers", "2"), "--backbone.layers"),
        (("--liking", "0.5"), "--liking is about logs"),
        (("--items", "names.csv"), "--items is about logs"),
    ):
        code, out, err = icpe(*base, *words)
        assert (code, out) == (2, "")
        assert expected in err
    code, _, err = icpe("simulate", "events.csv", "--methods", "normal", "-o", "sim")
    assert code == 2
    assert "events.csv" in err


def test_a_world_fitted_to_a_log(icpe, tmp_path):
    log = make_world(users=60, items=50, interactions=600).log.to_frame()
    pl.concat([log, log.head(200)]).rename({"user_id": "who"}).write_csv(tmp_path / "events.csv")
    command = ("simulate", "events.csv", "--column", "user_id=who", "--methods", "normal", "--rounds", 2)
    code, out, err = icpe(*command, "--train.epochs", 1, "--liking", 0.5, "--new-items", 3, "-o", "sim", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["fit"]["liking"] == 0.5
    assert found["fit"]["log_repeats"] == found["settings"]["repeat"] == 0.25
    assert found["settings"]["candidates"] == 100
    assert {row["arm"] for row in found["rounds"]} == {"normal", "oracle", "random", "popularity", "none"}
    page = (tmp_path / "sim" / "report.html").read_text(encoding="utf-8")
    assert "How well the world reproduces the log" in page
    assert f"rank correlation of {found['fit']['rank_correlation']:.2f}" in page
    assert "New in every round: 0 users and 3 items." in page
