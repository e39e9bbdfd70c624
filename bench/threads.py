"""Speed of two threads over one on Gowalla's published split, dim 64, training with batches of 4,096.

Rounds of one and of two threads alternate in one process; a ratio compares their fastest rounds, in elapsed time. It is
measured twice: on the machine as it is, and while another process keeps one core busy. The machine must be quiet
otherwise, and have at least two cores. Both numbers of threads must give the same bits.

    python bench/engine.py [FOLDER] --threads
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal, threads
from icpe.methods import InBatch
from icpe.ranking import top_n
from icpe.ranking.sweep import sweep_top_n
from icpe.ranking.tables import DotScores
from icpe.train import Trainer, TrainSettings

BATCH, ROUNDS, RANKED = 4096, 15, 4096
RANKING, BESIDE, TRAINING, OF_PRODUCT = 1.8, 1.0, 1.6, 0.75  # what the ratios are to reach

Work = Callable[[], list[np.ndarray]]


def ranking(log: Interactions) -> dict[str, tuple[Work, Work]]:
    """Return the rankings, for one and for two threads. Their results are the items of the lists."""
    rng = np.random.default_rng(0)
    vectors = [rng.normal(scale=0.1, size=(len(ids), 64)).astype(np.float32) for ids in (log.users, log.items)]
    products, users = DotScores(*vectors), np.arange(RANKED, dtype=np.int32)
    layered = Normal(NeuMF())
    layered.build(log, np.random.default_rng(0))
    with torch.no_grad():
        layers = layered.scores()
    direction, settings = np.log1p(log.item_counts), np.linspace(-1, 1, 24)

    def front() -> list[np.ndarray]:
        return [one.items for one in sweep_top_n(products, users, 20, direction, settings, [log])]

    works: dict[str, Work] = {
        "rank mf": lambda: [top_n(products, users, 20, [log]).items],
        "rank neumf": lambda: [top_n(layers, users[:128], 20, [log]).items],
        "front mf": front,
    }
    return {name: (work, work) for name, work in works.items()}


def training(log: Interactions) -> dict[str, Callable[[], tuple[Work, Work]]]:
    """Return functions that prepare a training for one and for two threads. Their results are the parameters."""
    methods: dict[str, tuple[Callable[[], Any], int]] = {
        "train mf, bce": (lambda: Normal(MF()), 20),
        "train mf, softmax": (lambda: Normal(MF(), loss="softmax"), 10),
        "train mf, in-batch": (lambda: InBatch(MF()), 1),
        "train mf, icpe": (lambda: ICPE(MF()), 4),
        "train mf, icpe, bce": (lambda: ICPE(MF(), loss="bce"), 10),
        "train neumf, bce": (lambda: Normal(NeuMF()), 6),
        "train lightgcn, bce": (lambda: Normal(LightGCN(node_dropout=0.0, message_dropout=0.0)), 1),
        "train lightgcn, dropout": (lambda: Normal(LightGCN()), 1),
    }

    def steps(make: Callable[[], Any], number: int) -> Work:
        trainer = Trainer(make(), log, 0, TrainSettings(epochs=1000, batch_size=BATCH))
        drawn = (one for epoch in range(1000) for one in trainer._sampler.epoch(epoch))

        def advance() -> list[np.ndarray]:
            with threads.libraries_alone():
                for _ in range(number):
                    trainer._step(next(drawn))
            return [parameter.detach().numpy() for parameter in trainer.method.parameters()]

        return advance

    return {name: (lambda case=case: (steps(*case), steps(*case))) for name, case in methods.items()}


def speed_up(pair: tuple[Work, Work]) -> float:
    """Return the fastest elapsed time of one thread over that of two.

    Raises:
        AssertionError: the results differ.
    """
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        results = []
        for number, (work, spent) in enumerate(zip(pair, times, strict=True), start=1):
            with threads.use(number):
                start = time.perf_counter()
                arrays = work()
                spent.append(time.perf_counter() - start)
                results.append(digest(arrays))  # not timed, because it takes as long as some steps
        assert results[0] == results[1], "one and two threads give other results"
    return min(times[0][1:]) / min(times[1][1:])  # the first round compiles


def digest(arrays: list[np.ndarray]) -> bytes:
    """Return a hash of the bits of some arrays."""
    found = hashlib.sha256()
    for one in arrays:
        found.update(np.ascontiguousarray(one))
    return found.digest()


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep the last core busy for as long as the context lasts."""
    core = max(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.5)
        yield
    finally:
        other.kill()
        other.wait()


def of_product(log: Interactions) -> float:
    """Return the speed of a ranking with one thread over that of the product of its vectors, in CPU time."""
    rng = np.random.default_rng(0)
    vectors = [rng.normal(scale=0.1, size=(len(ids), 64)).astype(np.float32) for ids in (log.users, log.items)]
    table, users, spent = DotScores(*vectors), np.arange(RANKED, dtype=np.int32), ([], [])

    def product() -> None:
        for first in range(0, RANKED, 512):
            vectors[0][first : first + 512] @ vectors[1].T

    with threads.use(1), threads.libraries_alone():
        for _ in range(ROUNDS):
            for work, times in zip((product, lambda: top_n(table, users, 20, [log])), spent, strict=True):
                start = time.process_time()
                work()
                times.append(time.process_time() - start)
    return min(spent[0]) / min(spent[1])


def main(folder: Path) -> bool:
    """Print the table; return whether all limits are met."""
    log = Interactions.read(folder / "gowalla" / "train.txt")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}, cores {len(os.sched_getaffinity(0))}")
    print(f"{'two threads over one':<28}{'quiet':>8}{'limit':>8}{'busy core':>12}{'limit':>8}")
    cases = {name: (RANKING, lambda pair=pair: pair) for name, pair in ranking(log).items()}
    cases |= {name: (TRAINING, prepare) for name, prepare in training(log).items()}
    met = []
    for name, (limit, prepare) in cases.items():
        pair = prepare()
        quiet = speed_up(pair)
        with busy_core():
            beside = speed_up(pair)
        wanted = BESIDE if limit == RANKING else None
        met += [quiet >= limit, wanted is None or beside >= wanted]
        shown = "" if wanted is None else f"{wanted:g}"
        print(f"{name:<28}{quiet:>8.2f}{limit:>8g}{beside:>12.2f}{shown:>8}  {'met' if all(met[-2:]) else 'missed'}")
        sys.stdout.flush()
    share = of_product(log)
    met.append(share >= OF_PRODUCT)
    print(f"{'rank mf over its product':<28}{share:>8.2f}{OF_PRODUCT:>8g}{'':>20}  {'met' if met[-1] else 'missed'}")
    return all(met)
