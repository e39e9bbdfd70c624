"""The generated world: the same for the same seed, as skewed as a real log, and with a truth that can be checked."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from icpe.data.popularity import gini
from icpe.data.world import GENRES, World, make_world
from icpe.data.world.names import make_names
from icpe.errors import ConfigError, DataError

ARRAYS = ("user_tastes", "item_traits", "item_appeal", "exposure")
TWO_YEARS = 728 * 24 * 3600


@pytest.fixture(scope="module", params=[0, 1])
def demo(request: pytest.FixtureRequest) -> World:
    """The default size, under two seeds, so that figures are not those of a lucky one."""
    return make_world(seed=request.param)


@pytest.fixture(scope="module")
def tiny() -> World:
    return make_world(users=40, items=30, interactions=200, seed=3)


def assert_same(one: World, other: World) -> None:
    assert one.log.content_hash == other.log.content_hash
    assert one.log.item_info is not None
    assert other.log.item_info is not None
    assert one.log.item_info.equals(other.log.item_info)
    for name in ARRAYS:
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)


def spearman(one: NDArray[Any], other: NDArray[Any]) -> float:
    def ranks(values: NDArray[Any]) -> NDArray[Any]:
        return pl.Series(values).rank().to_numpy()

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def mean_preference(world: World) -> NDArray[Any]:
    return np.asarray(world.preference(world.log.users).mean(axis=0))


def top_decile_gain(world: World) -> float:
    """How much larger the share of the most popular tenth is in the last third of the time than in the first."""
    log = world.log
    assert log.timestamp is not None
    top = np.argsort(-log.item_counts, kind="stable")[: len(log.items) // 10]
    inside = np.isin(log.item, top)
    early, late = np.quantile(log.timestamp, [1 / 3, 2 / 3])
    return float(inside[log.timestamp > late].mean() - inside[log.timestamp < early].mean())


def test_same_seed_gives_the_same_world() -> None:
    assert_same(make_world(300, 200, 4000, seed=5), make_world(300, 200, 4000, seed=5))


def test_another_seed_gives_another_world() -> None:
    one, other = make_world(300, 200, 4000, seed=5), make_world(300, 200, 4000, seed=6)
    assert one.log.content_hash != other.log.content_hash
    assert not np.array_equal(one.user_tastes, other.user_tastes)
    assert not np.array_equal(one.exposure, other.exposure)


def test_numpy_integers_are_whole_numbers_too() -> None:
    sizes: Any = {"users": np.int64(40), "items": np.int32(30), "interactions": np.uint16(200), "seed": np.uint8(3)}
    assert_same(make_world(40, 30, 200, seed=3), make_world(**sizes))


@pytest.mark.parametrize(
    ("users", "items", "interactions"),
    [(2, 4, 2), (10, 10, 30), (100, 4, 120), (50, 1000, 60), (3, 500, 450), (300, 200, 18_000)],
)
def test_sizes_are_exact_up_to_the_limits(users: int, items: int, interactions: int) -> None:
    world = make_world(users, items, interactions)
    log = world.log
    assert (len(log.users), len(log.items), len(log)) == (users, items, interactions)
    assert log.to_frame().select("user_id", "item_id").n_unique() == interactions
    assert log.user_counts.min() >= 1
    assert log.user_counts.max() <= items // 2
    assert world.preference(log.users).shape == (users, items)


def test_default_size_and_floors(demo: World) -> None:
    log = demo.log
    assert (len(log.users), len(log.items), len(log)) == (2000, 1500, 60_000)
    assert log.reading.duplicates == 0
    assert log.user_counts.min() >= 10
    assert log.item_counts.min() >= 3
    assert len(log.k_core(5)) > 59_000
    assert len(log.k_core(10)) > 55_000


def test_shapes_and_types(demo: World) -> None:
    users, items, dim = 2000, 1500, demo.user_tastes.shape[1]
    assert demo.user_tastes.shape == (users, dim)
    assert demo.item_traits.shape == (items, dim)
    assert demo.item_appeal.shape == demo.exposure.shape == (items,)
    assert demo.user_tastes.dtype == demo.item_traits.dtype == demo.item_appeal.dtype == np.float32
    assert demo.exposure.sum() == pytest.approx(1.0)


def test_skew_resembles_real_logs(demo: World) -> None:
    counts = np.sort(demo.log.item_counts)[::-1]
    assert 0.55 < gini(counts) < 0.75
    assert 0.60 < counts[:300].sum() / counts.sum() < 0.75
    assert counts[0] < 0.6 * len(demo.log.users)


def test_activity_of_users_has_a_long_tail(demo: World) -> None:
    counts = demo.log.user_counts
    assert counts.max() > 5 * np.median(counts)


def test_exposure_is_independent_of_preference_and_genre(demo: World) -> None:
    assert abs(spearman(demo.exposure, mean_preference(demo))) < 0.1
    assert abs(spearman(demo.exposure, demo.item_appeal)) < 0.1
    assert demo.log.item_info is not None
    ranks = pl.DataFrame({"genre": demo.log.item_info["genre"], "rank": pl.Series(demo.exposure).rank()})
    by_genre = ranks.group_by("genre").agg(pl.col("rank").mean() / 1500)["rank"]
    assert by_genre.is_between(0.4, 0.6).all()


def test_popularity_is_not_the_truth_but_exposure_shapes_it(demo: World) -> None:
    assert spearman(demo.log.item_counts, mean_preference(demo)) < 0.55
    assert spearman(demo.log.item_counts, demo.exposure) > 0.6


def test_consumed_items_are_preferred_to_others(demo: World) -> None:
    log = demo.log
    preference = demo.preference(log.users)
    consumed = preference[log.user, log.item]
    per_user = np.bincount(log.user, weights=consumed) / log.user_counts
    gain = per_user - preference.mean(axis=1)
    assert gain.mean() > 1.5
    assert (gain > 0).mean() > 0.95


def test_the_more_preferred_the_more_often_consumed(demo: World) -> None:
    log = demo.log
    preference = demo.preference(log.users)
    edges = np.quantile(preference, np.linspace(0, 1, 7)[1:-1])
    taken = np.bincount(np.digitize(preference[log.user, log.item], edges), minlength=6)
    assert (np.diff(taken) > 0).all()


def test_acceptance_is_spread(demo: World) -> None:
    accepted = 1 / (1 + np.exp(-demo.preference(demo.log.users[:200])))
    low, high = np.quantile(accepted, [0.1, 0.9])
    assert low < 0.05
    assert high > 0.5


def test_herding_makes_the_popular_more_popular(demo: World) -> None:
    assert top_decile_gain(demo) > 0.05


def test_without_herding_the_popular_gain_nothing() -> None:
    assert top_decile_gain(make_world(herding=0.0)) < 0.0


def test_removing_popularity_from_a_neighbour_model_comes_closer_to_the_truth(demo: World) -> None:
    log = demo.log
    seen = np.zeros((len(log.users), len(log.items)), np.float32)
    seen[log.user, log.item] = 1
    together = seen.T @ seen
    np.fill_diagonal(together, 0)
    cosine = together / np.sqrt(np.outer(log.item_counts, log.item_counts))
    truth = demo.preference(log.users)

    def true_preference_of_top(scores: NDArray[Any]) -> float:
        best = np.argpartition(np.where(seen > 0, -np.inf, scores), -20, axis=1)[:, -20:]
        return float(np.take_along_axis(truth, best, axis=1).mean())

    popular = true_preference_of_top(np.broadcast_to(log.item_counts.astype(np.float32), seen.shape))
    biased, debiased = true_preference_of_top(seen @ together), true_preference_of_top(seen @ cosine)
    assert truth.mean() < popular < biased < debiased < true_preference_of_top(truth)
    assert debiased - biased > 0.2


def test_times_are_whole_seconds_over_two_years(demo: World) -> None:
    times = demo.log.timestamp
    assert times is not None
    assert (times % 1_000_000 == 0).all()
    assert times.min() >= 1_640_995_200 * 1_000_000
    assert times.max() < (1_640_995_200 + TWO_YEARS) * 1_000_000
    share_per_quarter = np.histogram(times, bins=8)[0] / len(times)
    assert share_per_quarter.min() > 0.08


def test_ids_sort_like_numbers_and_are_wide_enough() -> None:
    log = make_world(users=12_000, items=20, interactions=12_000).log
    assert log.users[17] == "u00017"
    assert log.users[11_999] == "u11999"
    assert log.items.to_list()[::19] == ["i0000", "i0019"]
    assert log.users.is_sorted()


def test_items_have_unique_readable_names_and_real_genres(demo: World) -> None:
    info = demo.log.item_info
    assert info is not None
    assert info.columns == ["item_id", "name", "genre"]
    assert info["item_id"].equals(demo.log.items)
    assert info["name"].is_unique().all()
    assert info["name"].str.contains(r"^[A-Z][a-z]+ [A-Z][a-z]+$").all()
    assert set(info["genre"]) == set(GENRES)


def test_numerals_come_only_when_combinations_run_out() -> None:
    names = make_names(60_000, np.random.default_rng(0))
    assert names.is_unique().all()
    plain = names.str.count_matches(" ") == 1
    combinations = int(plain.sum())
    assert plain[:combinations].all()
    assert combinations > 20_000
    assert set(names[combinations:].str.split(" ").list.get(2)) == {"II", "III"}


def test_items_of_a_genre_please_the_same_people(demo: World) -> None:
    assert demo.log.item_info is not None
    genre = demo.log.item_info["genre"].to_numpy()
    liked = np.atleast_2d(np.corrcoef(demo.preference(demo.log.users[:500]).T[:200]))
    same = genre[:200, None] == genre[None, :200]
    np.fill_diagonal(liked, np.nan)
    assert np.nanmean(liked[same]) > np.nanmean(liked[~same]) + 0.4


def test_preference_is_taste_times_traits_plus_appeal(tiny: World) -> None:
    expected = tiny.user_tastes.astype(float) @ tiny.item_traits.T.astype(float) + tiny.item_appeal
    np.testing.assert_allclose(tiny.preference(tiny.log.users), expected, rtol=1e-5, atol=1e-5)


def test_preference_follows_the_order_asked_for_bit_by_bit(tiny: World) -> None:
    every = tiny.preference(tiny.log.users)
    np.testing.assert_array_equal(tiny.preference(["u0007", "u0000", "u0007"]), every[[7, 0, 7]])
    np.testing.assert_array_equal(tiny.preference(("u0039",)), every[39:])
    assert tiny.preference([]).shape == (0, 30)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (["u0001", "u9999"], r"user 'u9999' is not in this world; expected a list of user ids such as \['u0000'\]"),
        ("u0001", "single text 'u0001'"),
        ([1, 2], "not text"),
        (pl.Series([1, 2]), "type Int64"),
        (["u0001", None], "user None is not in this world"),
    ],
)
def test_preference_refuses_ids_it_does_not_know(tiny: World, users: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tiny.preference(users)


def wanted_by_hand(world: World, n: int) -> list[tuple[str, str, float, int]]:
    log = world.log
    consumed = set(zip(log.user.tolist(), log.item.tolist(), strict=True))
    rows = []
    for user, preference in enumerate(world.preference(log.users).tolist()):
        left = [(-value, item) for item, value in enumerate(preference) if (user, item) not in consumed]
        for rank, (value, item) in enumerate(sorted(left)[:n], start=1):
            rows.append((log.users[user], log.items[item], -value, rank))
    return rows


@pytest.mark.parametrize("n", [1, 5, 27, 30, 1000])
def test_wanted_equals_a_computation_by_hand(tiny: World, n: int) -> None:
    found = tiny.wanted(n)
    assert found.columns == ["user_id", "item_id", "preference", "rank"]
    assert found.rows() == wanted_by_hand(tiny, n)


def test_wanted_breaks_ties_by_id_and_orders_negative_values(tiny: World) -> None:
    appeal = np.repeat(np.array([-1.5, 0.0, 2.0, -0.25, -3.0], np.float32), 6)
    flat = replace(tiny, item_traits=np.zeros_like(tiny.item_traits), item_appeal=appeal)
    assert flat.wanted(25).rows() == wanted_by_hand(flat, 25)


def test_wanted_leaves_out_the_log(demo: World) -> None:
    wanted = demo.wanted()
    assert wanted.height == 2000 * 20
    assert wanted.join(demo.log.to_frame(), on=["user_id", "item_id"], how="semi").is_empty()
    assert wanted.select("user_id", "item_id").is_unique().all()


@pytest.mark.parametrize("cells", [1, 30, 7 * 30, 10**6])
def test_wanted_does_not_depend_on_the_size_of_chunks(tiny: World, cells: int) -> None:
    assert tiny.wanted(5, cells).equals(tiny.wanted(5))


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "20", None])
def test_wanted_refuses_a_wrong_n(tiny: World, n: Any) -> None:
    with pytest.raises(ConfigError, match=r"^n is .*expected a whole number from 1 "):
        tiny.wanted(n)


def test_progress_is_told_rising_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    make_world(40, 30, 200, progress=lambda done, total: told.append((done, total)))
    done = [one for one, _ in told]
    assert len(told) > 10
    assert done == sorted(done)
    assert told[-1] == (200, 200)
    assert {total for _, total in told} == {200}


WHOLE = r"expected a whole number from {} "


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"users": 1}, r"^users is 1; " + WHOLE.format(2)),
        ({"users": -5}, r"^users is -5; " + WHOLE.format(2)),
        ({"items": 0}, r"^items is 0; " + WHOLE.format(2)),
        ({"items": 10.0}, r"^items is 10\.0; " + WHOLE.format(2)),
        ({"items": 2**31}, r"^items is 2147483648; .* to 2,147,483,647"),
        ({"users": True}, r"^users is True; " + WHOLE.format(2)),
        ({"users": "many"}, r"^users is 'many'; " + WHOLE.format(2)),
        ({"interactions": 0}, r"^interactions is 0; " + WHOLE.format(1)),
        ({"interactions": None}, r"^interactions is None; " + WHOLE.format(1)),
        ({"interactions": 99}, r"is 99; expected at least 100, one for each user\. Ask for more interactions or fewer"),
        (
            {"interactions": 1501},
            r"is 1,501; expected at most 1,500, which is 30 % of 100 users × 50 items\. Ask for f",
        ),
        ({"herding": 1.5}, r"^herding is 1\.5; expected a number from 0 to 1"),
        ({"seed": -1}, r"^seed is -1; expected a whole number from 0 up"),
        ({"seed": 0.5}, r"^seed is 0\.5; expected a whole number from 0 up"),
    ],
)
def test_unreasonable_sizes_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_world(**({"users": 100, "items": 50, "interactions": 1000} | sizes))


def test_a_large_seed_is_fine() -> None:
    assert len(make_world(40, 30, 200, seed=2**70).log) == 200


def test_save_and_load_give_the_same_world(tmp_path: Path) -> None:
    world = make_world(users=50, items=200, interactions=90, seed=4)
    assert (world.log.item_counts == 0).any()  # items nobody used must survive as well
    world.save(tmp_path / "new" / "world")
    loaded = World.load(tmp_path / "new" / "world")
    assert_same(world, loaded)
    assert loaded.wanted(7).equals(world.wanted(7))


def test_saving_replaces_an_older_world(tiny: World, tmp_path: Path) -> None:
    make_world(users=50, items=40, interactions=300).save(tmp_path)
    tiny.save(tmp_path)
    assert_same(tiny, World.load(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["items.parquet", "log.parquet", "users.parquet"]


def test_saved_columns(tiny: World, tmp_path: Path) -> None:
    tiny.save(tmp_path)
    columns = {name: pl.read_parquet_schema(tmp_path / f"{name}.parquet") for name in ("log", "items", "users")}
    assert list(columns["log"]) == ["user_id", "item_id", "timestamp"]
    assert list(columns["items"]) == ["item_id", "name", "genre", "appeal", "exposure", "traits"]
    assert list(columns["users"]) == ["user_id", "tastes"]


@pytest.mark.parametrize("name", ["log", "items", "users"])
def test_loading_without_a_file_says_which(tiny: World, tmp_path: Path, name: str) -> None:
    tiny.save(tmp_path)
    (tmp_path / f"{name}.parquet").unlink()
    with pytest.raises(DataError, match=rf"{name}\.parquet does not exist; .*Create the world again"):
        World.load(tmp_path)


@pytest.mark.parametrize("name", ["log", "items", "users"])
@pytest.mark.parametrize("damage", [lambda _: b"", lambda _: b"not Parquet", lambda all_: all_[: len(all_) // 2]])
def test_loading_a_damaged_file_says_which(
    tiny: World, tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    tiny.save(tmp_path)
    path = tmp_path / f"{name}.parquet"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{name}\.parquet cannot be read"):
        World.load(tmp_path)


def _without_last(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.head(-1)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("users", lambda frame: frame.drop("tastes"), "column 'tastes' should be Array.*found no such column"),
        ("items", lambda frame: frame.cast({"appeal": pl.Float64}), "column 'appeal' should be Float32; found Float64"),
        ("users", lambda frame: frame.with_columns(tastes=pl.lit(1.0)), "column 'tastes' should be Array"),
        ("log", lambda frame: frame.with_columns(item_id=pl.lit(None, pl.String)), "log.parquet has missing values"),
        ("users", _without_last, "user_id 'u0039' is missing in its table; the files belong to different worlds"),
        ("items", _without_last, "item_id 'i0029' is missing in its table"),
        ("items", lambda frame: frame.reverse(), "table of 'item_id' should be sorted and without duplicates"),
        ("users", lambda frame: pl.concat([frame.head(1), frame]), "table of 'user_id' should be sorted and without"),
    ],
)
def test_loading_files_that_do_not_fit(
    tiny: World, tmp_path: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    tiny.save(tmp_path)
    path = tmp_path / f"{name}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    with pytest.raises(DataError, match=message):
        World.load(tmp_path)


def test_memory_grows_with_the_log_and_not_with_users_times_items() -> None:
    tracemalloc.start()
    try:
        world = make_world(users=20_000, items=10_000, interactions=200_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(world.log) == 200_000
    assert world.log.reading.duplicates == 0
    assert peak < 50 * 2**20  # a byte for each pair of user and item would be 200 MB
