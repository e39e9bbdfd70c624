"""The dial that trades niche against popular items after training."""

import json
import re

import pytest

from icpe import load
from icpe.cli import run
from icpe.testing import skewed_log

QUICK = ["--train.epochs", "3", "--backbone.dim", "8"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with the short runs ``normal`` and ``icpe``."""
    folder = tmp_path_factory.mktemp("runs")
    skewed_log().write(folder / "log.csv")
    for method in ("normal", "icpe"):
        assert run(["train", str(folder / "log.csv"), "--method", method, *QUICK, "-o", str(folder / method)]) == 0
    return folder


def test_recommend_puts_popularity_back(icpe, runs):
    lists = {}
    for beta in (None, 0, 1):
        more = [] if beta is None else ["--beta", beta]
        code, out, _ = icpe("recommend", runs / "icpe", "--user", 7, "-n", 10, *more, "--json")
        assert code == 0
        lists[beta] = [(row["item_id"], row["score"]) for row in json.loads(out)]
    assert lists[None] == lists[0]
    assert lists[1] != lists[0]
    model = load(runs / "icpe").adjusted(beta=1.0)
    assert [item for item, _ in lists[1]] == model.recommend([7], 10)["item_id"].to_list()


def test_evaluate_measures_the_adjusted_model(icpe, runs):
    values = {}
    for beta in (-1, 0, 1):
        code, out, _ = icpe("evaluate", runs / "icpe", "--beta", beta, "--json")
        assert code == 0
        values[beta] = json.loads(out)["test"]
    stored = json.loads((runs / "icpe" / "result.json").read_text())["test"]
    assert values[0] == stored
    popularity = [values[beta]["popularity@20"] for beta in (-1, 0, 1)]
    assert popularity == sorted(popularity)
    assert popularity[0] < popularity[2]


@pytest.mark.parametrize("verb", [["recommend", "--user", "7"], ["evaluate"]], ids=lambda verb: verb[0])
def test_a_method_without_the_dial_says_so(icpe, runs, verb):
    code, out, err = icpe(verb[0], runs / "normal", *verb[1:], "--beta", "1")
    assert (code, out) == (2, "")
    assert re.search("--beta .*method 'normal'", err), err
    code, out, err = icpe(verb[0], runs / "icpe", *verb[1:], "--beta", "1000")
    assert (code, out) == (2, "")
    assert re.search(r"beta is 1000", err), err
