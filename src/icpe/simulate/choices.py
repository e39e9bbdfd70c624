"""How a user chooses: from a list, or without a recommender. Pure functions of arrays with one row per visit."""

import numpy as np

from icpe.types import BoolArray, FloatArray, IntArray

NOTHING = -1


def utility(preference: FloatArray) -> FloatArray:
    """True utility, the probability that the user accepts the item: sigmoid(preference), float64.

    Example:
        >>> utility(np.array([0.0])).tolist()
        [0.5]
    """
    return np.asarray(1 / (1 + np.exp(-preference.astype(np.float64))))


def attention(n: int, position_bias: float) -> FloatArray:
    """Probability that a user looks at each place of a list, float64 [n]: k^(-position_bias) at place k.

    Example:
        >>> attention(4, 1.0).tolist()
        [1.0, 0.5, 0.3333333333333333, 0.25]
    """
    return np.asarray(np.arange(1, n + 1, dtype=np.float64) ** -position_bias)


def choose_from_list(
    free: BoolArray, useful: FloatArray, seen: FloatArray, look: FloatArray, accept: FloatArray
) -> IntArray:
    """The place that each visit takes from its list, int64 [visits], or -1 for nothing.

    The user goes from the top down and takes the first item that they look at and accept.

    Args:
        free: [visits, n], places with an item that the user does not have yet.
        useful: [visits, n], true utility of the items.
        seen: [n], probability of a look at each place.
        look: [visits, n], uniform random numbers.
        accept: [visits, n], uniform random numbers.
    """
    return _first(free & (look < seen) & (accept < useful))


def explore(shown: IntArray, tried: IntArray, free: BoolArray, chance: FloatArray, share: float) -> IntArray:
    """Lists in which a share of the places shows a random item instead, [lists, n].

    A place keeps its item if the user has the random item already, or if the list shows it at another place.

    Args:
        shown: [lists, n], the items of the lists.
        tried: [lists, n], a random item for each place.
        free: [lists, n], whether the user does not have that item.
        chance: [lists, n], uniform random numbers.
        share: of the places that explore.

    Example:
        >>> shown, tried = np.array([[3, 1, 2]]), np.array([[5, 3, 5]])
        >>> explore(shown, tried, np.ones((1, 3), bool), np.zeros((1, 3)), 0.5).tolist()
        [[5, 3, 2]]
    """
    mixed = shown.copy()
    for place in range(shown.shape[1]):
        new = tried[:, place]
        swap = (chance[:, place] < share) & free[:, place] & (mixed != new[:, None]).all(axis=1)
        mixed[swap, place] = new[swap]
    return mixed


def choose_organically(free: BoolArray, preference: FloatArray, liked: FloatArray) -> IntArray:
    """The column that each visit takes from the items found without a recommender, int64 [visits], or -1 for nothing.

    Among the free items, an item is chosen with a probability proportional to exp(preference), by adding Gumbel noise
    to the preference and taking the largest sum.

    Args:
        free: [visits, candidates], items that the user does not have yet.
        preference: [visits, candidates], true preference.
        liked: [visits, candidates], uniform random numbers.
    """
    noise = -np.log(-np.log(np.clip(liked, np.finfo(np.float64).tiny, 1 - 1e-16)))
    best = np.where(free, preference + noise, -np.inf).argmax(axis=1)
    return np.where(free.any(axis=1), best, NOTHING)


def visibility(exposure: FloatArray, counts: IntArray, herding: float) -> FloatArray:
    """Probability that an item is found without a recommender, float64 [items].

    (1 − herding) · exposure + herding · n_i / Σ n, with the counts n_i of the arm's own log.

    Example:
        >>> visibility(np.array([0.5, 0.5]), np.array([3, 1]), 0.5).tolist()
        [0.625, 0.375]
    """
    return np.asarray((1 - herding) * exposure / exposure.sum() + herding * counts / max(counts.sum(), 1))


def find_items(probability: FloatArray, found: FloatArray) -> IntArray:
    """Items drawn with the given probabilities from uniform random numbers, int64, in the shape of ``found``.

    Example:
        >>> find_items(np.array([0.25, 0.75]), np.array([[0.1, 0.3]])).tolist()
        [[0, 1]]
    """
    reach = np.cumsum(probability)
    places = np.searchsorted(reach, found.ravel() * reach[-1], side="right").reshape(found.shape)
    return np.asarray(np.minimum(places, len(reach) - 1))


def _first(mask: BoolArray) -> IntArray:
    """The first true column of each row, or -1."""
    return np.where(mask.any(axis=1), mask.argmax(axis=1), NOTHING)
