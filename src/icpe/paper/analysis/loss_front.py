"""Fronts of head and niche loss: one training per preference, and other methods for comparison."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from icpe.backbones import make_backbone
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError, DataError
from icpe.methods.icpe.method import ICPE
from icpe.methods.normal import Normal
from icpe.paper.analysis.checks import require_positive
from icpe.paper.analysis.fronts import dominated
from icpe.paper.analysis.gradients import OnStep
from icpe.paper.analysis.logits import pair_logits
from icpe.paper.analysis.pareto_mtl import ParetoMTL, preference_vectors, violations
from icpe.recommender import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.split import Parts
from icpe.train import Trainer
from icpe.train.method import TrainingMethod
from icpe.types import FloatArray

_WARM_UP = 0.2  # share of the steps that may be spent on satisfying the preference first
_NEGATIVES = 1 << 16  # random pairs that estimate the loss of negatives


def loss_front(config: RunConfig, parts: Parts, preferences: int = 8, on_step: OnStep | None = None) -> pl.DataFrame:
    """End points of Pareto MTL, one training for each preference between head and niche loss.

    All trainings use the epochs, learning rate and negatives of the configuration without early stopping, so that the
    points differ only by preference. :func:`reference_points` trains other methods equally long for comparison.

    Args:
        config: configuration of Normal with bce on any backbone.
        parts: split to train on.
        preferences: number of preferences, spread over the quadrant. The first one favours the niche loss most.
        on_step: called with the number of finished steps and of all steps.

    Returns:
        Frame ``preference, angle``, the columns of :func:`loss_point`, and ``feasible, dominated``. The angle of the
        preference is in degrees from the axis of the head loss. A point is feasible if its losses lie in the sector of
        its preference, and dominated if another end point is better in both losses.

    Raises:
        ConfigError: the method is not Normal with bce.
    """
    require_positive("preferences", preferences)
    normal = _normal(config)
    vectors, settings = preference_vectors(preferences), config.train_settings(normal)
    steps = settings.epochs * -(-len(parts.train) // settings.batch_size)
    rows = []
    for chosen, vector in enumerate(vectors):
        method = ParetoMTL(
            make_backbone(normal.backbone.name, **normal.backbone.settings.as_dict()),
            preferences=vectors.tolist(),
            chosen=chosen,
            warm_up=round(_WARM_UP * steps),
            negatives=normal.settings.negatives,
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
    """Losses of other methods, trained as long as the points of :func:`loss_front` and without early stopping.

    Args:
        config: the configuration given to :func:`loss_front`.
        parts: split to train on.
        methods: label → section ``method`` of a configuration, such as ``{"name": "icpe", "preset": "paper"}``.
        on_step: called with the number of finished steps and of all steps.

    Returns:
        Frame ``label`` and the columns of :func:`loss_point`. ICPE has a second row for its training score Ŷ, because
        it does not fit S^n alone: the propensity can compensate for any level of S^n.
    """
    settings = config.train_settings(_normal(config))
    steps = settings.epochs * -(-len(parts.train) // settings.batch_size)
    # A preset may contain other training settings, but here all methods are trained alike.
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


def group_losses(trained: Model | TrainingMethod, train: Interactions, factual: bool = False) -> tuple[float, float]:
    """Mean of softplus(−S^n) over the training pairs of head items, and over those of niche items.

    S^n is the score that ranks: the logit of the backbone, without ICPE's propensity. For models trained with softmax
    it is cosine / τ, whose level is arbitrary, so their losses cannot be compared with those of models trained with
    bce.

    Args:
        trained: a model or a built method.
        train: training part.
        factual: for ICPE, use the training score Ŷ instead of S^n.

    Raises:
        DataError: all pairs belong to one group.
    """
    return _by_group(pair_logits(trained, train.user, train.item, factual), train)


def loss_point(
    trained: Model | TrainingMethod, train: Interactions, rng: int = 0, factual: bool = False
) -> dict[str, float]:
    """Position of a model in the plane of head and niche loss, with and without a common level of scores.

    Raising all scores lowers the losses of positives without changing any ranking. Therefore the result also contains
    the loss of random pairs, and both losses after shifting all scores by the constant that minimises Normal's loss
    (mean over positives plus mean over random pairs).

    Returns:
        ``head_loss`` and ``niche_loss`` of :func:`group_losses`; ``negative_loss``, the mean of softplus(S^n) over
        random pairs; ``shift``; and the losses after the shift, ``head_levelled`` and ``niche_levelled``.
    """
    from scipy.optimize import brentq  # late: SciPy takes a while to import

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
        raise DataError(
            "all training pairs belong to head items or all to niche items; expected pairs of both. Use a larger log"
        )
    return float(losses[head].mean()), float(losses[~head].mean())


def _normal(config: RunConfig) -> Normal:
    """The method of the configuration, which must be Normal with bce."""
    method = config.make_method()
    if type(method) is not Normal or method.settings.loss != "bce":
        raise ConfigError(
            f"the front of losses needs the method 'normal' with loss 'bce'; the configuration has {method.name!r} "
            f"with {getattr(method.settings, 'loss', 'its own loss')!r}"
        )
    return method


def _train(
    method: TrainingMethod, config: RunConfig, train: Interactions, on_step: OnStep | None, before: int, total: int
) -> None:
    trainer = Trainer(method, train, config.seed, config.train_settings(method))
    trainer.run(None if on_step is None else lambda position: on_step(before + position.step, total))
