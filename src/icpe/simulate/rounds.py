"""One round: who visits, what their lists show, and what they consume for which reason."""

from dataclasses import dataclass, replace

import numpy as np

from icpe.ranking import Lists, ScoreTable, top_n
from icpe.simulate.choices import (
    NOTHING,
    attention,
    choose_from_list,
    choose_organically,
    explore,
    find_items,
    utility,
    visibility,
)
from icpe.simulate.draws import VisitDraws, draw_exploration, draw_visit
from icpe.simulate.history import History
from icpe.simulate.population import Population
from icpe.simulate.settings import LoopSettings
from icpe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Round:
    """What happened in a round of one arm.

    Attributes:
        visits: int64 [users], number of visits of each user.
        repeats: int64 [users], number of those in which the user returned to something that they have.
        user: int64 [consumptions], who consumed, in the order of the visits.
        item: int64 [consumptions], what they consumed.
        visit: int64 [consumptions], number of the visit within the round.
        place: int64 [consumptions], place in the list from 1, or 0 if the user chose without a recommender.
        lists: the lists of the users who followed a recommender at least once.
        times: int64 [lists], number of visits that each list was shown in.
    """

    visits: IntArray
    repeats: IntArray
    user: IntArray
    item: IntArray
    visit: IntArray
    place: IntArray
    lists: Lists
    times: IntArray

    def shown(self, items: int) -> IntArray:
        """How often each of ``items`` items was shown in a list, int64 [items]."""
        codes = np.repeat(self.lists.items, self.times, axis=0).ravel()
        return np.bincount(codes + 1, minlength=items + 1)[1:]


def play_round(
    population: Population,
    history: History,
    table: ScoreTable | None,
    settings: LoopSettings,
    *,
    adoption: float,
    seed: int,
    number: int,
) -> Round:
    """The events of a round. The history does not change.

    Args:
        population: users and items in this round.
        history: the log of the arm before the round.
        table: scores that rank the items, or None for an arm without a recommender. Users beyond the table have joined
            since the last training; they have no list.
        settings: of the loop.
        adoption: probability η that a visit follows the list.
        seed: seed of the simulation.
        number: of the round.
    """
    draws = [draw_visit(seed, number, visit, population.users, settings) for visit in range(settings.visits)]
    everyone, listed = np.arange(population.users), 0 if table is None else table.users
    active = np.array([one.active < population.activity for one in draws]) & (everyone < population.users_present)
    again = active & np.array([one.again < settings.repeat for one in draws]) & history.has_any()
    choosing = active & ~again
    follows = choosing & np.array([one.follow < adoption for one in draws]) & (everyone < listed)
    times = follows.sum(axis=0)
    lists = Lists.empty(settings.n)
    if table is not None and times.any():
        hidden = history.log(table.users, table.items)
        lists = top_n(table, np.flatnonzero(times), settings.n, hide=[hidden])
        if settings.explore > 0:
            lists = _explored(lists, population, history, settings, seed, number)
    visits = _Visits(population, history, settings, lists)
    for one, is_choosing, is_following in zip(draws, choosing, follows, strict=True):
        visits.play(one, is_choosing, is_following)
    return Round(active.sum(axis=0), again.sum(axis=0), *visits.events(), lists, times[lists.users])


def _explored(
    lists: Lists, population: Population, history: History, settings: LoopSettings, seed: int, number: int
) -> Lists:
    """The lists with random items of the round at some places."""
    users = lists.users.astype(np.int64)
    chance, item = (one[users] for one in draw_exploration(seed, number, population.users, settings.n))
    tried = (item * population.items_present).astype(lists.items.dtype)
    mixed = explore(lists.items, tried, ~history.has(users, tried), chance, settings.explore)
    return replace(lists, items=mixed)


class _Visits:
    """The visits of a round, played one after the other, all users at once."""

    def __init__(self, population: Population, history: History, settings: LoopSettings, lists: Lists) -> None:
        self.population, self.history, self.lists = population, history, lists
        self.seen = attention(settings.n, settings.position_bias)
        here = slice(population.items_present)
        self.probability = visibility(population.world.exposure[here], history.counts[here], settings.herding)
        self.row = np.full(population.users, NOTHING)
        self.row[lists.users] = np.arange(len(lists))
        self.taken: list[IntArray] = []  # item that each user took in each earlier visit, or -1
        self.places: list[IntArray] = []

    def play(self, draws: VisitDraws, choosing: BoolArray, follows: BoolArray) -> None:
        item = np.full(self.population.users, NOTHING)
        place = np.zeros(self.population.users, np.int64)
        users = np.flatnonzero(follows)
        shown = self.lists.items[self.row[users]].astype(np.int64)
        preference = self.population.preference(users, shown)
        column = choose_from_list(
            self._free(users, shown), utility(preference), self.seen, draws.look[users], draws.accept[users]
        )
        _take(item, users, shown, column)
        place[users] = column + 1
        users = np.flatnonzero(choosing & (item == NOTHING))
        found = find_items(self.probability, draws.found[users])
        column = choose_organically(
            self._free(users, found), self.population.preference(users, found), draws.liked[users]
        )
        _take(item, users, found, column)
        self.taken.append(item)
        self.places.append(place)

    def _free(self, users: IntArray, items: IntArray) -> BoolArray:
        """Places with an item that the user does not have, [rows, k]."""
        free = (items >= 0) & ~self.history.has(users, items)
        for earlier in self.taken:
            free &= items != earlier[users, None]
        return free

    def events(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """User, item, visit and place of every consumption."""
        item, place = np.array(self.taken), np.array(self.places)
        visit, user = np.nonzero(item != NOTHING)
        return user, item[visit, user], visit, place[visit, user]


def _take(item: IntArray, users: IntArray, offered: IntArray, column: IntArray) -> None:
    chosen = np.flatnonzero(column != NOTHING)
    item[users[chosen]] = offered[chosen, column[chosen]]


def list_utility(population: Population, lists: Lists, seen: FloatArray) -> FloatArray:
    """True utility of each list, float64 [lists]: the mean over its places, weighted by the probability of a look."""
    return np.asarray(utility(population.preference(lists.users, lists.items)) @ seen / seen.sum())
