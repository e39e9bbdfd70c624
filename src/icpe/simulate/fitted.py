"""A world fitted to a real log.

What users like comes from a strong model: ICPE on MF, trained on the log, at a dial of 0, which leaves the pull of
popularity out. The probability that user u chooses item i next, among the items that they do not have, is modelled as
P(i | u) ∝ n_i^c · exp(a · s(u, i)) with the model's score s and the popularity n_i. The sharpness a of tastes and the
pull c of popularity are those with the highest likelihood of pairs that the model has not seen.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from icpe.backbones import MF
from icpe.data.interactions import Interactions
from icpe.data.world import World
from icpe.errors import ConfigError, DataError
from icpe.methods import ICPE
from icpe.ranking.tables import DotScores, ScoreTable
from icpe.rng import stream
from icpe.simulate.arms import held_out_pairs
from icpe.types import FloatArray, IntArray

LIKING = 0.6
_PAIRS = 5000  # held-out pairs that the choice model is fitted to
_CELLS = 1 << 22  # scores held in memory at once
_STEPS = 30  # of Newton's method, which needs about six
_UNSEEN = 0.5  # count of an item that only held-out pairs have


@dataclass(frozen=True)
class Choice:
    """How users choose in a log: P(i | u) ∝ n_i^pull · exp(sharpness · s(u, i)).

    Attributes:
        sharpness: factor a of the scores.
        pull: power c of popularity.
        likelihood: mean log-likelihood of a held-out choice.
        by_popularity: the same if users chose by popularity alone, P(i | u) ∝ n_i.
    """

    sharpness: float
    pull: float
    likelihood: float
    by_popularity: float


def fit_world(log: Interactions, liking: float = LIKING, seed: int = 0, **train: Any) -> tuple[World, Choice]:
    """Return a world whose users behave as those of a log, and how they choose.

    The preference is θ(u, i) = a · s(u, i) + b. What a log cannot show is assumed: it has no lists, so the level b of
    acceptance is set such that users accept held-out items of their own with probability ``liking`` on average. Items
    are found with a probability proportional to n_i^c.

    Args:
        log: the log.
        liking: mean true utility of held-out pairs, between 0 and 1.
        seed: seed of the training and of what is held out.
        train: settings of training, such as ``epochs``; by default those of ``icpe train``.

    Raises:
        ConfigError: ``liking`` is out of range.
        DataError: the log is too small to hold something out.
    """
    check_liking(liking)
    held_out = held_out_pairs(log, seed)
    known, unseen = log.keep(~held_out), log.keep(held_out)
    if not len(known) or not len(unseen):
        raise DataError(
            f"{log.reading.source} has {len(log)} interactions, too few to fit a world; use a longer log, or "
            "generate a world: icpe data make -o world"
        )
    table = ICPE(MF()).fit(known, unseen, seed, **{**train, "goal": "none"}).scores
    assert isinstance(table, DotScores)  # MF ranks by inner products
    choice = fit_choice(table, known, unseen, seed)
    useful = choice.sharpness * _scores(table, unseen.user, unseen.item)
    level = _level(useful, liking)
    bias = np.zeros(table.items) if table.item_bias is None else table.item_bias
    exposure = np.maximum(log.item_counts, _UNSEEN) ** choice.pull
    return World(
        log,
        (choice.sharpness * table.user_vectors).astype(np.float32),
        table.item_vectors,
        (choice.sharpness * bias + level).astype(np.float32),
        exposure / exposure.sum(),
    ), choice


def check_liking(liking: float) -> None:
    """Check the mean true utility of held-out pairs.

    Raises:
        ConfigError: it is not between 0 and 1.
    """
    if isinstance(liking, bool) or not isinstance(liking, int | float) or not 0 < liking < 1:
        raise ConfigError(
            f"liking is {liking!r}; expected a share between 0 and 1. Pass liking=0.6 or another (command line: "
            "--liking 0.6)"
        )


def fit_choice(table: ScoreTable, train: Interactions, valid: Interactions, seed: int = 0) -> Choice:
    """Return the sharpness and the pull with the highest likelihood of held-out pairs, found by Newton's method.

    Args:
        table: scores s of a model that was trained on ``train``.
        train: what users have; they cannot choose it again. Its counts are the popularity.
        valid: held-out pairs in the same codes, of which a random sample is used.
        seed: seed of the sample.
    """
    rows = np.sort(stream(seed, "simulate/fit").permutation(len(valid))[:_PAIRS])
    user, item = valid.user[rows].astype(np.int64), valid.item[rows].astype(np.int64)
    popularity = np.log(np.maximum(train.item_counts, _UNSEEN))
    weights = np.array([1.0, 1.0])
    value, slope, curvature = _likelihood(weights, table, popularity, train, user, item)
    for _ in range(_STEPS):
        # The likelihood is concave; the small ridge keeps a step finite where scores do not differ.
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), slope)
        while (found := _likelihood(weights + step, table, popularity, train, user, item))[0] < value - 1e-12:
            step /= 2
        weights, (value, slope, curvature) = weights + step, found
        if np.abs(step).max() < 1e-6:
            break
    alone = _likelihood(np.array([0.0, 1.0]), table, popularity, train, user, item)[0]
    return Choice(float(weights[0]), float(weights[1]), value, alone)


def _likelihood(
    weights: FloatArray, table: ScoreTable, popularity: FloatArray, train: Interactions, user: IntArray, item: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Mean log-likelihood of the choices, its gradient [2] and the negative of its matrix of second derivatives."""
    value, slope, curvature = 0.0, np.zeros(2), np.zeros((2, 2))
    bounds = np.searchsorted(train.user, np.arange(table.users + 1))
    rows = max(1, _CELLS // table.items)
    for start in range(0, len(user), rows):
        who, what = user[start : start + rows], item[start : start + rows]
        scores = table.block(who, 0, table.items).astype(np.float64)
        logits = weights[0] * scores + weights[1] * popularity
        for row, one in enumerate(who):
            logits[row, train.item[bounds[one] : bounds[one + 1]]] = -np.inf
        place = np.arange(len(who))
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        total = share.sum(axis=1, keepdims=True)
        value += float((np.log(share[place, what]) - np.log(total[:, 0])).sum())
        share /= total
        mean = np.stack([(share * scores).sum(axis=1), share @ popularity])
        slope += np.array([scores[place, what].sum(), popularity[what].sum()]) - mean.sum(axis=1)
        mixed = float((share * scores * popularity).sum())
        second = np.array([[float((share * scores**2).sum()), mixed], [mixed, float((share @ popularity**2).sum())]])
        curvature += second - mean @ mean.T
    return value / len(user), slope / len(user), curvature / len(user)


def _scores(table: DotScores, user: IntArray, item: IntArray) -> FloatArray:
    found = np.einsum("nd,nd->n", table.user_vectors[user], table.item_vectors[item], dtype=np.float64)
    return np.asarray(found if table.item_bias is None else found + table.item_bias[item])


def _level(scores: FloatArray, liking: float) -> float:
    """The number b with which the mean of 1 / (1 + exp(−scores − b)) is ``liking``, found by bisection."""
    low, high = -float(scores.max()) - 40, -float(scores.min()) + 40
    for _ in range(80):
        middle = (low + high) / 2
        if (1 / (1 + np.exp(-np.clip(scores + middle, -500, 500)))).mean() < liking:
            low = middle
        else:
            high = middle
    return (low + high) / 2
