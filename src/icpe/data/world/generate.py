"""Generation of a world: tastes, traits, exposure, and the log that grows from them."""

from collections.abc import Callable

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.world.checks import check_whole
from icpe.data.world.growth import HERDING, Growth, make_visits
from icpe.data.world.names import GENRES, make_ids, make_names
from icpe.data.world.preference import products
from icpe.data.world.world import TRAITS, World
from icpe.errors import ConfigError
from icpe.types import FloatArray

_GENRE_CONCENTRATION = 0.12  # of the Dirichlet mixture: one or two genres account for most of a user's taste
_GENRE_PULL = 10.0
_TASTE_SPREAD = 0.5
_TRAIT_SPREAD = 0.18
_APPEAL = (-3.0, 0.5)  # mean and spread; negative, because most users do not like most items

_EXPOSURE_POWER = 1.2
_EXPOSURE_PLATEAU = 0.04  # flattens the top of the power law, so that no item reaches everybody at once

_MAX_PERCENT = 30  # of all pairs; beyond it users take nearly everything they see, and there is no choice to learn

# One stream of random numbers per purpose, so that a change to one does not shift the others. Append only.
_STREAMS = ("tastes", "traits", "exposure", "activity", "promotion", "shown", "accepted", "time", "names")


def make_world(
    users: int = 2000,
    items: int = 1500,
    interactions: int = 60_000,
    seed: int = 0,
    *,
    herding: float = HERDING,
    progress: Callable[[int, int], None] | None = None,
) -> World:
    """A generated world. The same arguments give the same world, bit for bit.

    Every user gets at least about 10 interactions and every item at least about 5, if there are enough of them. A
    sparse log is as skewed as real logs are; in a small, dense world popular items run out of new users.

    Args:
        users: number of users, at least 2.
        items: number of items, at least 2.
        interactions: number of distinct pairs in the log, from one per user to 30 % of all pairs.
        seed: whole number from 0 up that determines every random choice.
        herding: share of exposure that follows popularity in the last round, from 0 to 1. It starts at 0 in the first.
        progress: called after each round with the number of interactions so far and in total.

    Raises:
        ConfigError: an argument is out of range.

    Example:
        >>> world = make_world(users=100, items=80, interactions=1000, seed=7)
        >>> world.log
        Interactions(100 users, 80 items, 1,000 interactions)
        >>> world.wanted(n=3).shape
        (300, 4)
    """
    users, items, interactions = _check_sizes(users, items, interactions)
    if not 0 <= herding <= 1:
        raise ConfigError(f"herding is {herding!r}; expected a number from 0 to 1")
    seeds = np.random.SeedSequence(check_whole("seed", seed, least=0, most=None)).spawn(len(_STREAMS))
    streams = {name: np.random.default_rng(one) for name, one in zip(_STREAMS, seeds, strict=True)}

    centroids = _make_centroids(streams["traits"])
    tastes = _make_tastes(users, centroids, streams["tastes"])
    genre = streams["traits"].integers(len(GENRES), size=items)
    traits = centroids[genre] + _normal(_TRAIT_SPREAD, (items, TRAITS), streams["traits"])
    appeal = np.float32(_APPEAL[0]) + _normal(_APPEAL[1], (items,), streams["traits"])
    exposure = _make_exposure(items, streams["exposure"])

    growth = Growth(tastes, traits, appeal, exposure, interactions, streams, herding)
    growth.run(make_visits(users, items, interactions, streams["activity"]), progress)

    item_ids = make_ids("i", items).alias(col.ITEM)
    info = [item_ids, make_names(items, streams["names"]), pl.Series("genre", GENRES).gather(genre)]
    log = Interactions.from_codes(
        users=make_ids("u", users),
        items=item_ids,
        user=growth.user,
        item=growth.item,
        timestamp=growth.timestamp,
        item_info=pl.DataFrame(info),
        source="a generated world",
    )
    return World(log, tastes, traits, appeal, exposure)


def _check_sizes(users: int, items: int, interactions: int) -> tuple[int, int, int]:
    users, items = check_whole("users", users, least=2), check_whole("items", items, least=2)
    interactions = check_whole("interactions", interactions, least=1)
    if interactions < users:
        raise ConfigError(
            f"interactions is {interactions:,}; expected at least {users:,}, one for each user. "
            "Ask for more interactions or fewer users"
        )
    most = users * items * _MAX_PERCENT // 100
    if interactions > most:
        raise ConfigError(
            f"interactions is {interactions:,}; expected at most {most:,}, which is {_MAX_PERCENT} % of "
            f"{users:,} users × {items:,} items. Ask for fewer interactions or more users and items"
        )
    return users, items, interactions


def _normal(spread: float, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    return np.float32(spread) * rng.standard_normal(shape, dtype=np.float32)


def _make_centroids(rng: np.random.Generator) -> FloatArray:
    """The centre of each genre in the space of traits, float32 [genres, traits], with norm 1."""
    centroids = rng.standard_normal((len(GENRES), TRAITS))
    norm = np.sqrt((centroids**2).sum(axis=1, keepdims=True))
    return np.asarray(centroids / norm, dtype=np.float32)


def _make_tastes(users: int, centroids: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Tastes [users, traits]: a mixture of the genres that a user likes, plus individual noise."""
    # The number of users who like a genre differs within a factor of about two.
    liked = np.exp(0.3 * rng.standard_normal(len(GENRES)))
    share = rng.standard_gamma(_GENRE_CONCENTRATION * liked / liked.mean(), size=(users, len(GENRES)))
    share /= share.sum(axis=1, keepdims=True)
    pull = (_GENRE_PULL * share).astype(np.float32)
    individual = _normal(_TASTE_SPREAD, (users, TRAITS), rng)
    return individual + products(pull, centroids.T, np.zeros(TRAITS, np.float32))


def _make_exposure(items: int, rng: np.random.Generator) -> FloatArray:
    rank = np.arange(1, items + 1) + _EXPOSURE_PLATEAU * items
    exposure = rank**-_EXPOSURE_POWER
    return rng.permutation(exposure / exposure.sum())
