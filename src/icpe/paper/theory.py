"""The paper's theorems in numbers: how gradients grow with popularity, and the terms of the generalisation bound."""

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe import columns as col
from icpe.backbones import make_backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.methods.icpe.clusters import ClusterSettings, ItemClusters
from icpe.methods.icpe.gram import evaluating, gram_by_autograd
from icpe.methods.icpe.method import ICPE
from icpe.methods.normal import Normal
from icpe.paper.gradients import ItemGradients, OnStep, norm, own_logits, pair_logits
from icpe.pareto import pareto_weights
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.train import Trainer
from icpe.train.method import check_count
from icpe.types import FloatArray, IntArray

PLACES = ("rows", "common", "shared")
_USERS = 1024  # whose scores of all items are looked at for their range


@dataclass(frozen=True)
class PowerFit:
    """norm ∝ popularity^slope, by ordinary least squares of the logarithms.

    Attributes:
        slope: the exponent.
        intercept: of the logarithms.
        low: lower end of the 95 % interval of the slope.
        high: upper end.
        r2: share of the variance explained.
    """

    slope: float
    intercept: float
    low: float
    high: float
    r2: float


@dataclass(frozen=True)
class Influence:
    """Gradient norms of items on an untrained model, and the power law through them.

    Attributes:
        points: frame ``place, item_id, popularity, gradient_norm``; the norm is the geometric mean over
            initialisations.
        fits: frame ``backbone, place, slope, low, high, r2, spread, items, initialisations``; ``spread`` is the
            standard deviation of the slope over initialisations.
    """

    points: pl.DataFrame
    fits: pl.DataFrame


def power_fit(popularity: IntArray | FloatArray, norms: FloatArray) -> PowerFit:
    """Fit of a power law.

    Raises:
        DataError: fewer than three points, equal popularities, or a value that is not above 0.

    Example:
        >>> round(power_fit(np.array([1, 2, 4, 8]), np.array([1.0, 4.1, 15.9, 64.0])).slope, 2)
        2.0
    """
    from scipy import stats  # late: it takes a while to import

    if len(norms) < 3 or len(np.unique(popularity)) < 2 or not ((popularity > 0).all() and (norms > 0).all()):
        raise DataError(
            f"a power law through {len(norms)} points cannot be fitted; expected three or more, with popularities that "
            "differ and norms above 0"
        )
    line = stats.linregress(np.log(popularity), np.log(norms))
    half = float(stats.t.ppf(0.975, len(norms) - 2) * line.stderr)
    slope = float(line.slope)
    return PowerFit(slope, float(line.intercept), slope - half, slope + half, float(line.rvalue**2))


def influence_exponent(
    backbone: Mapping[str, Any],
    train: Interactions,
    initialisations: int = 10,
    items: int = 200,
    rng: int = 0,
    on_step: OnStep | None = None,
) -> Influence:
    """How the gradient of an item's summed positive loss grows with its popularity, before training (Theorem 1).

    The theorem speaks of one vector of parameters, so the norm is taken in three places: ``rows``, the users' own rows
    side by side, of which an item with n users touches n (for LightGCN more, through propagation); ``common``, what
    all users share: common layers, and a shift of all users' rows alike; ``shared``, all shared parameters together,
    as ICPE weighs them. The interval is over items, whose norms are averaged over initialisations first: several norms
    of one item are not independent of each other.

    Args:
        backbone: ``name`` and settings, as in a configuration.
        train: the training part.
        initialisations: how many.
        items: how many, spread evenly over the logarithm of the rank of popularity.
        rng: seed of the start values.
        on_step: called with the initialisations done and those in all.
    """
    check_count("initialisations", initialisations)
    settings = dict(backbone)
    name = str(settings.pop("name", "mf"))
    chosen = _spread_over_ranks(train.item_counts, items)
    popularity = train.item_counts[chosen]
    logs = np.empty((initialisations, len(PLACES), len(chosen)))
    for number in range(initialisations):
        method = Normal(make_backbone(name, **settings))
        method.build(train, stream(rng, f"studies/influence/{number}"))
        gradients = ItemGradients(method, train)
        for column, item in enumerate(chosen):
            logs[number, :, column] = np.log(_norms_by_place(gradients.of(int(item)), len(train.users)))
        if on_step is not None:
            on_step(number + 1, initialisations)
    points, fits = [], []
    for number, place in enumerate(PLACES):
        means = np.exp(logs[:, number].mean(axis=0))
        spread = float(np.std([power_fit(popularity, np.exp(one)).slope for one in logs[:, number]]))
        ids = train.items.gather(chosen)
        points.append(
            pl.DataFrame({col.ITEM: ids, "popularity": popularity, "gradient_norm": means}).select(
                pl.lit(place).alias("place"), pl.all()
            )
        )
        fit = power_fit(popularity, means)
        fits.append(
            {
                "backbone": name,
                "place": place,
                "slope": fit.slope,
                "intercept": fit.intercept,
                "low": fit.low,
                "high": fit.high,
                "r2": fit.r2,
                "spread": spread,
                "items": len(chosen),
                "initialisations": initialisations,
            }
        )
    return Influence(pl.concat(points), pl.DataFrame(fits))


