"""A round: a world of two users computed by hand, choices against plain loops, and measures against their definitions."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icpe import Interactions, World, make_world
from icpe.ranking.tables import DotScores
from icpe.simulate.choices import choose_from_list, choose_organically
from icpe.simulate.draws import draw_visit
from icpe.simulate.history import History
from icpe.simulate.measures import measure_round, spread_of_directions
from icpe.simulate.population import Population
from icpe.simulate.rounds import play_round
from icpe.simulate.settings import LoopSettings

SURE = 40.0  # a preference at which a user accepts always; with a minus, never


@pytest.fixture(scope="module")
def two_users():
    """Ann has ham and loves jam; Bob has jam and loves tea. What is left, neither of them likes."""
    log = Interactions.from_codes(
        pl.Series(["ann", "bob"]), pl.Series(["ham", "jam", "tea"]), np.array([0, 1]), np.array([0, 1])
    )
    tastes = np.eye(2, dtype=np.float32)
    traits = SURE * np.array([[-1, -1], [1, -1], [-1, 1]], np.float32)
    return World(log, tastes, traits, np.zeros(3, np.float32), np.full(3, 1 / 3))


def active_visits(seed, settings):
    draws = [draw_visit(seed, 1, visit, 2, settings) for visit in range(settings.visits)]
    return np.array([one.active < 0.5 for one in draws])  # both have one interaction, so both visit with 1 / (1 + 1)


@pytest.fixture(scope="module")
def settings():
    return LoopSettings(visits=4, n=2, position_bias=0.0, candidates=60)


@pytest.fixture(scope="module")
def seed(settings):
    """A seed with which Ann visits three times, one more than there are items left, and Bob once."""
    return next(seed for seed in range(1000) if active_visits(seed, settings).sum(axis=0).tolist() == [3, 1])


# Lists that put what a user does not like first: tea, jam for Ann, and ham, tea for Bob. What they have scores highest.
WRONG_WAY_ROUND = DotScores(np.eye(2, dtype=np.float32), np.array([[5, 9], [1, 12], [2, 1]], np.float32))


def test_two_users_by_hand(two_users, settings, seed):
    people = Population.of(two_users)
    played = play_round(people, History(people), WRONG_WAY_ROUND, settings, adoption=1.0, seed=seed, number=1)
    assert played.visits.tolist() == [3, 1]
    assert dict(zip(played.lists.users.tolist(), played.lists.items.tolist(), strict=True)) == {0: [2, 1], 1: [0, 2]}
    # Ann passes over tea and takes jam. In her second visit nothing she likes is left in the list, and tea is all that
    # she can find herself. In her third visit she has everything. Bob passes over ham and takes tea.
    events = sorted(zip(played.user.tolist(), played.item.tolist(), played.place.tolist(), strict=True))
    assert events == [(0, 1, 2), (0, 2, 0), (1, 2, 2)]
    assert played.shown(3).tolist() == [1, 3, 4]


def test_measures_of_two_users_by_hand(two_users, settings, seed):
    people, place_weighted = Population.of(two_users), settings.replace(position_bias=1.0)
    history = History(people)
    played = play_round(people, history, WRONG_WAY_ROUND, settings, adoption=1.0, seed=seed, number=1)
    rows, shown = measure_round(people, history, played, place_weighted, 1)
    row = rows.row(0, named=True)
    assert (row["visits"], row["consumed"], row["recommended"], row["lists"]) == (4, 3, 2, 4)
    assert shown.tolist() == [1, 3, 4]
    # The log has ham 1, jam 2, tea 2: G = 2 (1·1 + 2·2 + 3·2) / (3·5) − 4/3.
    assert row["log_gini"] == pytest.approx(22 / 15 - 4 / 3)
    assert row["consumed_coverage"] == pytest.approx(2 / 3)
    assert row["consumed_utility"] == pytest.approx(2 / 3)  # jam for Ann and tea for Bob, but not tea for Ann
    assert row["consumed_niche_share"] == 1.0  # one of three items is head: ham, the first of equals
    assert row["consumed_jaccard"] == pytest.approx(1 / 2)  # {jam, tea} and {tea}
    # Places weigh 1 and 1/2. All lists have the liked item second; the oracle puts it first.
    assert row["shown_utility"] == pytest.approx(1 / 3)
    assert row["shown_regret"] == pytest.approx(1 / 3)
    assert row["shown_jaccard"] == pytest.approx(1 / 3)  # {tea, jam} and {ham, tea}
    # Jam and tea point in opposite directions, so Ann's diversity is 1 − (−1); Bob has one item and none.
    assert row["consumed_diversity"] == pytest.approx(2)


def test_nobody_follows_a_list_without_adoption(two_users, settings, seed):
    people = Population.of(two_users)
    played = [
        play_round(people, History(people), table, settings, adoption=adoption, seed=seed, number=1)
        for table, adoption in ((WRONG_WAY_ROUND, 0.0), (None, 1.0))
    ]
    for one in played:
        assert not one.place.any()
        assert len(one.lists) == 0
    assert played[0].item.tolist() == played[1].item.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_list_is_read_from_the_top(number, n):
    rng = np.random.default_rng(number)
    free, useful, seen = rng.random((5, n)) < 0.7, rng.random((5, n)), rng.random(n)
    look, accept = rng.random((2, 5, n))
    expected = []
    for row in range(5):
        taken = [k for k in range(n) if free[row, k] and look[row, k] < seen[k] and accept[row, k] < useful[row, k]]
        expected.append(taken[0] if taken else -1)
    assert choose_from_list(free, useful, seen, look, accept).tolist() == expected


def test_organic_choices_follow_the_exponential_of_preference():
    preference = np.log([1.0, 2.0, 5.0, 2.0])
    free = np.array([True, True, True, False])
    rows = 60_000
    chosen = choose_organically(
        np.tile(free, (rows, 1)), np.tile(preference, (rows, 1)), np.random.default_rng(0).random((rows, 4))
    )
    assert np.bincount(chosen, minlength=4) / rows == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0], abs=0.01)
    assert choose_organically(~np.ones((1, 2), bool), np.zeros((1, 2)), np.full((1, 2), 0.5)).tolist() == [-1]


def test_overlap_and_diversity_match_their_definitions():
    people = Population.of(make_world(users=30, items=25, interactions=150))
    history = History(people)
    rng = np.random.default_rng(1)
    owned = set(zip(people.world.log.user.tolist(), people.world.log.item.tolist(), strict=True))
    sets = [set() for _ in range(30)]
    for _ in range(3):
        new = {(int(u), int(i)) for u, i in rng.integers([30, 25], size=(40, 2))} - owned
        owned |= new
        user, item = np.array(sorted(new)).T
        history.add(user, item, np.zeros(25, np.int64))
        for one, other in new:
            sets[one].add(other)
    pairs = np.array(list(combinations(range(30), 2)))
    expected = [len(sets[a] & sets[b]) / len(sets[a] | sets[b]) if sets[a] | sets[b] else np.nan for a, b in pairs]
    np.testing.assert_allclose(history.jaccard(pairs), expected)
    z = people.directions
    distances = [[1 - z[a] @ z[b] for a, b in combinations(one, 2)] for one in sets]
    found = spread_of_directions(history.direction, history.consumed)
    np.testing.assert_allclose(found, [np.mean(one) if one else np.nan for one in distances], atol=1e-12)
    assert history.has(np.array([3]), np.arange(25)[None])[0].tolist() == [(3, i) in owned for i in range(25)]


def test_groups_are_fifths_by_share_of_head_items():
    world = make_world(users=50, items=40, interactions=400)
    people = Population.of(world)
    assert np.bincount(people.group).tolist() == [10, 30, 10]
    share = np.bincount(world.log.user, people.head[world.log.item], 50) / world.log.user_counts
    assert share[people.group == 0].max() <= share[people.group == 1].min()
    assert share[people.group == 1].max() <= share[people.group == 2].min()
    utility = 1 / (1 + np.exp(-world.preference(world.log.users).astype(float)))
    np.testing.assert_allclose(people.quality, utility.mean(axis=0), rtol=1e-5)
