"""Recall of true preferences is the same for scores and for the lists made from them."""

import numpy as np
import pytest

from icpe import make_world, split
from icpe.metrics.true_preference import true_recall
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores


def test_scores_and_their_lists_agree():
    world = make_world(users=40, items=30, interactions=300)
    train = split.unbiased(world.log, 0).train
    random = np.random.default_rng(0)
    vectors = (random.normal(size=(size, 4)).astype(np.float32) for size in (len(train.users), len(train.items)))
    scores = DotScores(*vectors)
    users = np.arange(len(train.users), dtype=np.int32)
    found = true_recall(scores, world, train, 5)
    assert found == pytest.approx(true_recall(top_n(scores, users, 5, hide=[world.log]), world, train, 5))
    assert set(found) == {"recall@5", "recall_head@5", "recall_niche@5"}
    assert 0 < found["recall@5"] < 1


def test_the_truth_itself_is_found_completely():
    world = make_world(users=40, items=30, interactions=300)
    train = split.unbiased(world.log, 0).train
    preference = world.preference(world.log.users).astype(np.float32)
    found = true_recall(DotScores(preference, np.eye(len(train.items), dtype=np.float32)), world, train, 5)
    assert found["recall@5"] == pytest.approx(1)
