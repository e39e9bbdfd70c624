"""Logs in files equal logs in memory: the same pairs, hashes, cores, descriptions and parts."""

import numpy as np
import polars as pl
import pytest

from icpe import ConfigError, DataError, Interactions, describe, split
from icpe.data.stored import read_stored

ROWS = 4000


def frame(text: bool = False, times: bool = True, weights: bool = True, seed: int = 0) -> pl.DataFrame:
    """A log in which many pairs repeat, with equal times among them."""
    rng = np.random.default_rng(seed)
    found = pl.DataFrame(
        {
            "other": np.arange(ROWS),
            "user_id": (200 * rng.random(ROWS) ** 1.4).astype(np.int64) * 7,
            "item_id": (90 * rng.random(ROWS) ** 2).astype(np.int64),
            "timestamp": rng.integers(1_500_000_000, 1_500_000_900, ROWS),
            "weight": rng.integers(1, 6, ROWS),
        }
    )
    if text:
        found = found.with_columns(pl.format("ü{}", "user_id").alias("user_id"))
    return found.drop(([] if times else ["timestamp"]) + ([] if weights else ["weight"]))


@pytest.fixture
def write(tmp_path):
    def to_folder(rows: pl.DataFrame):
        folder = tmp_path / "log"
        folder.mkdir()
        for number, part in enumerate(rows.iter_slices(1500)):
            part.write_parquet(folder / f"{number}.parquet", row_group_size=400)
        return folder

    return to_folder


def same(stored, log):
    assert stored.users.equals(log.users)
    assert stored.items.equals(log.items)
    pieces = list(stored.pieces())
    for name in ("user", "item", "timestamp", "weight"):
        expected = getattr(log, name)
        if expected is None:
            assert all(getattr(piece, name) is None for piece in pieces)
        else:
            assert np.concatenate([getattr(piece, name) for piece in pieces]).tolist() == expected.tolist()
    assert stored.content_hash == log.content_hash
    return True


@pytest.mark.parametrize("piece", [150, 1000, 10**6])
@pytest.mark.parametrize(
    "columns", [{}, {"text": True}, {"times": False}, {"weights": False}, {"times": False, "weights": False}], ids=str
)
def test_reading_equals_reading_into_memory(columns, piece, write, tmp_path):
    source = write(frame(**columns))
    log, stored = Interactions.read(source), read_stored(source, tmp_path / "stored", piece=piece)
    assert same(stored, log)
    assert stored.reading == log.reading
    assert (len(list(stored.pieces())) > 1) == (piece < ROWS)


@pytest.mark.parametrize("options", [{"min_weight": 3}, {"ids": "text"}, {"columns": {"item_id": "other"}}], ids=str)
def test_options_mean_the_same(options, write, tmp_path):
    rows = frame().drop("item_id") if "columns" in options else frame()
    source = write(rows)
    stored = read_stored(source, tmp_path / "stored", piece=500, **options)
    log = Interactions.read(source, **options)
    assert same(stored, log)
    assert stored.reading == log.reading


@pytest.mark.parametrize("k", [1, 5, 14])
def test_the_k_core_and_its_description(k, write, tmp_path):
    source = write(frame())
    log = Interactions.read(source).k_core(k)
    stored = read_stored(source, tmp_path / "stored", piece=300).k_core(k, tmp_path / "core")
    assert same(stored, log)
    assert describe(stored) == describe(log)
    assert (len(log.users) < 200) == (k == 14), "the core should be smaller"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("unbiased", {"seed": 3}),
        ("unbiased", {"seed": 0, "train": 0.5, "valid": 0.25}),
        ("random", {"seed": 3}),
        ("random", {"train": 0.9, "valid": 0.0}),
        ("chronological", {}),
        ("chronological", {"train": 0.3, "valid": 0.3}),
    ],
    ids=str,
)
@pytest.mark.parametrize("times", [True, False])
def test_parts_equal_those_in_memory(kind, settings, times, write, tmp_path):
    source = write(frame(times=times))
    stored = read_stored(source, tmp_path / "stored", piece=300)
    if kind == "chronological" and not times:
        with pytest.raises(DataError, match="has no timestamps, which a chronological split needs"):
            split.cut_stored(stored, tmp_path / "parts", kind, **settings)
        return
    expected = split.cut(Interactions.read(source), kind, **settings)
    found = split.cut_stored(stored, tmp_path / "parts", kind, block=500, **settings)
    assert found.manifest == expected.manifest
    assert all(same(one, two) for (_, one), (_, two) in zip(found.named(), expected.named(), strict=True))
    found.save(tmp_path / "saved")
    assert split.load(tmp_path / "saved").manifest == expected.manifest


