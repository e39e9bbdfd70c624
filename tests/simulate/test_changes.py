"""What changes from round to round: exploration, drift, newcomers, and trainings that start from the last model."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import ConfigError, Interactions, World, make_world
from icpe.runs.config import RunConfig
from icpe.simulate import LoopSettings, simulate
from icpe.simulate.arms import arms_of
from icpe.simulate.changes import blend, next_round, with_newcomers
from icpe.simulate.choices import explore
from icpe.simulate.population import Population
from icpe.simulate.trajectory import RoundFiles, Trajectory, run_trajectory

ROUNDS, N, USERS, ITEMS = 4, 6, 90, 70
CHANGES = {"explore": 0.3, "drift": 0.6, "new_users": 8, "new_items": 5, "warm": True}
CONFIG = RunConfig(train={"epochs": 1})


@pytest.fixture(scope="module")
def world():
    return make_world(users=USERS, items=ITEMS, interactions=1200, seed=5)


@pytest.fixture(scope="module")
def found(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes")
    return simulate(world, ["normal"], folder, rounds=ROUNDS, retrain=2, n=N, train={"epochs": 1}, **CHANGES)


def consumption(folder: Path, number: int) -> pl.DataFrame:
    return pl.read_parquet(RoundFiles(folder, number).consumption)


def test_drift_keeps_mean_and_covariance():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 3)) + [5, 0, -2]).astype(np.float32)
    mixed = blend(rows, np.arange(4000), rng.permutation(4000), 0.6)
    np.testing.assert_allclose(mixed.mean(axis=0), rows.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(np.cov(mixed.T), np.cov(rows.T), atol=0.35)
    assert np.corrcoef(mixed[:, 0], rows[:, 0])[0, 1] == pytest.approx(0.8, abs=0.03)  # √(1 − 0.6²)


def test_full_drift_exchanges_the_tastes_of_two_users():
    log = Interactions.from_codes(pl.Series(["a", "b"]), pl.Series(["x", "y"]), np.array([0, 1]), np.array([0, 1]))
    world = World(log, np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), np.zeros(2, np.float32), np.ones(2))
    people, settings = Population.of(world), LoopSettings(drift=1.0)
    tastes = [next_round(people, settings, seed, 2).world.user_tastes.round(5).tolist() for seed in range(20)]
    assert [[1, 0], [0, 1]] in tastes
    assert [[0, 1], [1, 0]] in tastes
    assert all(one in ([[1, 0], [0, 1]], [[0, 1], [1, 0]]) for one in tastes)
    truth = next_round(people, settings, tastes.index([[0, 1], [1, 0]]), 2).truth
    assert truth.block(np.arange(2), 0, 2).round(5).tolist() == [[0, 1], [1, 0]]


def test_newcomers_join_round_by_round(world):
    people = with_newcomers(Population.of(world), LoopSettings(rounds=3, new_users=2, new_items=4), seed=1)
    log = people.world.log
    assert (people.users, people.items) == (USERS + 2 * 2, ITEMS + 2 * 4)
    assert log.users.is_sorted()
    assert log.items.is_sorted()
    assert log.items[-1] == "~new-0008"
    assert (log.item_counts[ITEMS:] == 0).all()
    assert people.truth.block(np.array([0]), 0, people.truth.items).shape == (1, ITEMS)
    later = next_round(people, LoopSettings(new_users=2, new_items=4), 1, 2)
    assert (later.users_present, later.items_present, later.truth.items) == (USERS + 2, ITEMS + 4, ITEMS + 4)
    # A newcomer keeps the activity, the group and the exposure of somebody or something in the world.
    assert set(people.activity[USERS:]) <= set(people.activity[:USERS])
    assert set(people.world.exposure[ITEMS:]) <= set(people.world.exposure[:ITEMS])
    assert not people.head[ITEMS:].any()
    numbers = Interactions.from_codes(pl.Series([3, 7]), pl.Series(["a", "ä"]), np.array([0, 1]), np.array([0, 1]))
    odd = World(numbers, *(np.eye(2, dtype=np.float32),) * 2, np.zeros(2, np.float32), np.ones(2))
    grown = with_newcomers(Population.of(odd), LoopSettings(rounds=2, new_users=2, new_items=1), 0).world.log
    assert grown.users.to_list() == [3, 7, 8, 9]
    assert grown.items.to_list() == ["a", "ä", "ä~new-0001"]
    assert grown.items.is_sorted()


def test_places_that_explore():
    shown = np.array([[0, 1, 2], [0, 1, 2]])
    tried = np.array([[7, 8, 9], [7, 2, 7]])
    chance = np.array([[0.0, 0.9, 0.0], [0.0, 0.0, 0.0]])
    free = np.array([[True, True, False], [True, True, True]])
    # First list: only places 1 and 3 explore, and the user has item 9. Second list: item 2 is there already, and so is 7
    # by the time that the third place tries it.
    assert explore(shown, tried, free, chance, 0.5).tolist() == [[7, 1, 2], [7, 1, 2]]
    assert shown.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_exploration_widens_the_lists(world, tmp_path):
    made = {}
    for share in (0.0, 0.3):
        settings = LoopSettings(rounds=1, n=10, explore=share)
        world.save(tmp_path / "world")
        run_trajectory(Trajectory("popularity", 1.0, 0), tmp_path / "world", tmp_path / str(share), settings, CONFIG)
        made[share] = pl.read_parquet(RoundFiles(tmp_path / str(share), 1).measures).row(0, named=True)
    assert made[0.3]["shown_coverage"] > made[0.0]["shown_coverage"] + 0.2
    # Exploring places get a niche item with the share of niche items, unless the user has the random item.
    niche = (~Population.of(world).head).mean()
    gained = made[0.3]["shown_niche_share"] - made[0.0]["shown_niche_share"]
    assert 0.15 * niche < gained < 0.35 * niche


def test_only_those_who_have_joined_consume_and_are_consumed(world, found):
    start = world.log.to_frame().select("user_id", "item_id")
    for folder in sorted((found.folder / "rounds").iterdir()):
        assert not list(folder.glob("model-*"))
        every = [consumption(folder, number) for number in range(1, ROUNDS + 1)]
        for number, rows in enumerate(every, 1):
            for column, known, joining in (("user_id", USERS, 8), ("item_id", ITEMS, 5)):
                new = rows[column].filter(rows[column].str.starts_with("~new-")).str.slice(5).cast(pl.Int64)
                assert new.max() is None or new.max() <= joining * (number - 1)
                assert rows[column].n_unique() <= known + joining * (number - 1)
            measured = pl.read_parquet(RoundFiles(folder, number).measures)
            assert measured["consumed"][0] == len(rows)
            assert measured["consumed"][1:].sum() == len(rows)
        assert pl.concat([start, *(one.select("user_id", "item_id") for one in every)]).is_unique().all()
        assert every[-1]["user_id"].str.starts_with("~new-").any()
        assert every[-1]["item_id"].str.starts_with("~new-").any()


def test_users_have_no_list_before_a_training_knows_them(found):
    rows = consumption(found.folder / "rounds" / "normal-adoption-0.5-seed-0", 2)  # trained before round 1 and round 3
    of_newcomers = rows.filter(pl.col("user_id").str.starts_with("~new-"))
    assert len(of_newcomers) > 0
    assert set(of_newcomers["cause"]) == {"organic"}


def test_items_say_when_they_have_joined(found):
    joined = found.items.filter(arm="oracle", adoption=0.5).group_by("joined").len().sort("joined")
    assert joined.rows() == [(1, ITEMS), (2, 5), (3, 5), (4, 5)]


def test_without_adoption_changes_are_the_same_in_every_arm(found, tmp_path):
    settings = LoopSettings(rounds=ROUNDS, retrain=2, n=N, **CHANGES)
    run_trajectory(Trajectory("normal", 0.0, 0), found.folder / "world", tmp_path, settings, CONFIG)
    alone = found.folder / "rounds" / Trajectory("none", 0.0, 0).name
    for path in sorted(tmp_path.rglob("*.parquet")):
        assert (alone / path.name).read_bytes() == path.read_bytes()
    visits = found.measures.group_by("round", "group").agg(pl.col("visits").n_unique())
    assert (visits["visits"] == 1).all()


def test_the_oracle_follows_tastes_that_drift(world, tmp_path):
    world.save(tmp_path / "world")
    settings = LoopSettings(rounds=3, n=N, drift=1.0, new_items=5)
    for arm in ("oracle", "popularity"):
        run_trajectory(Trajectory(arm, 1.0, 0), tmp_path / "world", tmp_path / arm, settings, CONFIG)
    for number in (1, 2, 3):
        regret = [
            pl.read_parquet(RoundFiles(tmp_path / arm, number).measures)["shown_regret"][0]
            for arm in ("oracle", "popularity")
        ]
        assert abs(regret[0]) < 1e-6
        assert regret[1] > 0.1


@pytest.mark.parametrize("method", ["normal", "icpe"])
def test_a_stop_changes_no_byte_of_warm_trainings(world, tmp_path, method):
    world.save(tmp_path / "world")
    settings = LoopSettings(rounds=5, retrain=2, n=N, warm=True, new_users=3)
    trajectory = Trajectory(method, 1.0, 0)

    def run(name, settings=settings, stop=None):
        played = []

        def on_round():
            played.append(None)
            if len(played) == stop:
                raise KeyboardInterrupt

        run_trajectory(trajectory, tmp_path / "world", tmp_path / name, settings, CONFIG, on_round)

    run("whole")
    for stop in (1, 3, 4):  # before, right after and well after the second training
        with pytest.raises(KeyboardInterrupt):
            run("stopped", stop=stop)
    run("stopped")
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "stopped").iterdir())
    for name in names:
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    if method == "normal":
        run("scratch", settings.replace(warm=False))
        first, third = (f"consumption-000{number}.parquet" for number in (1, 3))
        assert (tmp_path / "scratch" / first).read_bytes() == (tmp_path / "whole" / first).read_bytes()
        assert (tmp_path / "scratch" / third).read_bytes() != (tmp_path / "whole" / third).read_bytes()


def test_an_arm_for_every_method_and_backbone(world, tmp_path):
    assert arms_of(["normal", "random"], ["mf", "neumf"])[:3] == ["normal/mf", "normal/neumf", "oracle"]
    found = simulate(
        world, ["normal"], tmp_path, backbones=["mf", "lightgcn"], rounds=1, n=N, adoption=1, train={"epochs": 1}
    )
    assert found.arms[:2] == ["normal/mf", "normal/lightgcn"]
    rows = found.over_time().select("arm", "shown_popularity")
    assert rows["arm"].to_list() == found.arms
    assert rows["shown_popularity"][0] != rows["shown_popularity"][1]
    for backbones, message in (
        (["mf", "mf"], "every backbone once"),
        (["fm"], "unknown backbone 'fm'"),
        ([], "--backbones mf,lightgcn"),
    ):
        with pytest.raises(ConfigError, match=message):
            simulate(world, ["normal"], tmp_path / "new", backbones=backbones)
