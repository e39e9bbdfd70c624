"""The dial on the command line: what every setting costs, a choice by a wish, and what the other commands make of it."""

import hashlib
import json
import re

import numpy as np
import polars as pl
import pytest

from icpe import load
from icpe.cli import run
from icpe.files import write_together
from icpe.testing import skewed_log

QUICK = ["--train.epochs", "3", "--backbone.dim", "8", "--split", "random"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with the short runs ``normal`` and ``icpe``."""
    folder = tmp_path_factory.mktemp("runs")
    skewed_log().write(folder / "log.csv")
    for method in ("normal", "icpe"):
        assert run(["train", str(folder / "log.csv"), "--method", method, *QUICK, "-o", str(folder / method)]) == 0
    return folder


@pytest.fixture
def copy(runs, tmp_path):
    """A copy of the run ``icpe`` that a test may change."""
    import shutil

    return shutil.copytree(runs / "icpe", tmp_path / "run")


def contents(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def as_json(icpe, *words):
    code, out, err = icpe(*words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("method", ["normal", "icpe"])
def test_the_front_of_every_method_is_shown(icpe, runs, method):
    before = contents(runs / method)
    found = as_json(icpe, "dial", runs / method)
    assert set(found) == {"setting", "wish", "front", "valid", "test"}
    measures = {"setting", "ndcg", "recall", "balanced_ndcg", "balanced_recall", "apt", "coverage"}
    assert all(set(row) == measures for row in found["front"])
    betas = [row["setting"]["beta"] for row in found["front"]]
    assert betas == sorted(betas)
    assert 0.0 in betas
    assert len(betas) > 8
    stored = json.loads((runs / method / "result.json").read_text())
    assert (found["valid"], found["test"]) == (stored["valid"], stored["test"])
    assert found["setting"] == {"beta": stored["beta"]}
    assert contents(runs / method) == before


def test_a_niche_share_on_the_command_line(icpe, runs):
    front = pl.read_parquet(runs / "icpe" / "front.parquet")
    wished = round(float(front["apt"].mean()), 2)
    found = as_json(icpe, "dial", runs / "icpe", "--niche-share", wished)
    assert found["wish"] == {"niche_share": wished}
    assert found["valid"]["apt@20"] == pytest.approx(wished, abs=0.02)
    again = as_json(icpe, "evaluate", runs / "icpe", "--beta", found["setting"]["beta"])
    assert again["test"] == found["test"]


@pytest.mark.parametrize("goal", ["traffic", "balanced"])
def test_goals(icpe, runs, goal):
    found = as_json(icpe, "dial", runs / "normal", "--goal", goal)
    name = {"traffic": "ndcg", "balanced": "balanced_ndcg"}[goal]
    best = found["front"][int(np.argmax([row[name] for row in found["front"]]))]
    assert found["setting"] == best["setting"]
    assert found["valid"][f"{name}@20"] == pytest.approx(best[name])


def test_keep(icpe, runs):
    found = as_json(icpe, "dial", runs / "icpe", "--keep", 0.8)
    best = max(row["ndcg"] for row in found["front"])
    assert found["valid"]["ndcg@20"] == pytest.approx(0.8 * best, rel=0.1)
    assert (
        found["valid"]["apt@20"] > as_json(icpe, "dial", runs / "icpe", "--goal", "traffic")["valid"]["apt@20"] - 1e-9
    )


def test_text_marks_the_choice_and_names_its_price(icpe, runs):
    code, out, _ = icpe("dial", runs / "icpe", "--goal", "traffic")
    assert code == 0
    beta = as_json(icpe, "dial", runs / "icpe", "--goal", "traffic")["setting"]["beta"]
    (marked,) = [line for line in out.splitlines() if line.startswith("→")]
    assert float(marked.split()[1]) == pytest.approx(beta, rel=0.01)
    assert re.search(rf"The dial is at beta {re.escape(f'{beta:g}')}: NDCG \.\d{{4}} on the validation part", out)
    assert "On the test part: Recall" in out


def test_a_saved_choice_is_what_other_commands_use(icpe, copy):
    chosen = as_json(icpe, "dial", copy, "--keep", 0.7, "--save")
    stored = json.loads((copy / "result.json").read_text())
    assert (stored["beta"], stored["wish"], stored["test"]) == (
        chosen["setting"]["beta"],
        {"keep": 0.7},
        chosen["test"],
    )
    assert as_json(icpe, "evaluate", copy)["test"] == chosen["test"]
    assert as_json(icpe, "dial", copy)["setting"] == chosen["setting"]
    per_user = pl.read_parquet(copy / "per_user.parquet")
    assert per_user["ndcg@20"].mean() == pytest.approx(chosen["test"]["ndcg@20"])
    lists = as_json(icpe, "recommend", copy, "--user", 7, "-n", 10)
    expected = load(copy).adjusted(beta=chosen["setting"]["beta"]).recommend([7], 10)
    assert [row["item_id"] for row in lists] == expected["item_id"].to_list()


def test_a_boost_is_kept_until_another_wish_takes_it_out(icpe, copy):
    share = ["--niche-share", 0.9]
    alone, before = as_json(icpe, "dial", copy, *share), contents(copy)
    boosted = as_json(icpe, "dial", copy, *share, "--boost")
    assert contents(copy) == before
    assert boosted["setting"]["boost"] > 0
    assert boosted["wish"] == {"niche_share": 0.9, "boost": True}
    assert boosted["valid"]["apt@20"] == pytest.approx(0.9, abs=0.05)
    assert boosted["valid"]["ndcg@20"] > alone["valid"]["ndcg@20"]

    code, out, err = icpe("dial", copy, *share, "--boost", "--save")
    assert code == 0, err
    line = r"boost of [\d.]+ to niche items\. Without it, the dial gives them \d+ % of the places at NDCG"
    assert re.search(line, " ".join(out.split()))
    stored = json.loads((copy / "result.json").read_text())
    assert {name: stored[name] for name in ("beta", "boost")} == boosted["setting"]
    assert load(copy).setting == boosted["setting"]
    assert as_json(icpe, "evaluate", copy)["test"] == boosted["test"]
    lists = as_json(icpe, "recommend", copy, "--user", 7, "-n", 20)
    assert [row["item_id"] for row in lists] == load(copy).recommend([7], 20)["item_id"].to_list()
    assert as_json(icpe, "dial", copy)["setting"] == boosted["setting"]

    assert as_json(icpe, "dial", copy, *share, "--save") == alone
    stored = json.loads((copy / "result.json").read_text())
    assert "boost" not in stored
    assert load(copy).boost == 0
    assert pl.read_parquet(copy / "front.parquet").equals(load(copy).front().as_frame())


def test_a_dear_wish_names_the_boost(icpe, runs):
    assert "With --boost, the same share may cost less NDCG" in " ".join(
        icpe("dial", runs / "icpe", "--niche-share", "0.9")[1].split()
    )


def test_a_run_of_an_earlier_version_is_measured_when_asked(icpe, copy):
    front = pl.read_parquet(copy / "front.parquet")
    write_together(copy, {}, remove=["front.parquet", "front_test.parquet"])
    found = as_json(icpe, "dial", copy, "--goal", "traffic")
    assert [row["setting"]["beta"] for row in found["front"]] == front["beta"].to_list()
    assert not (copy / "front.parquet").exists()
    as_json(icpe, "dial", copy, "--goal", "traffic", "--save")
    assert pl.read_parquet(copy / "front.parquet").equals(front)
    assert (copy / "front_test.parquet").exists()


def test_the_front_on_the_test_part_has_the_chosen_setting(icpe, copy):
    for words in ([], ["--niche-share", 0.55, "--save"]):
        found = as_json(icpe, "dial", copy, *words)
        front = pl.read_parquet(copy / "front_test.parquet")
        chosen = front.filter(pl.col("beta") == found["setting"]["beta"])
        measured = {name: found["test"][f"{name}@20"] for name in ("ndcg", "recall", "apt", "coverage")}
        assert chosen.select(*measured).row(0, named=True) == pytest.approx(measured)


def test_a_picture_of_the_front(icpe, runs, tmp_path):
    code, out, _ = icpe("dial", runs / "icpe", "--plot", tmp_path / "front.svg")
    assert code == 0
    assert f"The front is drawn in {tmp_path / 'front.svg'}." in out
    assert "places for niche items" in (tmp_path / "front.svg").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--niche-share", "0.999"], r"a share of 0\.999; it reaches from 0\.\d+ to \d\.\d+"),
        (["--niche-share", "40"], r"--niche-share is 40; expected a share from 0 to 1"),
        (["--niche-share", "0.4", "--keep", "0.9"], "--niche-share and --keep are different wishes"),
        (["--save"], "--save keeps a choice: add --niche-share"),
        (["--boost"], "--boost helps to meet --niche-share or --keep; add one of them"),
        (["--boost", "--goal", "balanced"], "--boost helps to meet --niche-share or --keep; add one of them"),
        (["--boost", "--niche-share", "4"], r"--niche-share is 4; expected a share from 0 to 1"),
        (["--beta", "5e6", "--save"], "beta is 5000000"),
        (["--plot", "front.docx"], r"front\.docx"),
    ],
)
def test_mistakes_leave_the_run_as_it_was(icpe, copy, words, message):
    before = contents(copy)
    if "0.999" in words:  # head items among the candidates keep every list from being all niche
        front = pl.read_parquet(copy / "front.parquet").filter(pl.col("apt") < 0.9)
        write_together(copy, {"front.parquet": front.write_parquet})
        before = contents(copy)
    code, out, err = icpe("dial", copy, *words)
    assert (code, out) == (2, "")
    assert re.search(message, err), err
    assert contents(copy) == before


def test_a_damaged_front_is_an_error(icpe, copy):
    (copy / "front.parquet").write_bytes(b"PAR1 something else")
    code, _, err = icpe("dial", copy)
    assert code == 2
    assert re.search(r"front\.parquet is damaged or was changed", err), err
    write_together(copy, {"front.parquet": lambda path: path.write_bytes(b"PAR1 something else")})
    code, _, err = icpe("dial", copy)
    assert code == 2
    assert re.search(r"front\.parquet cannot be read.*delete it", err), err


def test_a_run_without_a_validation_part_has_no_dial(icpe, tmp_path):
    skewed_log().write(tmp_path / "log.csv")
    code, _, err = icpe("train", "--train", tmp_path / "log.csv", *QUICK[:4], "-o", tmp_path / "run")
    assert code == 0, err
    code, _, err = icpe("dial", tmp_path / "run")
    assert code == 2
    assert "no validation part" in err


def test_train_names_the_choice_and_warns_of_a_dear_setting(icpe, runs, tmp_path):
    words = ["train", runs / "log.csv", "--method", "icpe", *QUICK]
    code, out, err = icpe(*words, "-o", tmp_path / "chosen")
    assert (code, "Warning" in err) == (0, False)
    assert "The dial is at beta" in out
    code, out, err = icpe(*words, "--method.beta", -1e5, "-o", tmp_path / "given")
    assert code == 0
    assert re.search(r"Warning: beta -100000 was given and loses \d+ % of the NDCG", err), err


def test_train_takes_goals_and_wishes(icpe, runs, tmp_path):
    words = ["train", runs / "log.csv", *QUICK]
    found = as_json(icpe, *words, "--goal", "traffic", "--niche-share", 0.5, "-o", tmp_path / "share")
    assert found["valid"]["apt@20"] == pytest.approx(0.5, abs=0.03)
    found = as_json(icpe, *words, "--goal", "balanced", "-o", tmp_path / "balanced")
    front = pl.read_parquet(tmp_path / "balanced" / "front.parquet")
    assert found["valid"]["balanced_ndcg@20"] == pytest.approx(front["balanced_ndcg"].max())
    code, _, err = icpe(*words, "--niche-share", 2, "-o", tmp_path / "wrong")
    assert code == 2
    assert re.search(r"--niche-share is 2; expected a share from 0 to 1, such as 0\.4", err), err


def test_recommend_and_evaluate_take_any_setting(icpe, runs):
    for method in ("icpe", "normal"):
        popularity = [
            as_json(icpe, "evaluate", runs / method, "--beta", beta)["test"]["popularity@20"] for beta in (-5e4, 0, 5e4)
        ]
        assert popularity == sorted(popularity)
        assert popularity[0] < popularity[2]
    code, out, err = icpe("recommend", runs / "icpe", "--user", 7, "--beta", 5e6)
    assert (code, out) == (2, "")
    assert "beta is 5000000" in err


def test_a_killed_run_ends_with_the_same_choice(icpe, runs, tmp_path):
    from icpe.runs.config import RunConfig
    from icpe.runs.run import Run

    config = RunConfig.read(runs / "icpe" / "config.toml")
    steps = 0

    def stop(position, total):
        nonlocal steps
        steps += 1
        if steps == 9:
            raise KeyboardInterrupt

    config = config.updated("train", {"evaluate_every": 4})
    whole = Run(config, tmp_path / "whole").train()
    with pytest.raises(KeyboardInterrupt):
        Run(config, tmp_path / "halves", on_step=stop).train()
    halves = Run(config, tmp_path / "halves").train(resume=True)
    assert {**whole, "seconds": 0} == {**halves, "seconds": 0}
    for name in ("front.parquet", "front_test.parquet"):
        assert pl.read_parquet(tmp_path / "whole" / name).equals(pl.read_parquet(tmp_path / "halves" / name))