def test_pairs_in_memory_keep_the_hash(write, tmp_path):
    source = write(frame())
    log, pairs = Interactions.read(source), read_stored(source, tmp_path / "stored", piece=300).pairs()
    assert (pairs.user.tolist(), pairs.item.tolist()) == (log.user.tolist(), log.item.tolist())
    assert pairs.timestamp is None
    assert pairs.content_hash == log.content_hash


def test_items_keep_their_names(write, tmp_path):
    names = pl.DataFrame({"item_id": list(range(90)), "name": [f"item {one}" for one in range(90)]})
    source = write(frame())
    stored = read_stored(source, tmp_path / "stored", item_info=names, piece=300).k_core(14, tmp_path / "core")
    log = Interactions.read(source, item_info=names).k_core(14)
    assert stored.item_info.equals(log.item_info)
    split.cut_stored(stored, tmp_path / "parts", "random").save(tmp_path / "saved")
    assert split.load(tmp_path / "saved").train.item_info.equals(log.item_info)


WRONG = {
    "a missing id": (lambda rows: rows.with_columns(pl.lit(None, pl.Int64).alias("item_id")), {}, "'item_id' is missing or empty in 4,000 rows"),
    "an empty id": (lambda rows: rows.with_columns(pl.lit(" ").alias("user_id")), {}, "'user_id' is missing or empty in 4,000 rows"),
    "ids of another type": (lambda rows: rows.with_columns(pl.col("user_id").cast(pl.Float64)), {}, "'user_id' has the type Float64"),
    "no rows": (lambda rows: rows.clear(), {}, "has no"),
    "one user": (lambda rows: rows.with_columns(pl.lit(1).alias("user_id")), {}, r"has 1 user\(s\) and"),
    "two units": (lambda rows: rows.with_columns(pl.when(pl.col("other") == 7).then(1_500_000_000_000).otherwise(pl.col("timestamp")).alias("timestamp")), {}, "which looks like seconds; others look like ms"),
    "a high threshold": (lambda rows: rows, {"min_weight": 9}, "no row of .* has a weight of at least 9"),
    "no weights": (lambda rows: rows.drop("weight"), {"min_weight": 9}, "has no column 'weight'"),
    "forced integers": (lambda rows: rows, {"ids": "int"}, "pass ids='text' or none"),
    "no such column": (lambda rows: rows.drop("user_id"), {}, "user_id"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_has_one_clear_line(name, tmp_path):
    change, options, message = WRONG[name]
    change(frame()).write_parquet(tmp_path / "log.parquet")
    with pytest.raises((DataError, ConfigError), match=message) as error:
        read_stored(tmp_path / "log.parquet", tmp_path / "stored", **options)
    assert "\n" not in str(error.value)


def test_an_empty_core_is_refused(write, tmp_path):
    stored = read_stored(write(frame()), tmp_path / "stored")
    with pytest.raises(DataError, match="the 500-core of .* leaves nothing; choose a smaller k"):
        stored.k_core(500, tmp_path / "core")


def test_a_draw_needs_memory(write, tmp_path):
    stored = read_stored(write(frame()), tmp_path / "stored")
    with pytest.raises(ConfigError, match="mode 'ips' needs the log in memory"):
        split.cut_stored(stored, tmp_path / "parts", "unbiased", mode="ips")


@pytest.fixture
def log_file(icpe, tmp_path):
    frame().write_parquet(tmp_path / "log.parquet")
    return "log.parquet"


def test_the_command_line_gives_the_same_with_stream(icpe, log_file, tmp_path):
    frame(seed=1).select("user_id", "item_id").unique(maintain_order=True).write_parquet("recs.parquet")
    for words in (
        ["data", "describe", log_file, "--k-core", 5, "--json"],
        ["split", log_file, "--k-core", 5, "--split", "random", "--json"],
        ["audit", "--log", log_file, "--recs", "recs.parquet", "--json"],
    ):
        plain, streamed = icpe(*words), icpe(*words, "--stream")
        assert plain[0] == 0
        assert streamed == plain
    assert icpe("split", log_file, "--stream", "-o", "deep/parts")[0] == 0
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["parts"]


@pytest.mark.parametrize("flags", [["--separator", ";"], ["--no-header"], ["--format", "csv"]], ids=str)
def test_flags_of_text_files_are_refused(flags, icpe, log_file):
    code, _, err = icpe("data", "describe", log_file, "--stream", *flags)
    assert code == 2
    assert err.startswith("error: --stream reads Parquet files")
    assert flags[0] in err


def test_other_files_are_refused(icpe, log_file):
    frame().write_csv("log.csv")
    code, _, err = icpe("split", "log.csv", "--stream")
    assert (code, err.count("\n")) == (2, 1)
    assert "log.csv is not a Parquet file" in err
