"""Theorem 2 in numbers: estimates of the terms of the generalisation bound."""

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods.icpe.clusters import ItemClusters
from icpe.methods.icpe.gram import gram_by_autograd
from icpe.methods.icpe.method import ICPE
from icpe.paper.analysis.checks import require_positive
from icpe.paper.analysis.gradients import OnStep
from icpe.paper.analysis.logits import own_logits, pair_logits
from icpe.pareto import pareto_weights
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.train import Trainer
from icpe.train.method import evaluation_mode
from icpe.types import FloatArray, IntArray

_USERS = 1024  # number of users whose scores determine the range of scores


@dataclass(frozen=True)
class Trajectory:
    """States of a run of ICPE.

    Attributes:
        method: ICPE in its last state.
        train: log it was trained on.
        states: parameters and buffers at each checkpoint, the last one at the end of training.
        seed: seed of the run.
    """

    method: ICPE
    train: Interactions
    states: list[dict[str, Tensor]]
    seed: int


def trajectory(
    config: RunConfig, train: Interactions, checkpoints: int = 10, on_step: OnStep | None = None
) -> Trajectory:
    """Train ICPE to the last epoch and keep its states at regular intervals.

    Raises:
        ConfigError: the method is not ICPE.
    """
    require_positive("checkpoints", checkpoints)
    method = config.make_method()
    if not isinstance(method, ICPE):
        raise ConfigError(f"the bound needs the method 'icpe'; the configuration has {method.name!r}")
    settings = config.train_settings(method)
    steps = settings.epochs * -(-len(train) // settings.batch_size)
    # The loop brings all parameters up to date before each evaluation, even without validation data.
    trainer = Trainer(method, train, config.seed, settings.replace(evaluate_every=-(-steps // checkpoints)))
    states: list[dict[str, Tensor]] = []

    def keep(record: dict[str, Any]) -> None:
        states.append({name: value.clone() for name, value in method.state_dict().items()})

    trainer.run(None if on_step is None else lambda position: on_step(position.step, steps), keep)
    return Trajectory(method, train, states, config.seed)


def bound_terms(
    run: Trajectory,
    clusters: Iterable[int] = range(1, 9),
    draws: int = 2000,
    cover: float = 0.05,
    delta: float = 0.05,
) -> pl.DataFrame:
    """Estimates of the three terms of the generalisation bound (Theorem 2) against the number of clusters K.

    The states of one run represent the hypotheses Θ. The supremum is taken over these few states, so the second term is
    underestimated. For each K, items are clustered and weighted (Σ w = 1) at the last state of the run, as in ICPE.
    L_i⁺ is the sum of softplus(−S^n) over the users of an item, as in the paper.

    Args:
        run: states of a run, see :func:`trajectory`.
        clusters: values of K.
        draws: number of samples of the signs σ.
        cover: ε of the cover of the weights.
        delta: probability with which the bound may fail.

    Returns:
        Frame with a row per K: the requested ``clusters`` and those ``found``; ``risk`` Σ_k w_k/|c_k| Σ_i L_i⁺ at the
        last state; ``rademacher`` with its standard error ``rademacher_error``; ``cover_term``; their sum ``bound``;
        the factors of the third term, ``diameter``, ``lipschitz`` = Σ_k w_k M_k and ``rate``; and the lists ``weights``
        and ``sizes``.
    """
    plans = {number: _plan(run, number) for number in clusters}
    losses, norms, diameter = _measure_states(run, {number: plan[0] for number, plan in plans.items()})
    rows = []
    for number, (labels, weights) in plans.items():
        sizes = np.bincount(labels)
        weighted = losses * (weights / sizes)[labels]
        middle, error = rademacher_term(weighted, stream(run.seed, f"studies/signs/{number}"), draws)
        rate = cover_rate(len(run.train), len(weights), cover, delta)
        lipschitz = float(weights @ norms[number])
        risk = float(weighted[-1].sum())
        rows.append(
            {
                "clusters": number,
                "found": len(weights),
                "risk": risk,
                "rademacher": middle,
                "rademacher_error": error,
                "cover_term": diameter * lipschitz * rate,
                "bound": risk + middle + diameter * lipschitz * rate,
                "diameter": diameter,
                "lipschitz": lipschitz,
                "rate": rate,
                "weights": weights.tolist(),
                "sizes": sizes.tolist(),
            }
        )
    return pl.DataFrame(rows)


def rademacher_term(weighted: FloatArray, rng: np.random.Generator, draws: int = 2000) -> tuple[float, float]:
    """E_σ max_θ Σ_i σ_i·a_i(θ) over signs σ, and the standard error of the estimate.

    Each sample is used together with its opposite, which has the same distribution, so that a single hypothesis gives
    exactly 0.

    Args:
        weighted: a_i(θ), [hypotheses, items].
        rng: generator of the signs.
        draws: number of pairs of opposite samples.

    Example:
        >>> rademacher_term(np.array([[2.0], [0.5]]), np.random.default_rng(0))
        (0.75, 0.0)
    """
    require_positive("draws", draws)
    values = np.empty(draws)
    for first in range(0, draws, 256):
        count = min(256, draws - first)
        signs = rng.integers(0, 2, (count, weighted.shape[1])) * 2.0 - 1
        sums = signs @ weighted.T
        values[first : first + count] = (sums.max(axis=1) - sums.min(axis=1)) / 2  # max of −x is −min of x
    return float(values.mean()), float(values.std() / math.sqrt(draws))


def cover_rate(pairs: int, clusters: int, cover: float = 0.05, delta: float = 0.05) -> float:
    """The rate √(2/T · ln(|W|_ε/δ)) with T = pairs·K and |W|_ε ≤ (1 + 2/ε)^(K−1).

    Example:
        >>> round(cover_rate(200, 1), 6) == round((2 / 200 * math.log(20)) ** 0.5, 6)
        True
    """
    logarithm = (clusters - 1) * math.log(1 + 2 / cover) - math.log(delta)
    return math.sqrt(2 / (pairs * clusters) * logarithm)


def _plan(run: Trajectory, clusters: int) -> tuple[IntArray, FloatArray]:
    """Cluster labels of the items and cluster weights at the last state, with the settings of the run except K."""
    method, counts = run.method, run.train.item_counts
    settings = method.settings.replace(clusters=clusters)
    with evaluation_mode(method), torch.no_grad():
        items = method.backbone.reps()[1]
        fixed = settings.propensity == "popularity"
        propensity = method.log_popularity if fixed else method.propensity(items)
    draws = stream(run.seed, f"studies/clusters/{clusters}")
    grouped = ItemClusters(settings, counts, items.shape[1], draws)
    if settings.features != "popularity":
        grouped.autoencoder = copy.deepcopy(method.clusters.autoencoder)  # in the state the run has trained it to
    grouped.assign(items, propensity.cpu().double().numpy(), draws)
    labels = grouped.label_array()
    gram = _gram(run, labels)
    if settings.per_item:
        sizes = np.bincount(labels)
        gram = gram / np.outer(sizes, sizes)
    weights = pareto_weights(gram, draws, *settings.bounds, settings.runs)
    return labels, np.asarray(weights / weights.sum())


def _measure_states(run: Trajectory, labels: Mapping[int, IntArray]) -> tuple[FloatArray, dict[int, FloatArray], float]:
    """Losses L_i⁺ [states, items], largest gradient norms M_k of the clusters' mean losses for each K, and 𝒟."""
    train, items = run.train, len(run.train.items)
    losses, widest = [], 0.0
    norms: dict[int, FloatArray] = {number: np.zeros(int(one.max()) + 1) for number, one in labels.items()}
    try:
        for state in run.states:
            run.method.load_state_dict(state)
            each = np.logaddexp(0, -pair_logits(run.method, train.user, train.item))
            losses.append(np.bincount(train.item, each, items))
            widest = max(widest, _range_of_scores(run))
            for number, one in labels.items():
                found = np.sqrt(np.maximum(np.diagonal(_gram(run, one)), 0)) / np.bincount(one)
                norms[number] = np.maximum(norms[number], found)
    finally:
        run.method.load_state_dict(run.states[-1])
    return np.stack(losses), norms, math.hypot(widest, 1.0)  # labels differ by 1


def _gram(run: Trajectory, labels: IntArray) -> FloatArray:
    """Inner products of the gradients of the summed cluster losses on the shared parameters."""
    method, train = run.method, run.train

    def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        rows, theirs = method.backbone.rows(users, items)
        return rows, F.softplus(-own_logits(method, rows, theirs))

    at_rows, draws = method.backbone.trains_rows, stream(run.seed, "studies/pairs")
    with evaluation_mode(method):
        return gram_by_autograd(
            method.backbone, losses, train.user, train.item, labels, int(labels.max()) + 1, at_rows, draws
        )


def _range_of_scores(run: Trajectory) -> float:
    """Difference between the largest and the smallest S^n of all items, for all users or a sample of them."""
    method, count = run.method, len(run.train.users)
    with evaluation_mode(method), torch.no_grad():
        table = method.scores()
    users = np.arange(count)
    if count > _USERS:
        users = stream(run.seed, "studies/users").choice(count, _USERS, replace=False)
    low, high = math.inf, -math.inf
    for first in range(0, len(users), 64):
        block = table.block(users[first : first + 64], 0, table.items)
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    return (high - low) / method.score_unit
