"""Lists have the same bits for any number of threads."""

from threading import Barrier

import numpy as np
import pytest
import torch

from icpe import NeuMF, Normal, threads
from icpe.metrics import evaluate
from icpe.ranking import Blocks, top_n
from icpe.ranking.sweep import sweep_top_n
from icpe.ranking.tables import DotScores, ScaledScores
from icpe.recommender.front import Meter
from icpe.testing import skewed_log

USERS = np.arange(600, dtype=np.int32)
BLOCKS = Blocks(users=50, items=32, compiled=True)


@pytest.fixture(scope="module")
def log():
    return skewed_log(users=600, items=120, pairs=9000)


@pytest.fixture(scope="module")
def products(log):
    rng = np.random.default_rng(0)
    vectors = [rng.normal(size=(len(ids), 24)).astype(np.float32) for ids in (log.users, log.items)]
    return DotScores(*vectors, rng.normal(size=len(log.items)).astype(np.float32))


def layered(log):
    method = Normal(NeuMF(dim=8, layers=(8, 4)))
    method.build(log, np.random.default_rng(1))
    with torch.no_grad():
        return method.scores()


def factors(products):
    return ScaledScores(products, np.linspace(0.1, 2, products.items, dtype=np.float32))


@pytest.mark.parametrize("kind", ["products", "factors", "layers"])
def test_lists_have_the_same_bits(kind, log, products):
    table = {"products": lambda: products, "factors": lambda: factors(products), "layers": lambda: layered(log)}[kind]()
    found = []
    for number in (1, 2, 4):
        with threads.use(number):
            lists = top_n(table, USERS, 10, [log], blocks=BLOCKS)
            found.append((lists.users.tobytes(), lists.items.tobytes(), lists.scores.tobytes()))
    assert found[0] == found[1] == found[2]


def test_metrics_and_fronts_have_the_same_bits(log, products):
    direction = np.log1p(log.item_counts).astype(np.float32)
    found = []
    for number in (1, 2, 4):
        with threads.use(number):
            swept = sweep_top_n(products, USERS, 10, direction, [-1.0, 0.0, 0.5], [log], compiled=True)
            front = Meter(log, log, 10).front(products, direction, [-1.0, 0.5], hide=[])
            values = evaluate(products, log, log, hide=[], n=[5, 10]).values
            found.append(([lists.items.tobytes() for lists in swept], front.as_frame().rows(), values))
    assert len(found[0][0]) == 2  # chunks, so that there is something to share
    assert found[0] == found[1] == found[2]


def test_chunks_are_ranked_at_the_same_time(products):
    together = Barrier(2, timeout=60)

    class Waiting:
        users, items = products.users, products.items

        def block(self, users, start, stop):
            together.wait()
            return products.block(users, start, stop)

    with threads.use(2):
        assert len(top_n(Waiting(), USERS[:100], 10, blocks=BLOCKS)) == 100


def test_little_memory_means_few_threads(products):
    asked = []

    class Counting:
        users, items = products.users, products.items
        inside = 0

        def block(self, users, start, stop):
            self.inside += 1
            asked.append(self.inside)
            scores = products.block(users, start, stop)
            self.inside -= 1
            return scores

    with threads.use(4):
        top_n(Counting(), USERS, 10, memory_mb=1, blocks=Blocks(users=600, items=120, compiled=True))
    assert max(asked) == 1
