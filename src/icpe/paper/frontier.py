"""What head items win and niche items lose: fronts of training by preferences, and of dials after training."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from icpe.backbones import make_backbone
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError, DataError
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods.icpe.method import ICPE
from icpe.methods.normal import Normal
from icpe.metrics import evaluate_lists
from icpe.paper.gradients import OnStep, method_of, pair_logits
from icpe.paper.preference import PreferenceTraining, preference_vectors, violations
from icpe.ranking import top_n
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.recommender import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.split import Parts
from icpe.train import Trainer
from icpe.train.method import Method, check_count
from icpe.types import BoolArray, FloatArray

METRICS = ("ndcg@20", "apt@20", "coverage@20")
_WARM_UP = 0.2  # share of the steps in which a preference may be reached first
_NEGATIVES = 1 << 16  # pairs by which the loss of items not used is judged


def loss_front(config: RunConfig, parts: Parts, preferences: int = 8, on_step: OnStep | None = None) -> pl.DataFrame:
    """End points of Pareto MTL, one training for each preference between head and niche loss.

    All trainings have the epochs, the learning rate and the negatives of the configuration and no early stopping, so
    that points differ by preference alone. Compare with :func:`reference_points`, which are trained as long.

    Args:
        config: of Normal with bce on some backbone.
        parts: the split.
        preferences: how many, spread over the quadrant; the first cares for the niche loss most.
        on_step: called with the steps done and those in all.

    Returns:
        A frame ``preference, angle``, the columns of :func:`loss_point`, ``feasible, dominated``: the angle of the
        preference in degrees, from the axis of the head loss; whether the losses lie in the preference's own sector;
        whether another end point is better in both.

    Raises:
        ConfigError: the method is another.
    """
    check_count("preferences", preferences)
    normal = _normal(config)
    vectors, settings = preference_vectors(preferences), config.train_settings(normal)
    steps = settings.epochs * -(-len(parts.train) // settings.batch_size)
    rows = []
    for chosen, vector in enumerate(vectors):
        method = PreferenceTraining(
            make_backbone(normal.backbone.name, **normal.backbone.settings()),
            vectors,
            chosen,
            warm_up=round(_WARM_UP * steps),
            negatives=normal.negative_count,
            reg=normal.reg,
        )
        _train(method, config, parts.train, on_step, chosen * steps, preferences * steps)
        row = loss_point(method, parts.train, config.seed)
        found = np.array([row["head_loss"], row["niche_loss"]])
        feasible = bool((violations(found, vectors, chosen) <= 0).all())
        angle = float(np.degrees(np.arctan2(vector[1], vector[0])))
        rows.append({"preference": chosen, "angle": angle, **row, "feasible": feasible})
    frame = pl.DataFrame(rows)
    worse = dominated(-frame.select("head_loss", "niche_loss").to_numpy())
    return frame.with_columns(pl.Series("dominated", worse))


def reference_points(
    config: RunConfig, parts: Parts, methods: Mapping[str, Mapping[str, Any]], on_step: OnStep | None = None
) -> pl.DataFrame:
    """Losses of other methods after as many epochs as those of :func:`loss_front`, without early stopping.

    Args:
        config: the same as there.
        parts: the split.
        methods: label → the section ``method`` of a configuration, such as ``{"name": "icpe", "preset": "paper"}``.
        on_step: called with the steps done and those in all.

    Returns:
        A frame ``label`` and the columns of :func:`loss_point`; ICPE has a second row for its score of training Ŷ:
        S^n alone is not what it fitted, and its level is free where the propensity makes up for it.
    """
    settings = config.train_settings(_normal(config))
    steps = settings.epochs * -(-len(parts.train) // settings.batch_size)
    # A preset of a data set may hold other settings of the loop; here all are trained alike.
    loop = RunConfig(backbone=config.expanded().backbone, train={"seed": config.seed, **settings.as_dict()})
    rows = []
    for place, (label, section) in enumerate(methods.items()):
        one = loop.updated("method", dict(section))
        method = one.make_method()
        _train(method, one, parts.train, on_step, place * steps, len(methods) * steps)
        rows.append({"label": label, **loss_point(method, parts.train, config.seed)})
        if isinstance(method, ICPE):
            rows.append({"label": f"{label} with S^g", **loss_point(method, parts.train, config.seed, factual=True)})
    return pl.DataFrame(rows)


def group_losses(trained: Model | Method, train: Interactions, factual: bool = False) -> tuple[float, float]:
    """Mean of softplus(−S^n) over the training pairs of head items, and over those of niche items.

    S^n is what ranks: the backbone's logit, without ICPE's propensity; for models trained by softmax cosine / τ, whose
    level is arbitrary, so that their points are not comparable with those of bce.

    Args:
        trained: any model or built method.
        train: the training part.
        factual: for ICPE, take the score of training Ŷ in place of S^n.

    Raises:
        DataError: all pairs are of one group.
    """
    return _by_group(pair_logits(trained, train.user, train.item, factual), train)


def loss_point(trained: Model | Method, train: Interactions, rng: int = 0, factual: bool = False) -> dict[str, float]:
    """Where a model lies in the plane of head and niche loss, and whether the place is comparable with another's.

    Positive losses alone can be lowered by raising all scores, which no ranking notices. So the loss of random pairs
    stands beside them, and the losses once more with all scores shifted by the number that is best for
    Normal's loss (mean over positives plus mean over random pairs).

    Returns:
        ``head_loss``, ``niche_loss`` (:func:`group_losses`), ``negative_loss``: the mean of softplus(S^n) over random
        pairs, ``shift``, ``head_levelled``, ``niche_levelled``.
    """
    from scipy.optimize import brentq  # late: it takes a while to import

    draws = stream(rng, "studies/negatives")
    count = min(_NEGATIVES, len(train.users) * len(train.items))
    users, items = draws.integers(len(train.users), size=count), draws.integers(len(train.items), size=count)
    negative = pair_logits(trained, users, items, factual)
    positive = pair_logits(trained, train.user, train.item, factual)

    def slope(shift: float) -> float:
        return float(_sigmoid(negative + shift).mean() - _sigmoid(-positive - shift).mean())

    reach = 1 + max(float(np.abs(negative).max()), float(np.abs(positive).max()))
    shift = float(brentq(slope, -reach, reach))
    head, niche = _by_group(positive, train)
    head_levelled, niche_levelled = _by_group(positive + shift, train)
    return {
        "head_loss": head,
        "niche_loss": niche,
        "negative_loss": float(np.logaddexp(0, negative).mean()),
        "shift": shift,
        "head_levelled": head_levelled,
        "niche_levelled": niche_levelled,
    }


def _sigmoid(logits: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -logits))


def _by_group(logits: FloatArray, train: Interactions) -> tuple[float, float]:
    """Mean loss of head and of niche positives from the logits of the training pairs."""
    losses, head = np.logaddexp(0, -logits), head_mask(train.item_counts)[train.item]
    if head.all() or not head.any():
        raise DataError("training pairs fall on one of head and niche only; a loss of each needs pairs of both")
    return float(losses[head].mean()), float(losses[~head].mean())


def dial_front(model: Model, parts: Parts, values: Sequence[float], kind: Literal["beta", "penalty"]) -> pl.DataFrame:
    """What a dial that needs no training does to the lists, on the test part with training and validation hidden.

    Args:
        model: trained ICPE for ``"beta"``; any for ``"penalty"``.
        parts: its split.
        values: of β, or of c in score − c·log popularity (in the unit of training, as of the method ``penalty``).
        kind: which dial.

    Returns:
        A frame ``value, ndcg@20, apt@20, coverage@20, dominated``, where larger NDCG and APT are better.

    Raises:
        ConfigError: the model has no such dial.
    """
    users = np.flatnonzero(parts.test.user_counts).astype(np.int32)
    depth = min(20, len(parts.train.items))
    rows = []
    for value in values:
        table = _turned(model, value, kind)
        lists = top_n(table, users, depth, hide=[parts.train, parts.valid])
        found = evaluate_lists(lists, parts.test, parts.train, n=[depth]).values
        rows.append({"value": float(value), **{name: found[f"{name.split('@')[0]}@{depth}"] for name in METRICS}})
    frame = pl.DataFrame(rows)
    return frame.with_columns(pl.Series("dominated", dominated(frame.select("ndcg@20", "apt@20").to_numpy())))


def dominated(points: FloatArray) -> BoolArray:
    """Which points have another that is at least as large in both and larger in one, bool [points].

    Args:
        points: [points, 2], larger is better; negate losses.

    Example:
        >>> dominated(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [2.0, 2.0]])).tolist()
        [False, False, True, False]
    """
    as_good = (points[:, None] >= points[None]).all(axis=2)
    better = (points[:, None] > points[None]).any(axis=2)
    return np.asarray((as_good & better).any(axis=0))


def hypervolume(points: FloatArray, reference: FloatArray) -> float:
    """Area that the points dominate above the reference point; exact, by a sweep along the first axis.

    Args:
        points: [points, 2], larger is better; negate losses.
        reference: [2], the worst value of each axis; a point that is not above it in both adds nothing.

    Example:
        >>> hypervolume(np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 1.0]]), np.zeros(2))
        5.0
    """
    spans = np.asarray(points, np.float64).reshape(-1, 2) - np.asarray(reference, np.float64)
    spans = spans[(spans > 0).all(axis=1)]
    area, height = 0.0, 0.0
    for width, tall in spans[np.lexsort((-spans[:, 1], -spans[:, 0]))]:
        area += width * max(tall - height, 0.0)
        height = max(height, tall)
    return float(area)


def hypervolumes(fronts: Mapping[str, FloatArray]) -> dict[str, float]:
    """:func:`hypervolume` of each front above the worst value of either axis over all of them."""
    worst = np.concatenate(list(fronts.values())).min(axis=0)
    return {name: hypervolume(points, worst) for name, points in fronts.items()}


def _normal(config: RunConfig) -> Normal:
    """Normal with bce, as the configuration has it."""
    method = config.make_method()
    if type(method) is not Normal or method.loss_kind != "bce":
        raise ConfigError(
            f"the front of losses is that of 'normal' with loss 'bce'; the configuration has {method.name!r} with "
            f"{getattr(method, 'loss_kind', 'its own loss')!r}"
        )
    return method


def _train(
    method: Method, config: RunConfig, train: Interactions, on_step: OnStep | None, before: int, total: int
) -> None:
    trainer = Trainer(method, train, config.seed, config.train_settings(method))
    trainer.run(None if on_step is None else lambda position: on_step(before + position.step, total))


def _turned(model: Model, value: float, kind: Literal["beta", "penalty"]) -> ScoreTable:
    """The scores with the dial at a value."""
    if kind == "beta":
        return model.adjusted(beta=float(value)).scores
    if kind != "penalty":
        raise ConfigError(f"kind is {kind!r}; expected 'beta' or 'penalty'")
    method = method_of(model)
    softmax = isinstance(method, Normal) and method.loss_kind == "softmax"
    unit = method.temperature if softmax and isinstance(method, Normal) else 1.0
    return with_bias(model.scores, -np.float32(value * unit) * log_popularity(model.log).numpy())
