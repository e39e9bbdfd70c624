"""Time per step of ICPE over Normal on Gowalla's published split, one thread, batch 1024, dim 64, warm.

Steps of both are measured in turn, a few at a time, in CPU seconds; the ratio is the median of the rounds' own, since
other work on the machine slows down a round as a whole. Clustering, the Gram matrix and the weights are done once an
epoch; their time is spread over its steps.

    python bench/overhead.py [FOLDER]     # the folder with gowalla/train.txt; default ICPE_DATA, else ../shared/data
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal
from icpe.methods import InBatch, Method
from icpe.train import Trainer, TrainSettings

BATCH, ROUNDS, REFRESHES = 1024, 15, 3
FIXED: dict[str, Any] = {"propensity": "popularity", "strength": 0.7, "temperature": 0.25}


def no_dropout() -> LightGCN:
    return LightGCN(node_dropout=0.0, message_dropout=0.0)


CASES: list[tuple[str, Callable[[], Method], Callable[[], Method], float, int]] = [
    ("mf, softmax", lambda: Normal(MF(), loss="softmax", reg=0.0), lambda: ICPE(MF(), peers=0), 1.3, 20),
    (
        "mf, softmax, shared",
        lambda: Normal(MF(), loss="softmax", reg=0.0),
        lambda: ICPE(MF(), peers=0, weights_on="shared"),
        1.3,
        20,
    ),
    ("mf, softmax, peers", lambda: Normal(MF(), loss="softmax", reg=0.0), lambda: ICPE(MF(), peers=256), 1.3, 20),
    # Rivals with the same negatives in place of Normal: 1,024 for the default, which Normal has not.
    ("mf, default, in-batch", lambda: InBatch(MF(), reg=0.0), lambda: ICPE(MF()), 0.0, 10),
    ("mf, peers, in-batch", lambda: InBatch(MF(), reg=0.0), lambda: ICPE(MF(), peers=256, **FIXED), 0.0, 10),
    ("mf, bce", lambda: Normal(MF()), lambda: ICPE(MF(), loss="bce"), 1.6, 40),
    ("mf, bce, shared", lambda: Normal(MF()), lambda: ICPE(MF(), loss="bce", weights_on="shared"), 1.6, 40),
    ("mf, paper", lambda: Normal(MF()), lambda: ICPE.from_preset("paper", MF()), 0.0, 10),
    ("neumf, bce", lambda: Normal(NeuMF()), lambda: ICPE(NeuMF(), loss="bce"), 1.3, 10),
    ("lightgcn, bce", lambda: Normal(no_dropout()), lambda: ICPE(no_dropout(), loss="bce"), 1.6, 1),
    ("lightgcn, softmax", lambda: Normal(no_dropout(), loss="softmax", reg=0.0), lambda: ICPE(no_dropout()), 1.6, 1),
]


class Stepper:
    """A trainer that is advanced some steps at a time."""

    def __init__(self, method: Method, log: Interactions) -> None:
        self.trainer = Trainer(method, log, 0, TrainSettings(epochs=1000, batch_size=BATCH))
        self.epoch_steps = -(-len(log) // BATCH)
        self._drawn = (one for epoch in range(1000) for one in self.trainer._sampler.epoch(epoch))
        self.advance(3)

    def advance(self, steps: int) -> float:
        """CPU seconds per step."""
        start = time.process_time()
        for _ in range(steps):
            self.trainer._step(next(self._drawn))
        return (time.process_time() - start) / steps

    def refresh(self) -> float:
        """CPU seconds of what is done once an epoch, per step."""
        start = time.process_time()
        self.trainer._optimizer.settle()
        self.trainer.method.refresh(self.trainer.position.step, 0)
        return (time.process_time() - start) / self.epoch_steps


def main(folder: Path) -> bool:
    torch.set_num_threads(1)
    log = Interactions.read(folder / "gowalla" / "train.txt")
    kept = True
    print(f"{'':<22}{'normal ms':>12}{'icpe ms':>10}{'once ms':>10}{'ratio':>8}{'limit':>7}")
    for name, normal, icpe, limit, steps in CASES:
        one, other = Stepper(normal(), log), Stepper(icpe(), log)
        once = 1000 * np.median([other.refresh() for _ in range(REFRESHES)])
        times = 1000 * np.array([[one.advance(steps), other.advance(steps)] for _ in range(ROUNDS)])
        plain, own = np.median(times, axis=0)
        ratio = float(np.median((times[:, 1] + once) / times[:, 0]))
        missed = bool(limit) and ratio > limit
        kept = kept and not missed
        mark = f"{limit:>7}{'  missed' if missed else ''}" if limit else ""
        print(f"{name:<22}{plain:>12.2f}{own:>10.2f}{once:>10.2f}{ratio:>8.2f}{mark}", flush=True)
    return kept


if __name__ == "__main__":
    with_one_thread()
    default = os.environ.get("ICPE_DATA", Path(__file__).parents[2] / "shared" / "data")
    sys.exit(0 if main(Path(sys.argv[1] if len(sys.argv) > 1 else default)) else 1)
