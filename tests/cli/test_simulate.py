"""``icpe simulate``: rows for every arm, the page, and mistakes."""

import json

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
    ):
        code, out, err = icpe(*base, *words)
        assert (code, out) == (2, "")
        assert expected in err
    code, _, err = icpe("simulate", "events.csv", "--methods", "normal", "-o", "sim")
    assert code == 2
    assert "events.csv is not a world" in err
    assert "icpe data make" in err
