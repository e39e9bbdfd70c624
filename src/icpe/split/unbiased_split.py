"""The unbiased split: held-out interactions are spread evenly over items, so popularity alone does not score."""

from typing import Any

import numpy as np

from icpe.data.interactions import Interactions
from icpe.rng import random_keys
from icpe.split.item_quota import item_quota, label_by_quota
from icpe.split.parts import TEST, VALID, Parts, assemble
from icpe.split.settings import Mode, UnbiasedSettings, owner
from icpe.types import IntArray


def unbiased(
    log: Interactions,
    seed: int = 0,
    mode: Mode = "item_quota",
    train: float = 0.8,
    valid: float = 0.1,
    cap: float | None = None,
) -> Parts:
    """Parts in which every item has about the same number of held-out interactions.

    ``item_quota`` holds out the latest interactions of every item, the same number q for all items that have enough: q
    is the smallest number with Σ_i min(q, ⌊0.9·N_i⌋, N_i − 1) ≥ the held-out share. The earlier ones of these go to
    validation, the later ones to test. Without timestamps the order is random.

    ``ips`` draws the held-out interactions one by one with weight 1/N_i, as DICE does. It assigns them to validation
    and test at random.

    In both modes, held-out interactions whose user or item has no training data return to training. The manifest
    counts them.

    Args:
        log: the complete, filtered log.
        seed: of every random choice.
        mode: ``item_quota`` or ``ips``.
        train: share for training.
        valid: share for validation; the rest is test.
        cap: ``ips`` only: cap the weights at this percentile of the distinct weights, which protects rare items.

    Raises:
        ConfigError: a setting is wrong.
        DataError: a part would be empty.

    Example:
        >>> pairs = {"user_id": [one // 5 for one in range(100)], "item_id": list(range(10)) * 10}
        >>> log = Interactions.read(pairs)
        >>> unbiased(log).manifest["counts"]["test"]["interactions"]
        10
    """
    given = {"seed": seed, "mode": mode, "train": train, "valid": valid, "cap": cap}
    settings = UnbiasedSettings.parse(given, owner("unbiased"))
    if settings.mode == "ips":
        return assemble(log, _label_by_draw(log, settings), unbiased_recipe(settings, cap=settings.cap))
    quota = item_quota(log.item_counts, (1 - settings.train) * len(log))
    labels = label_by_quota(log, settings.seed, quota, settings.valid / (1 - settings.train))
    return assemble(log, labels, unbiased_recipe(settings, quota=int(quota.max())))


def unbiased_recipe(settings: UnbiasedSettings, **extra: Any) -> dict[str, Any]:
    """The kind of split and its settings, as in the manifest."""
    shares = {"train": settings.train, "valid": settings.valid}
    return {"split": "unbiased", "mode": settings.mode, "seed": settings.seed, **shares, **extra}


def _label_by_draw(log: Interactions, settings: UnbiasedSettings) -> IntArray:
    """Label of each pair by a draw without replacement with weights 1/popularity, int8 [pairs]."""
    weight = 1.0 / log.item_counts
    if settings.cap is not None:
        weight = np.minimum(weight, np.percentile(np.unique(weight), settings.cap))
    # The first arrivals of independent exponential clocks are a draw without replacement with these weights.
    uniform = (random_keys(settings.seed, "split/draw", len(log)) >> np.uint64(11)).astype(np.float64)
    arrival = -np.log((uniform + 0.5) * 2.0**-53) / weight[log.item]
    held = round((1 - settings.train) * len(log))
    rows = np.argpartition(arrival, held)[:held] if held < len(log) else np.arange(len(log))
    rows.sort()
    shuffled = rows[np.argsort(random_keys(settings.seed, "split/halves", held), kind="stable")]
    labels = np.zeros(len(log), np.int8)
    labels[shuffled] = TEST
    labels[shuffled[: round(held * settings.valid / (1 - settings.train))]] = VALID
    return labels
