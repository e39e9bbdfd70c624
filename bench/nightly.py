"""Cost of a nightly training that starts from yesterday's model, relative to a training from scratch.

The log is a generated world. Yesterday's log ends earlier than today's; both are split by time with the default shares.
Yesterday's model is trained to its end. Then today's model is trained twice, from scratch and from yesterday's model.
The script counts steps and CPU seconds until 99 % of the best validation NDCG of the training from scratch is reached,
for both, and until training stops by itself. The last percent is chance: it is the best of many noisy validations.
Numbers are medians over seeds, of the world and of the training alike.

    python bench/nightly.py [--seeds 3] [--night 0.03]     # night: share of the log that is new today
    python bench/nightly.py --only LightGCN --world 600 500 15000
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal, make_world, split
from icpe.methods import Method
from icpe.recommender.fitting import finished_model
from icpe.recommender.model import Model
from icpe.recommender.validation import validator
from icpe.recommender.warm_start import start_from
from icpe.split import Parts
from icpe.train import Trainer, TrainSettings

LIMIT = 0.5  # of the steps of a training from scratch
REACHED = 0.99  # share of its best validation NDCG
CASES: dict[str, Callable[[], Method]] = {
    "Normal, MF": lambda: Normal(MF()),
    "ICPE, MF": lambda: ICPE(MF()),
    "Normal, NeuMF": lambda: Normal(NeuMF()),
    "ICPE, NeuMF": lambda: ICPE(NeuMF()),
    "Normal, LightGCN": lambda: Normal(LightGCN(dim=32)),
    "ICPE, LightGCN": lambda: ICPE(LightGCN(dim=32)),
}


@dataclass(frozen=True)
class Curve:
    """Steps, CPU seconds and validation NDCG at each validation, and the trained model."""

    steps: list[int]
    seconds: list[float]
    ndcg: list[float]
    model: Model

    @property
    def best(self) -> float:
        """The best validation NDCG."""
        return max(self.ndcg)

    def reaches(self, ndcg: float) -> tuple[int, float] | None:
        """Steps and seconds at the first validation with at least this NDCG."""
        found = zip(self.steps, self.seconds, self.ndcg, strict=True)
        return next(((step, seconds) for step, seconds, value in found if value >= ndcg), None)


def train(method: Method, parts: Parts, seed: int, start: Model | None = None) -> Curve:
    settings = TrainSettings.parse({"evaluate_every": 100, "patience": 8, **loop_of(method)}, "bench")
    found = validator(parts.train, parts.valid, settings)
    begun = time.process_time()
    trainer = Trainer(method, parts.train, seed, settings, found)
    if start is not None:
        start_from(trainer, parts.train, start, parts.valid, parts.test)
    steps, seconds, ndcg = [], [], []

    def note(record: dict) -> None:
        steps.append(record["step"])
        seconds.append(time.process_time() - begun)
        ndcg.append(record["valid"]["ndcg@20"])

    trainer.run(on_evaluation=note)
    return Curve(steps, seconds, ndcg, finished_model(trainer, parts.train, found))


def loop_of(method: Method) -> dict:
    """The loop settings that suit the method, apart from its patience."""
    return {name: value for name, value in method.train_defaults().items() if name != "patience"}


def until(log: Interactions, share: float) -> Interactions:
    """The oldest share of a log."""
    kept = np.argsort(log.timestamp, kind="stable")[: round(share * len(log))]
    mask = np.zeros(len(log), bool)
    mask[kept] = True
    return log.keep(mask).compact()


def measure(make: Callable[[], Method], size: list[int], night: float, seed: int) -> dict[str, float]:
    log = make_world(*size, seed=seed).log
    yesterday, today = split.chronological(until(log, 1 - night)), split.chronological(log)
    before = train(make(), yesterday, seed).model
    scratch, warm = train(make(), today, seed), train(make(), today, seed, before)
    target = REACHED * scratch.best
    steps, seconds = scratch.reaches(target) or (0, 0.0)
    reached = warm.reaches(target) or (warm.steps[-1], warm.seconds[-1])
    return {
        "scratch": scratch.best,
        "warm": warm.best,
        "first": warm.ndcg[0],
        "steps": steps,
        "warm_steps": reached[0],
        "seconds": seconds,
        "warm_seconds": reached[1],
        "step_ratio": reached[0] / steps,
        "second_ratio": reached[1] / seconds,
        "whole_ratio": warm.seconds[-1] / scratch.seconds[-1],
        "reached": float(warm.best >= target),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--night", type=float, default=0.03)
    parser.add_argument("--world", type=int, nargs=3, default=[2000, 1500, 60_000], help="users, items, interactions")
    parser.add_argument("--only", help="a part of the names of the cases to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios = []
    print(
        "| | NDCG scratch | at step 0 | warm | steps scratch | warm | seconds scratch | warm | steps ratio | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for label, make in CASES.items():
        if options.only and options.only not in label:
            continue
        found = [measure(make, options.world, options.night, seed) for seed in range(options.seeds)]
        mid = {name: statistics.median(one[name] for one in found) for name in found[0]}
        reached = sum(one["reached"] for one in found)
        ratios.append(mid["step_ratio"])
        print(
            f"| {label} | {mid['scratch']:.4f} | {mid['first']:.4f} | {mid['warm']:.4f} | {mid['steps']:,.0f} | "
            f"{mid['warm_steps']:,.0f} | {mid['seconds']:.1f} | {mid['warm_seconds']:.1f} | {mid['step_ratio']:.2f} | "
            f"{mid['second_ratio']:.2f} | reached {reached:.0f} of {len(found)}, whole {mid['whole_ratio']:.2f}",
            flush=True,
        )
    return int(max(ratios) > LIMIT)


if __name__ == "__main__":
    with_one_thread()
    sys.exit(main())
