"""``train``, ``evaluate`` and Python use the same rule for which items are hidden at validation and at test."""

import numpy as np
import pytest

from icpe import evaluate, load
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.recommender import evaluate_part
from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.runs.saved import evaluate_run
from icpe.testing import skewed_log


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hidden")
    skewed_log(users=60, items=150, pairs=1500).write(folder / "log.csv")
    data = {"source": str(folder / "log.csv")}
    config = RunConfig(data=data, backbone={"dim": 8}, train={"epochs": 10, "batch_size": 64, "lr": 0.01})
    return config, Run(config, folder / "run").train(), folder / "run"


def by_hand(model, held, train, hide):
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    return evaluate_lists(top_n(model.scores, users, 20, hide=hide), held, train, n=[20]).values


def test_one_rule(trained):
    config, result, folder = trained
    parts, model = config.open_parts(), load(folder)
    valid = by_hand(model, parts.valid, parts.train, [parts.train])
    test = by_hand(model, parts.test, parts.train, [parts.train, parts.valid])
    too_little = by_hand(model, parts.test, parts.train, [parts.train])
    assert test != pytest.approx(too_little, nan_ok=True), "the rule makes a difference here"
    again = evaluate_run(folder)
    assert result["valid"] == again["valid"] == pytest.approx(valid)
    assert result["test"] == again["test"] == pytest.approx(test)
    assert evaluate(model, parts).values == pytest.approx(test)
    assert evaluate_part(model, parts, "valid").values == pytest.approx(valid)


def test_validation_during_training_follows_it_too(trained):
    """The saved model is the best state of the curve, so its validation metrics are those of the result."""
    import json

    _, result, folder = trained
    curve = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    best = next(record for record in curve if record["step"] == result["best_step"])
    assert best["valid"]["ndcg@20"] == pytest.approx(result["valid"]["ndcg@20"])