def _spread_over_ranks(counts: IntArray, items: int) -> IntArray:
    """Codes of items with training pairs, most popular first."""
    ranked = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    ranks = np.unique(np.geomspace(1, len(ranked), items).round().astype(int)) - 1
    return np.asarray(ranked[ranks])


def _norms_by_place(gradients: list[Tensor], users: int) -> list[float]:
    rows = [one for one in gradients if one.dim() == 2 and len(one) == users]
    layers = [one for one in gradients if not (one.dim() == 2 and len(one) == users)]
    return [norm(rows), norm([*(one.sum(0) for one in rows), *layers]), norm(gradients)]


@dataclass(frozen=True)
class Trajectory:
    """States a run of ICPE has passed through.

    Attributes:
        method: ICPE, in its last state.
        train: what it was trained on.
        states: parameters and buffers at each checkpoint, the last at the end.
        seed: of the run.
    """

    method: ICPE
    train: Interactions
    states: list[dict[str, Tensor]]
    seed: int


def trajectory(
    config: RunConfig, train: Interactions, checkpoints: int = 10, on_step: OnStep | None = None
) -> Trajectory:
    """Train ICPE to the last epoch and keep states at equal distances.

    Raises:
        ConfigError: the method is another.
    """
    check_count("checkpoints", checkpoints)
    method = config.make_method()
    if not isinstance(method, ICPE):
        raise ConfigError(f"the bound is that of ICPE; the configuration has {method.name!r}")
    settings = config.train_settings(method)
    steps = settings.epochs * -(-len(train) // settings.batch_size)
    # The loop brings the parameters up to date before it looks, with or without validation data.
    trainer = Trainer(method, train, config.seed, replace(settings, evaluate_every=-(-steps // checkpoints)))
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

    The states of one run stand for the hypotheses Θ, so the supremum is over few of them and the second term is a lower
    estimate. For each K, items are clustered and weighed (Σ w = 1) at the run's last state as ICPE would. L_i⁺ is the
    sum of softplus(−S^n) over the users of an item, as the paper has it.

    Args:
        run: see :func:`trajectory`.
        clusters: values of K to try.
        draws: of the signs σ.
        cover: ε of the cover of the weights.
        delta: the bound fails with this probability.

    Returns:
        A frame with a row per K: ``clusters`` asked for, ``found``, ``risk`` Σ_k w_k/|c_k| Σ_i L_i⁺ at the last
        state, ``rademacher`` with its standard error ``rademacher_error``, ``cover_term``, their sum ``bound``, and
        what the third term is made of: ``diameter``, ``lipschitz`` = Σ_k w_k M_k, and ``rate`` = its root. ``weights``
        and ``sizes`` are lists.
    """
    plans = {number: _plan(run, number) for number in clusters}
    losses, norms, diameter = _look_at_states(run, {number: plan[0] for number, plan in plans.items()})
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

    Each draw is used with its opposite, which has the same distribution; so one hypothesis gives exactly 0.

    Args:
        weighted: a_i(θ), [hypotheses, items].
        rng: of the signs.
        draws: pairs of opposite signs.

    Example:
        >>> rademacher_term(np.array([[2.0], [0.5]]), np.random.default_rng(0))
        (0.75, 0.0)
    """
    check_count("draws", draws)
    values = np.empty(draws)
    for first in range(0, draws, 256):
        count = min(256, draws - first)
        signs = rng.integers(0, 2, (count, weighted.shape[1])) * 2.0 - 1
        sums = signs @ weighted.T
        values[first : first + count] = (sums.max(axis=1) - sums.min(axis=1)) / 2  # max of −x is −min of x
    return float(values.mean()), float(values.std() / math.sqrt(draws))


def cover_rate(pairs: int, clusters: int, cover: float = 0.05, delta: float = 0.05) -> float:
    """√(2/T · ln(|W|_ε/δ)) with T = pairs·K and |W|_ε ≤ (1 + 2/ε)^(K−1).

    Example:
        >>> round(cover_rate(200, 1), 6) == round((2 / 200 * math.log(20)) ** 0.5, 6)
        True
    """
    logarithm = (clusters - 1) * math.log(1 + 2 / cover) - math.log(delta)
    return math.sqrt(2 / (pairs * clusters) * logarithm)


def _plan(run: Trajectory, clusters: int) -> tuple[IntArray, FloatArray]:
    """Labels of the items and weights of the clusters at the last state, by the settings of the run but for K."""
    method, counts = run.method, run.train.item_counts
    settings = ClusterSettings(clusters, method.features, method.low, method.high, method.runs, method.per_item)
    with evaluating(method), torch.no_grad():
        items = method.backbone.reps()[1]
        fixed = method.propensity_kind == "popularity"
        propensity = method.log_popularity if fixed else method.propensity(items)
    draws = stream(run.seed, f"studies/clusters/{clusters}")
    grouped = ItemClusters(settings, counts, items.shape[1], draws)
    if method.features != "popularity":
        grouped.autoencoder = copy.deepcopy(method.clusters.autoencoder)  # as far as the run has trained it
    grouped.regroup(items, propensity.cpu().double().numpy(), draws)
    labels = grouped.label_array()
    gram = _gram(run, labels)
    if method.per_item:
        sizes = np.bincount(labels)
        gram = gram / np.outer(sizes, sizes)
    weights = pareto_weights(gram, draws, method.low, method.high, method.runs)
    return labels, np.asarray(weights / weights.sum())


def _look_at_states(run: Trajectory, labels: Mapping[int, IntArray]) -> tuple[FloatArray, dict[int, FloatArray], float]:
    """Losses L_i⁺ [states, items], the largest gradient norm M_k of each cluster's mean loss for each K, and 𝒟."""
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
    """Inner products of the gradients of the clusters' summed losses on the shared parameters."""
    method, train = run.method, run.train

    def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        rows, theirs = method.backbone.rows(users, items)
        return rows, F.softplus(-own_logits(method, rows, theirs))

    at_rows, draws = bool(method.backbone.row_tables()[0]), stream(run.seed, "studies/pairs")
    with evaluating(method):
        return gram_by_autograd(
            method.backbone, losses, train.user, train.item, labels, int(labels.max()) + 1, at_rows, draws
        )


def _range_of_scores(run: Trajectory) -> float:
    """Largest less smallest S^n, of all users or of some, with all items."""
    method, people = run.method, len(run.train.users)
    with evaluating(method), torch.no_grad():
        table = method.own_scores()
    unit = method.temperature if method.loss_kind == "softmax" else 1.0
    users = np.arange(people)
    if people > _USERS:
        users = stream(run.seed, "studies/users").choice(people, _USERS, replace=False)
    low, high = math.inf, -math.inf
    for first in range(0, len(users), 64):
        block = table.block(users[first : first + 64], 0, table.items)
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    return (high - low) / unit
