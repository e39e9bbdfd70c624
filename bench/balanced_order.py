"""Rank correlation of NDCG on an ordinary part, balanced and plain, with NDCG on a part that is uniform over items.

A log first loses a test part that is uniform over items. What remains is cut at random, several methods are trained on
one part of it, and every model is evaluated on both test parts. If the balanced metric judges all items alike, it
orders the models as the uniform part does.

    python bench/balanced_order.py [FOLDER]     # the folder with lastfm/; default ICPE_DATA, else ../shared/data
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, make_world, split
from icpe.data.sources import open_log
from icpe.methods import make_method
from icpe.recommender.evaluation import evaluate_part
from icpe.recommender.model import Model
from icpe.split.parts import Parts, recode

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Trained:
    """A method to train once, and the settings of the dial at which its model is evaluated."""

    label: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    betas: Sequence[float] = (0.0,)

    def models(self, parts: Parts, dim: int, seed: int, **loop: Any) -> Iterator[tuple[str, Model]]:
        """Train, and yield the models with their labels."""
        fitted = make_method(self.method, MF(dim=dim), **self.settings)
        model = fitted.fit(parts.train, valid=parts.valid, seed=seed, goal="none", **loop)
        for beta in self.betas:
            yield (self.label if len(self.betas) == 1 else f"{self.label}, beta {beta:g}"), model.adjusted(beta=beta)


# Rankings that learn nothing, training without debiasing, and several ways and amounts of debiasing.
COMPARED = (
    Trained("popularity", "popularity"),
    Trained("random", "random"),
    Trained("Normal, bce", "normal"),
    Trained("Normal, softmax", "normal", {"loss": "softmax", "reg": 0.0}),
    Trained("penalty", "penalty", {"strength": 0.7}),
    Trained("logit adjustment", "logit_adjustment"),
    Trained("in-batch softmax", "in_batch"),
    Trained("MACR", "macr"),
    Trained("ICPE", "icpe", betas=(0.0, 0.5, 1.0)),
    Trained("ICPE, paper", "icpe", ICPE.preset("paper")),
)


def two_tests(log: Interactions, seed: int) -> tuple[Parts, Parts]:
    """Return two splits with the same training and validation part. The second one has a uniform test part."""
    first = split.unbiased(log, seed=seed, mode="ips")
    known = [first.train, first.valid]
    user, item = (np.concatenate([getattr(one, code) for one in known]) for code in ("user", "item"))
    ordinary = split.random(Interactions.from_codes(log.users, log.items, user, item), seed=seed)
    return ordinary, replace(ordinary, test=recode(first.test, ordinary.train))


def measure(
    log: Interactions, seed: int, compared: Sequence[Trained] = COMPARED, dim: int = 64, **loop: Any
) -> pl.DataFrame:
    """Train all methods and return a row for each model.

    ``niche`` is the niche share of its lists, ``plain`` and ``balanced`` its NDCG@20 on the ordinary test part, and
    ``uniform`` its plain NDCG@20 on the uniform one.
    """
    ordinary, uniform = two_tests(log, seed)
    rows = []
    for one in compared:
        for label, model in one.models(ordinary, dim, seed, **loop):
            here, there = (evaluate_part(model, parts, "test").values for parts in (ordinary, uniform))
            shown = {"plain": here["ndcg@20"], "balanced": here["balanced_ndcg@20"], "uniform": there["ndcg@20"]}
            rows.append({"model": label, "niche": here["apt@20"], **shown})
    return pl.DataFrame(rows)


def correlations(table: pl.DataFrame) -> dict[str, float]:
    """Return Spearman's rank correlation with the uniform part over the models: of ``balanced`` and of ``plain``."""
    from scipy.stats import spearmanr

    return {name: float(spearmanr(table[name], table["uniform"]).statistic) for name in ("balanced", "plain")}


def show(name: str, tables: Sequence[pl.DataFrame]) -> None:
    """Print the means of the models over seeds, and the correlations of every seed with their means."""
    print(f"{name:<20}{'niche':>8}{'plain':>9}{'balanced':>10}{'uniform':>9}   mean of {len(tables)} seeds, NDCG@20")
    means = pl.concat(tables).group_by("model", maintain_order=True).mean()
    for label, niche, plain, balanced, uniform in means.rows():
        print(f"{label:<20}{niche:>8.3f}{plain:>9.4f}{balanced:>10.4f}{uniform:>9.4f}")
    found = pl.DataFrame([correlations(table) for table in tables])
    for one in found:
        seeds = ", ".join(f"{value:.3f}" for value in one)
        print(f"rank correlation of {one.name} with uniform: {one.mean():.3f} ({seeds})")
    print(flush=True)


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ICPE_DATA", "../shared/data"))
    lastfm = open_log("lastfm", data_dir=folder)
    loop = {"epochs": 40, "lr": 4e-3}
    show("generated world", [measure(make_world(seed=seed).log, seed, **loop) for seed in SEEDS])
    show("Last.FM", [measure(lastfm, seed, **loop) for seed in SEEDS])


if __name__ == "__main__":
    with_one_thread()
    main()
