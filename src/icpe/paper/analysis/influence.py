"""Theorem 1 in numbers: how the gradient of an item grows with its popularity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from icpe import columns as col
from icpe.backbones import make_backbone
from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.methods.normal import Normal
from icpe.paper.analysis.checks import require_positive
from icpe.paper.analysis.gradients import ItemGradients, OnStep, norm
from icpe.rng import stream
from icpe.types import FloatArray, IntArray

PLACES = ("rows", "common", "shared")


@dataclass(frozen=True)
class PowerFit:
    """Power law norm ∝ popularity^slope, fitted by ordinary least squares of the logarithms.

    Attributes:
        slope: the exponent.
        intercept: intercept of the logarithms.
        low: lower end of the 95 % confidence interval of the slope.
        high: upper end of the interval.
        r2: share of explained variance.
    """

    slope: float
    intercept: float
    low: float
    high: float
    r2: float


@dataclass(frozen=True)
class Influence:
    """Gradient norms of items in untrained models, and the power law fitted to them.

    Attributes:
        points: frame ``place, item_id, popularity, gradient_norm``. The norm is the geometric mean over
            initialisations.
        fits: frame ``backbone, place, slope, low, high, r2, spread, items, initialisations``. ``spread`` is the
            standard deviation of the slope over initialisations.
    """

    points: pl.DataFrame
    fits: pl.DataFrame


def power_fit(popularity: IntArray | FloatArray, norms: FloatArray) -> PowerFit:
    """Fit a power law to gradient norms.

    Raises:
        DataError: fewer than three points, equal popularities, or a value that is not above 0.

    Example:
        >>> round(power_fit(np.array([1, 2, 4, 8]), np.array([1.0, 4.1, 15.9, 64.0])).slope, 2)
        2.0
    """
    from scipy import stats  # late: SciPy takes a while to import

    if len(norms) < 3 or len(np.unique(popularity)) < 2 or not ((popularity > 0).all() and (norms > 0).all()):
        raise DataError(
            f"cannot fit a power law to {len(norms)} points; expected at least three, with different popularities and "
            "positive norms"
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
    """Exponent with which the gradient of an item's summed positive loss grows with popularity before training.

    Theorem 1 considers one vector of parameters, so the norm is taken in three places: ``rows`` are the users' own
    rows, of which an item with n users affects n (more for LightGCN, through propagation); ``common`` is what all users
    share, that is, common layers and an equal shift of all users' rows; ``shared`` are all shared parameters together,
    as ICPE weighs them. The confidence interval is over items. Their norms are averaged over initialisations first,
    because several norms of one item are not independent.

    Args:
        backbone: ``name`` and settings of the backbone, as in a configuration.
        train: training part.
        initialisations: number of random initialisations.
        items: number of items, spread evenly over the logarithm of the rank of popularity.
        rng: seed of the initialisations.
        on_step: called with the number of finished initialisations and of all initialisations.
    """
    require_positive("initialisations", initialisations)
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
    """Codes of items with training pairs, spread over the ranks of popularity, the most popular first."""
    ranked = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    ranks = np.unique(np.geomspace(1, len(ranked), items).round().astype(int)) - 1
    return np.asarray(ranked[ranks])


def _norms_by_place(gradients: list[Tensor], users: int) -> list[float]:
    rows = [one for one in gradients if one.dim() == 2 and len(one) == users]
    layers = [one for one in gradients if not (one.dim() == 2 and len(one) == users)]
    return [norm(rows), norm([*(one.sum(0) for one in rows), *layers]), norm(gradients)]
