"""What changes from round to round in all arms alike: tastes drift, and new users and items join.

Both depend on the seed and the round alone. Users and items are numbered in the order in which they join, so those of
a round are the first ones of the arrays.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.data.world import World
from icpe.rng import stream
from icpe.simulate.population import Population, item_directions, item_quality
from icpe.simulate.settings import LoopSettings
from icpe.types import FloatArray, IntArray

_NOVELTY = 0.5  # how far a newcomer is from the user or item that it resembles, on the scale of the drift


def blend(vectors: FloatArray, first: IntArray, second: IntArray, share: float) -> FloatArray:
    """Mixtures of two rows each, float32: m + √(1 − share²) · (first − m) + share · (second − m), with the mean m.

    If the second rows are drawn independently, mean and covariance of the mixtures are those of the rows.

    Example:
        >>> rows = np.array([[0.0], [10.0]], np.float32)
        >>> blend(rows, np.array([0, 1]), np.array([1, 0]), 0.6).round(3).tolist()
        [[4.0], [6.0]]
    """
    centre = vectors.mean(axis=0, dtype=np.float64)
    mixed = np.sqrt(1 - share**2) * (vectors[first] - centre) + share * (vectors[second] - centre)
    return np.asarray(centre + mixed, np.float32)


def with_newcomers(population: Population, settings: LoopSettings, seed: int) -> Population:
    """The population with room for everybody and everything that joins later. They are there, but not present yet.

    A newcomer resembles a random user or item of the world. It takes over the activity and the group of that user, or
    the exposure of that item, and is a :func:`blend` with a second one.
    """
    users, items = (joining * (settings.rounds - 1) for joining in (settings.new_users, settings.new_items))
    if users == items == 0:
        return population
    world, rng = population.world, stream(seed, "simulate/newcomers")
    user, other_user = rng.integers(len(world.log.users), size=(2, users))
    item, other_item = rng.integers(len(world.log.items), size=(2, items))
    features = np.column_stack([world.item_traits, world.item_appeal])
    features = np.concatenate([features, blend(features, item, other_item, _NOVELTY)])
    tastes = np.concatenate([world.user_tastes, blend(world.user_tastes, user, other_user, _NOVELTY)])
    exposure = np.concatenate([world.exposure, world.exposure[item]])
    grown = World(_with_ids(world.log, users, items), tastes, features[:, :-1], features[:, -1], exposure)
    return replace(
        population,
        world=grown,
        activity=np.concatenate([population.activity, population.activity[user]]),
        group=np.concatenate([population.group, population.group[user]]),
        head=np.concatenate([population.head, np.zeros(items, bool)]),
        quality=item_quality(grown),
        directions=item_directions(grown),
    )


def next_round(population: Population, settings: LoopSettings, seed: int, number: int) -> Population:
    """The population in a round after the first one, made from that of the round before."""
    world = population.world
    if settings.drift > 0:
        everyone = np.arange(population.users)
        other = stream(seed, f"simulate/{number}/drift").permutation(population.users)
        world = replace(world, user_tastes=blend(world.user_tastes, everyone, other, settings.drift))
    return replace(
        population,
        world=world,
        users_present=population.users_present + settings.new_users,
        items_present=population.items_present + settings.new_items,
    )


def _with_ids(log: Interactions, users: int, items: int) -> Interactions:
    return replace(log, users=_extended(log.users, users), items=_extended(log.items, items), item_info=None)


def _extended(ids: pl.Series, count: int) -> pl.Series:
    """The ids and as many new ones, which sort after all others: the next integers, or texts such as ``~new-0001``."""
    numbers = pl.int_range(1, count + 1, eager=True)
    if ids.dtype != pl.String:
        new = (numbers + int(ids[-1])).cast(ids.dtype)
    else:
        last = str(ids[-1])
        new = ("~new-" if last < "~" else f"{last}~new-") + numbers.cast(pl.String).str.zfill(max(4, len(str(count))))
    return pl.concat([ids, new.alias(ids.name)])
