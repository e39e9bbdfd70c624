"""Whole simulations: every consumption has a cause, arms that must be equal are, and a stop changes nothing."""

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import ConfigError, DataError, make_world
from icpe.runs.config import RunConfig
from icpe.simulate import LoopSettings, simulate
from icpe.simulate.trajectory import RoundFiles, Trajectory, run_trajectory

ROUNDS, N = 5, 6
CONFIG = RunConfig(train={"epochs": 1})


@pytest.fixture(scope="module")
def world():
    return make_world(users=120, items=100, interactions=1800, seed=3)


@pytest.fixture(scope="module")
def found(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulation")
    return simulate(
        world, ["normal"], folder, adoption=[0.5, 1], seeds=[0, 1], rounds=ROUNDS, retrain=2, n=N, train={"epochs": 1}
    )


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_consumption_has_a_cause_and_happens_once(world, found):
    start = world.log.to_frame().select("user_id", "item_id")
    folders = sorted((found.folder / "rounds").iterdir())
    assert len(folders) == 2 * (1 + 2 * 4)  # per seed: one without a recommender, four others at two adoptions
    for folder in folders:
        every = [pl.read_parquet(RoundFiles(folder, number).consumption) for number in range(1, ROUNDS + 1)]
        measures = [pl.read_parquet(RoundFiles(folder, number).measures) for number in range(1, ROUNDS + 1)]
        for rows, measured in zip(every, measures, strict=True):
            everyone, groups = measured.row(0, named=True), measured[1:]
            causes = dict(rows["cause"].value_counts().iter_rows())
            assert everyone["recommended"] == causes.get("recommended", 0)
            assert everyone["consumed"] == len(rows) == sum(causes.values())
            assert everyone["consumed"] <= everyone["visits"]
            assert set(causes) <= {"recommended", "organic"}
            for name in ("visits", "consumed", "recommended", "lists"):
                assert groups[name].sum() == everyone[name]
            assert rows.filter(cause="recommended")["place"].is_between(1, N).all()
            assert (rows.filter(cause="organic")["place"] == 0).all()
        rows = pl.concat([start, *(one.select("user_id", "item_id") for one in every)])
        assert rows.is_unique().all()
        assert rows["user_id"].is_in(world.log.users.implode()).all()
        assert rows["item_id"].is_in(world.log.items.implode()).all()


def test_items_count_what_happened(found):
    totals = found.items.group_by("arm", "adoption", "seed").agg(pl.col("shown", "consumed").sum())
    rows = found.measures.filter(group="all").group_by("arm", "adoption", "seed").agg(pl.col("consumed", "lists").sum())
    both = totals.join(rows, on=["arm", "adoption", "seed"], suffix="_measured")
    assert len(both) == 3 * 5 * 2
    assert (both["consumed"] == both["consumed_measured"]).all()
    assert (both["shown"] == N * both["lists"]).all()


@pytest.mark.parametrize("arm", ["normal", "oracle", "popularity"])
def test_without_adoption_every_arm_equals_no_recommender(world, found, tmp_path, arm):
    settings = LoopSettings(rounds=3, retrain=2, n=N)
    run_trajectory(Trajectory(arm, 0.0, 0), found.folder / "world", tmp_path, settings, CONFIG)
    alone = found.folder / "rounds" / Trajectory("none", 0.0, 0).name
    for name, data in content(tmp_path).items():
        assert (alone / name).read_bytes() == data
    assert len(content(tmp_path)) == 9


def test_nobody_beats_the_lists_of_the_oracle(found):
    lists = found.measures.filter(pl.col("lists") > 0)
    assert (lists["shown_regret"] >= -1e-12).all()
    assert (lists.filter(arm="oracle")["shown_regret"].abs() < 1e-6).all()
    assert (lists.filter(arm="random")["shown_regret"] > 0.1).all()


def test_popular_lists_concentrate_and_random_ones_do_the_opposite(found):
    last = found.across_adoption().filter(adoption=1.0).group_by("arm").agg(pl.col("log_gini", "homogenisation").mean())
    gini, alike = (dict(last.select("arm", name).iter_rows()) for name in ("log_gini", "homogenisation"))
    assert gini["popularity"] > gini["none"] + 0.01 > gini["random"] + 0.02
    assert alike["popularity"] > alike["none"] == 0


def test_more_adoption_brings_an_arm_further_from_no_recommender(found):
    rows = found.across_adoption().filter(arm="oracle").group_by("adoption").agg(pl.col("consumed_utility").mean())
    assert rows.sort("adoption")["consumed_utility"].diff().drop_nulls().min() > 0


def test_the_arms_meet_the_same_visitors(found):
    visits = found.measures.group_by("seed", "round", "group").agg(pl.col("visits").n_unique())
    assert (visits["visits"] == 1).all()
    consumed = found.over_time().filter(arm="none").pivot("seed", index="round", values="consumed_utility")
    assert (consumed["0"] != consumed["1"]).all()


def test_a_stop_changes_no_byte(world, tmp_path):
    settings = {"rounds": 4, "retrain": 3, "n": N, "train": {"epochs": 1}}
    simulate(world, ["normal"], tmp_path / "whole", **settings)

    def stop_at(rounds, done, total, note):
        if done == rounds:
            raise KeyboardInterrupt

    for rounds in (6, 8):  # in the second arm, right after and well after its second training
        with pytest.raises(KeyboardInterrupt):
            simulate(world, ["normal"], tmp_path / "stopped", progress=partial(stop_at, rounds), **settings)
        # A kill can come between two files of a round, before the measures, which come last.
        last = sorted((tmp_path / "stopped").rglob("measures-*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        last[-1].unlink()
    simulate(world, ["normal"], tmp_path / "stopped", **settings)
    whole, stopped = content(tmp_path / "whole"), content(tmp_path / "stopped")
    assert whole.keys() == stopped.keys()
    assert [name for name in whole if whole[name] != stopped[name]] == []


def test_workers_give_the_same_bytes(world, tmp_path):
    for workers in (1, 2):
        simulate(world, ["popularity"], tmp_path / str(workers), rounds=2, n=N, workers=workers)
    assert content(tmp_path / "1") == content(tmp_path / "2")


def test_a_finished_simulation_is_read_again(world, found):
    before = content(found.folder)
    again = simulate(
        world,
        ["normal"],
        found.folder,
        adoption=[1, 0.5],
        seeds=[0, 1],
        rounds=ROUNDS,
        retrain=2,
        n=N,
        train={"epochs": 1},
    )
    assert content(found.folder) == before
    assert again.measures.equals(found.measures)
    assert again.adoptions == [0.0, 0.5, 1.0]
    assert again.adoption == 0.5
    assert np.isfinite(again.over_time()["log_gini"].to_numpy()).all()


def test_mistakes(world, found, tmp_path):
    def run(folder=tmp_path / "new", methods=("normal",), **settings):
        simulate(world, list(methods), folder, **settings)

    with pytest.raises(ConfigError, match=r"adoption is 1\.5; expected a share"):
        run(adoption=1.5)
    with pytest.raises(ConfigError, match=r"unknown method 'norml'; did you mean 'normal'\?"):
        run(methods=["norml"])
    with pytest.raises(ConfigError, match="every method once"):
        run(methods=["normal", "normal"])
    with pytest.raises(ConfigError, match=r"no setting 'round'; did you mean 'rounds'\?"):
        run(round=3)
    with pytest.raises(ConfigError, match="n is 500, but the world has 100 items"):
        run(n=500)
    with pytest.raises(ConfigError, match="epochs is 0"):
        run(train={"epochs": 0})
    with pytest.raises(ConfigError, match=r"another simulation, which differs in: .*settings"):
        run(found.folder, rounds=3)
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("Dear")
    with pytest.raises(ConfigError, match="not empty and holds no simulation"):
        run(tmp_path / "full")
    run(tmp_path / "full", methods=["random"], rounds=1, n=N, force=True)
    assert (tmp_path / "full" / "letter.txt").read_text() == "Dear"


def test_damaged_rounds_are_named(world, tmp_path):
    simulate(world, ["random"], tmp_path, rounds=2, n=N)
    (tmp_path / "measures.parquet").unlink()
    damaged = RoundFiles(tmp_path / "rounds" / "oracle-adoption-0.5-seed-0", 1).consumption
    damaged.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"consumption-0001\.parquet cannot be read"):
        simulate(world, ["random"], tmp_path, rounds=2, n=N)
