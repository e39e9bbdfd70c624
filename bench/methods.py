"""Steps of every method over those of Normal, per CPU second: one thread, batch 1024, dim 64, a generated log.

All are measured in turn in one run. "pairs" counts the user-item pairs a step scores for each positive, with the
settings methods have on MF; "per pair" is the ratio times these pairs over Normal's two.

    python bench/methods.py [mf|neumf|lightgcn]
"""

import sys
import time

import numpy as np
import torch

from alone import with_one_thread
from icpe.backbones import make_backbone
from icpe.errors import ConfigError
from icpe.methods import METHODS, make_method
from icpe.testing import skewed_log
from icpe.train import Trainer, TrainSettings

BATCH, ROUNDS, SECONDS = 1024, 5, 0.4
# What is scored for a positive: itself and its negatives, in as many channels as there are; CPR by its shares of k;
# PAAC with its two contrasts, which compare a user or an item with at most all others of the batch.
PAIRS = {
    "normal": 2,
    "dice": 2 * 5,
    "macr": 2,
    "cpr": 3 * (2 * 2 * 0.75 + 2 * 3 * 0.25),
    "causpref": 4,
    "bc_loss": 129,
    "invpref": 4,
    "icpe": 257,
    "ips": 2,
    "ubpr": 2,
    "relmf": 2,
    "pd": 2,
    "penalty": 2,
    "logit_adjustment": 257,
    "in_batch": 1024,
    "psl": 257,
    "bsl": 257,
    "resn": 257,
    "paac": 2 + 2 * 1024,
    "popdcl": 1024,
    "popgo": 257,
}


class Stepper:
    """A trainer that is advanced for a while at a time."""

    def __init__(self, name: str, backbone: str) -> None:
        log = skewed_log(users=2000, items=1500, pairs=60_000)
        self.trainer = Trainer(
            make_method(name, make_backbone(backbone)), log, 0, TrainSettings(epochs=10_000, batch_size=BATCH)
        )
        self._drawn = (one for epoch in range(10_000) for one in self.trainer._sampler.epoch(epoch))
        for _ in range(5):
            self.trainer._step(next(self._drawn))

    def advance(self) -> float:
        """Steps per CPU second, drawing and what is done once an epoch included."""
        steps, start = 0, time.process_time()
        while time.process_time() - start < SECONDS:
            self.trainer._step(next(self._drawn))
            steps += 1
        return steps / (time.process_time() - start)


def main(backbone: str) -> None:
    torch.set_num_threads(1)
    steppers = {}
    for name in PAIRS:
        try:
            steppers[name] = Stepper(name, backbone)
        except ConfigError as error:
            print(f"{name}: {error}")
    measured = [{name: stepper.advance() for name, stepper in steppers.items()} for _ in range(ROUNDS)]
    rates = {name: float(np.median([one[name] for one in measured])) for name in steppers}
    print(f"{backbone:<18}{'steps/s':>9}{'of normal':>11}{'pairs':>8}{'per pair':>10}")
    for name, rate in rates.items():
        share = rate / rates["normal"]
        print(f"{name:<18}{rate:>9.0f}{share:>11.2f}{PAIRS[name]:>8g}{share * PAIRS[name] / PAIRS['normal']:>10.2f}")
    missing = set(METHODS) - set(PAIRS) - {"popularity", "random"}
    assert not missing, f"no count of pairs for {missing}"


if __name__ == "__main__":
    with_one_thread()
    main(*(sys.argv[1:2] or ["mf"]))
