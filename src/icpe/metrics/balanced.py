"""Accuracy that judges all items alike on ordinary data, by weights against popularity.

People had more chances to use popular items, so an ordinary held-out part repeats the popularity of the log, and a list
of popular items does well on it. Here the pair of a user and item i counts 1 / propensity, where the propensity n_i^a
is the part of its popularity that the training count n_i explains. All items then have about the same total weight, as
in a held-out part that is uniform over items. The averages are divided by the sum of the weights (self-normalised
inverse propensity weighting), and equal weights give the plain metrics.

:func:`item_weights` computes the weights. :func:`recall` and :func:`ndcg` take arrays of *gains* [..., users, n]: the
weight of each listed item if it is relevant, otherwise 0. Leading axes may hold lists of several models or settings.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.metrics.hits import Hits
from icpe.metrics.power_law import PowerLaw
from icpe.types import FloatArray, IntArray

CLIP = 10.0
FEW_PAIRS = 100
_LARGEST_POWER = 2.0


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """What a held-out pair of each item counts.

    Attributes:
        weights: float64 [items], with a mean of 1 over the held-out pairs.
        power: the power a of the propensity n_i^a; 0 gives equal weights.
        effective_size: (Σ w)² / Σ w² over the held-out pairs: as many pairs of equal weight would tell as much.
    """

    weights: FloatArray
    power: float
    effective_size: float


def item_weights(
    train: Interactions, held: Interactions, power: float | None = None, clip: float = CLIP
) -> ItemWeights:
    """Weights that make the held-out pairs of all items count alike.

    The weight of item i is 1 / max(n_i, 1)^power, but at most ``clip`` times the median weight of the held-out pairs.
    Half of the pairs have at least the median weight, so the effective size is at least a 2·clip-th of the pairs,
    however rare the rarest item is.

    Args:
        train: training part, whose counts n_i decide the weights.
        held: held-out part to be weighted, with the same codes.
        power: power of the propensity; None fits it with :func:`fitted_power`.
        clip: largest weight as a multiple of the median.

    Raises:
        ConfigError: ``power`` is negative or not finite, or ``clip`` is below 1.

    Example:
        >>> import polars as pl
        >>> log = Interactions.read(pl.DataFrame({"user_id": [1, 2, 3, 4, 1], "item_id": [1, 1, 1, 1, 2]}))
        >>> found = item_weights(log, log.keep(log.user == 0), power=1)  # one pair of either item
        >>> found.weights.tolist(), round(found.effective_size, 3)
        ([0.4, 1.6], 1.471)
    """
    if power is not None and not (power >= 0 and math.isfinite(power)):
        raise ConfigError(f"power is {power}; expected a number of at least 0, or None to fit it to the data")
    if not clip >= 1:
        raise ConfigError(f"clip is {clip}; expected a number of at least 1, because the median weight must not change")
    counts = np.maximum(train.item_counts, 1)
    if power is None:
        power = fitted_power(counts, held.item_counts)
    weights = counts ** -float(power)
    pairs = weights[held.item]
    if len(pairs) == 0:
        return ItemWeights(np.ones(len(counts)), power, 0.0)
    limit = clip * np.median(pairs)
    weights, pairs = np.minimum(weights, limit), np.minimum(pairs, limit)
    return ItemWeights(weights / pairs.mean(), power, float(pairs.sum() ** 2 / (pairs**2).sum()))


def fitted_power(counts: IntArray, held_counts: IntArray) -> float:
    """The power a for which held-out counts are best explained as proportional to n_i^a, from 0 to 2.

    This is the maximum-likelihood Poisson regression of the held-out counts on log n_i. At its solution, the mean of
    log n_i over held-out pairs equals the mean under the distribution proportional to n_i^a over items. It is near 0 if
    the held-out part is uniform over items, and near 1 if it is a random part of the log. It is 0 if all items have
    equal counts or nothing is held out, because the data then say nothing about it.

    Args:
        counts: int [items], training counts n_i. A count of 0 is taken as 1.
        held_counts: int [items], number of held-out pairs of each item.

    Example:
        >>> fitted_power(np.array([1, 4, 16]), np.array([5, 10, 20]))  # proportional to the square root
        0.5
    """
    counts = np.maximum(counts, 1)
    law = PowerLaw.of(counts)
    if len(law.logs) < 2 or not held_counts.any():
        return 0.0
    found = np.average(np.log(counts), weights=held_counts)
    return round(float(law.power(np.array([found]), 0.0, _LARGEST_POWER)[0]), 9)  # the data determine far fewer digits


@dataclass(frozen=True, eq=False)
class Wanted:
    """Weights of the relevant items T of each user.

    Attributes:
        total: float64 [users], Σ_{i ∈ T} w_i.
        best: float64 [users, n], the largest weights in T in descending order, 0 after the last: the ideal gains.
        share: float64 [users], what the user counts in averages: the mean of w_i over T, divided by its mean over
            users, so that the plain mean of share · value is the average.
    """

    total: FloatArray
    best: FloatArray
    share: FloatArray

    @classmethod
    def of(cls, users: IntArray, held: Interactions, weights: FloatArray, n: int) -> "Wanted":
        """Return what each of ``users``, who must have held-out pairs, wants. ``n`` is the length of the lists."""
        size = len(weights)
        heaviest_first = np.argsort(-weights, kind="stable")
        place = np.empty(size, np.int64)
        place[heaviest_first] = np.arange(size)
        # Pairs are in the order of users, so sorting these keys only changes the order within each user.
        keys = np.sort(held.user.astype(np.int64) * size + place[held.item])
        gains = weights[heaviest_first[keys % size]]
        ends = np.cumsum(held.user_counts)
        position = np.arange(len(held)) - (ends - held.user_counts)[held.user]
        best, shown = np.zeros((len(held.users), n)), position < n
        best[held.user[shown], position[shown]] = gains[shown]
        total = np.bincount(held.user, weights=gains, minlength=len(held.users))[users].astype(np.float64)
        mean = total / held.user_counts[users]
        return cls(total, best[users], mean / mean.mean())

    def rows(self, rows: IntArray) -> "Wanted":
        """Return what some of the users want; they count as they do among all users."""
        return Wanted(self.total[rows], self.best[rows], self.share[rows])


def gains(hits: Hits, weights: FloatArray, n: int) -> FloatArray:
    """Gains of each list, float64 [lists, n]: the weight of each relevant item at its position, otherwise 0.

    Example:
        >>> hits = Hits(row=np.array([1]), rank=np.array([2]), item=np.array([0]), relevant=np.array([1, 1]))
        >>> gains(hits, np.array([0.5, 2.0]), 3).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0]]
    """
    found = np.zeros((len(hits.relevant), n))
    within = hits.rank <= n
    found[hits.row[within], hits.rank[within] - 1] = weights[hits.item[within]]
    return found


def recall(gain: FloatArray, wanted: Wanted, n: int) -> FloatArray:
    """Weight of the relevant items in each list by the weight of all relevant items, float64 [..., users].

    Σ_{r≤n} [L_r ∈ T]·w(L_r) / Σ_{i ∈ T} w_i. ``gain`` is float [..., users, at least n].

    Example:
        >>> recall(np.array([[0.0, 1.5]]), _example(), 2).tolist()
        [0.75]
    """
    return np.asarray(_sum(gain, np.ones(n)) / wanted.total)


def ndcg(gain: FloatArray, wanted: Wanted, n: int) -> FloatArray:
    """Discounted cumulative gain of each list by that of an ideal list, which shows the heaviest items first.

    DCG = Σ_{r≤n} [L_r ∈ T]·w(L_r) / log2(r + 1), and the same for the n largest weights of T in descending order.
    ``gain`` is float [..., users, at least n]; the result is float64 [..., users].

    Example:
        >>> ndcg(np.array([[1.5, 0.5]]), _example(), 2).tolist()
        [1.0]
    """
    discount = 1 / np.log2(np.arange(2, n + 2))
    return np.asarray(_sum(gain, discount) / _sum(wanted.best, discount))


def warn_if_few(effective_size: float, pairs: int) -> None:
    """Warn if the effective size of held-out ``pairs`` is below 100, where the balanced metrics are mostly chance."""
    if effective_size < FEW_PAIRS:
        warnings.warn(
            f"the balanced metrics are uncertain: weighted, the {pairs:,} held-out pairs tell as much as "
            f"{effective_size:,.0f} of equal weight, and fewer than {FEW_PAIRS} cannot tell similar methods apart. "
            "Hold out more pairs, or use the plain metrics",
            stacklevel=3,
        )


def _sum(gain: FloatArray, discount: FloatArray) -> FloatArray:
    """Discounted sum over the first ranks, float64 [..., users]."""
    # Adding rank by rank makes equal weights give the plain metrics to the last bit; a matrix product would not.
    total = np.zeros(gain.shape[:-1])
    for rank, factor in enumerate(discount):
        total += gain[..., rank] * factor
    return total


def _example() -> Wanted:
    return Wanted(total=np.array([2.0]), best=np.array([[1.5, 0.5]]), share=np.array([1.0]))
