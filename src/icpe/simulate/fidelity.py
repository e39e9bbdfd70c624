"""How well a fitted world reproduces its log.

Users of the world begin with nothing and choose without a recommender until each of them has as many items as in the
log. What they have then is compared with what the log has.
"""

from collections.abc import Iterator

import numpy as np

from icpe.data.interactions import Interactions, Reading
from icpe.data.popularity import gini
from icpe.rng import stream
from icpe.simulate.choices import NOTHING, choose_organically, find_items, visibility
from icpe.simulate.population import Population
from icpe.simulate.settings import LoopSettings
from icpe.types import BoolArray, FloatArray, IntArray

_CHOICES = 200_000  # users are sampled beyond that
_CELLS = 1 << 24  # pairs of users and items held in memory at once


def repeat_share(reading: Reading) -> float:
    """Share of the rows of a log that repeat an earlier pair, which a log of distinct pairs leaves out.

    Example:
        >>> repeat_share(Reading(rows=10, duplicates=4))
        0.4
    """
    return reading.duplicates / max(reading.rows - reading.below_min_weight, 1)


def measure_fidelity(population: Population, settings: LoopSettings, seed: int = 0) -> dict[str, float]:
    """Compare the organic consumption of a world with its log.

    Args:
        population: the world in the first round.
        settings: the number of candidates and the herding of organic choices, and the share of repeats.
        seed: seed of the choices.

    Returns:
        ``users`` and ``choices``, how many were compared; ``rank_correlation`` (Spearman) and ``ks``
        (Kolmogorov-Smirnov distance) of the popularity of items; ``log_`` and ``world_gini``, ``_coverage`` and
        ``_niche_share``; ``head_share_correlation`` (Pearson) of the share of head items of each user; and the share
        of ``_repeats`` among all visits. A correlation with something that does not vary is 0.
    """
    from scipy import stats  # late: it takes a second to import

    log = population.world.log
    users = _sample_users(log, seed)
    chosen = np.concatenate([*_play_again(population, users, settings, seed)], axis=1)
    kept = np.isin(log.user, users)
    pairs = {"log": (log.user[kept], log.item[kept]), "world": (chosen[0], chosen[1])}
    counts = {name: np.bincount(item, minlength=population.items) for name, (_, item) in pairs.items()}
    shares = {name: _head_shares(user, population.head[item], users) for name, (user, item) in pairs.items()}
    found = {"users": len(users), "choices": chosen.shape[1]}
    found |= {
        "rank_correlation": _correlation(*(stats.rankdata(one) for one in counts.values())),
        "ks": float(stats.ks_2samp(counts["log"], counts["world"]).statistic),
    }
    for name, one in counts.items():
        found |= {
            f"{name}_gini": gini(one),
            f"{name}_coverage": float((one > 0).mean()),
            f"{name}_niche_share": float(one[~population.head].sum() / one.sum()),
        }
    both = np.isfinite(shares["log"]) & np.isfinite(shares["world"])
    found["head_share_correlation"] = _correlation(shares["log"][both], shares["world"][both])
    return found | {"log_repeats": repeat_share(log.reading), "world_repeats": settings.repeat}


def _sample_users(log: Interactions, seed: int) -> IntArray:
    """Users in random order until their interactions suffice, int64, ascending."""
    order = stream(seed, "simulate/fidelity/users").permutation(len(log.users))
    enough = np.searchsorted(np.cumsum(log.user_counts[order]), _CHOICES) + 1
    return np.sort(order[:enough])


def _play_again(population: Population, users: IntArray, settings: LoopSettings, seed: int) -> Iterator[IntArray]:
    """Yield users and items of the choices, int64 [2, choices], for blocks of users."""
    world, rng = population.world, stream(seed, "simulate/fidelity/choices")
    probability = visibility(world.exposure, world.log.item_counts, settings.herding)
    rows = max(1, _CELLS // population.items)
    for start in range(0, len(users), rows):
        block = users[start : start + rows]
        sizes, has = world.log.user_counts[block], np.zeros((len(block), population.items), bool)
        for turn in range(int(sizes.max(initial=0))):
            _choose_once(population, block, np.flatnonzero(sizes > turn), has, probability, settings.candidates, rng)
        row, item = np.nonzero(has)
        yield np.stack([block[row], item])


def _choose_once(
    population: Population,
    users: IntArray,
    rows: IntArray,
    has: BoolArray,
    probability: FloatArray,
    candidates: int,
    rng: np.random.Generator,
) -> None:
    """Let some rows of users choose one more item, and note it in ``has`` [users, items]."""
    found = find_items(probability, rng.random((len(rows), candidates)))
    preference = population.preference(users[rows], found)
    column = choose_organically(~has[rows[:, None], found], preference, rng.random(found.shape))
    some = np.flatnonzero(column != NOTHING)
    has[rows[some], found[some, column[some]]] = True


def _head_shares(user: IntArray, head: BoolArray, users: IntArray) -> FloatArray:
    """Share of head items of each of the users, NaN for those without any item."""
    row = np.searchsorted(users, user)
    total = np.bincount(row, minlength=len(users)).astype(np.float64)
    return np.asarray(np.bincount(row, head, len(users)) / np.where(total > 0, total, np.nan))


def _correlation(one: FloatArray, other: FloatArray) -> float:
    """Pearson correlation, 0 if one of the two does not vary."""
    first, second = one - one.mean(), other - other.mean()
    norm = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / norm) if norm > 0 else 0.0
