"""Files that are made to exhaust memory or time, and values beyond what Python or polars can hold."""

import gzip
import json
import zlib

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from icpe import ConfigError, DataError, Interactions, split
from icpe.data.readers import unpacked
from icpe.runs.config import RunConfig
from icpe.toml import parse_toml

MEGABYTE = 1 << 20


def gzip_of(size: int, piece: bytes = b"1,2\n") -> bytes:
    """A gzip file that unpacks to a header and ``size`` more bytes, made without holding them."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b"user_id,item_id\n")]
    parts += [packer.compress(piece * (MEGABYTE // len(piece))) for _ in range(size // MEGABYTE)]
    return b"".join([*parts, packer.flush()])


def zstd_of(path, size: int, piece: bytes = b"1,2\n") -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(b"user_id,item_id\n")
        for _ in range(size // MEGABYTE):
            sink.write(piece * (MEGABYTE // len(piece)))


ALLOWED = 16 * MEGABYTE
BEYOND = ALLOWED + 2 * MEGABYTE


@pytest.fixture(autouse=True)
def less_allowed(monkeypatch):
    """A smaller limit than that of the product, so that bombs for tests are made quickly."""
    assert unpacked.ALWAYS_ALLOWED == 256 * MEGABYTE
    monkeypatch.setattr(unpacked, "ALWAYS_ALLOWED", ALLOWED)


@pytest.mark.parametrize("piece", [b"1,2\n", b"0"])
def test_gzip_bomb(write, piece):
    path = write("log.csv.gz", gzip_of(BEYOND, piece))
    with pytest.raises(
        DataError, match=r"log\.csv\.gz has [\d,]+ bytes and unpacks to more than 16,777,216, .* unpack it first"
    ):
        Interactions.read(path)


def test_gzip_bomb_of_many_small_parts(write):
    part = gzip.compress(b"0" * MEGABYTE)
    path = write("train.txt.gz", part * 20)
    with pytest.raises(DataError, match="unpack it first"):
        Interactions.read(path)


def test_zstd_bomb(tmp_path):
    zstd_of(tmp_path / "log.csv.zst", BEYOND)
    with pytest.raises(DataError, match="unpack it first"):
        Interactions.read(tmp_path / "log.csv.zst")


def test_bomb_of_item_names(write):
    log = write("log.csv", "user_id,item_id\n1,2\n2,3\n")
    with pytest.raises(DataError, match="unpack it first"):
        Interactions.read(log, item_info=write("items.csv.gz", gzip_of(BEYOND)))


def test_very_compressible_logs_are_read(write, tmp_path):
    """Ratio 600 and 8,000: far beyond the limit, but harmless, because the whole log is small."""
    packed = gzip_of(8 * MEGABYTE, b"1,2\n2,3\n")
    assert 8 * MEGABYTE / len(packed) > 2 * unpacked.LARGEST_RATIO
    assert Interactions.read(write("log.csv.gz", packed)).reading.rows == 8 * MEGABYTE // 4
    zstd_of(tmp_path / "log.csv.zst", 8 * MEGABYTE, b"1,2\n2,3\n")
    assert Interactions.read(tmp_path / "log.csv.zst").reading.rows == 8 * MEGABYTE // 4


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_the_ratio_decides_about_large_logs(monkeypatch, tmp_path, suffix):
    """An ordinary log beyond the harmless size is read; the same size at a higher ratio is not."""
    monkeypatch.setattr(unpacked, "ALWAYS_ALLOWED", 100_000)
    rng = np.random.default_rng(0)
    text = "user_id,item_id\n" + "".join(f"{u},{i}\n" for u, i in rng.integers(0, 5000, (50_000, 2)))
    content = text.encode()
    path = tmp_path / f"log.csv.{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == "gz" else pa.compress(content, codec="zstd", asbytes=True))
    assert Interactions.read(path).reading.rows == 50_000
    monkeypatch.setattr(unpacked, "LARGEST_RATIO", 1)
    with pytest.raises(DataError, match="times as many"):
        Interactions.read(path)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 131_072, 131_073, 700_000])
@pytest.mark.parametrize("noise", [False, True])
def test_the_size_of_zstd_is_bounded_from_its_headers(monkeypatch, tmp_path, size, noise):
    """The bound lies between the size and the size rounded up to whole blocks, also for two frames in one file."""
    content = np.random.default_rng(size).bytes(size) if noise else b"1" * size
    path = tmp_path / "a.zst"
    whole = pa.compress(content, codec="zstd", asbytes=True)
    with pa.CompressedOutputStream(str(path), "zstd") as sink:  # a stream, whose header does not state the size
        sink.write(content)
    skippable = b"\x50\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"skipped"
    path.write_bytes(whole + skippable + path.read_bytes())
    monkeypatch.setattr(unpacked, "LARGEST_RATIO", 0)
    rounded = size + -(-size // 131_072) * 131_072
    monkeypatch.setattr(unpacked, "ALWAYS_ALLOWED", rounded)
    unpacked.refuse_bomb(path)
    if size:
        monkeypatch.setattr(unpacked, "ALWAYS_ALLOWED", 2 * size - 1)
        with pytest.raises(DataError):
            unpacked.refuse_bomb(path)


def test_parquet_bomb(tmp_path):
    rows = BEYOND // 16
    pl.select(user_id=pl.repeat(1, rows), item_id=pl.repeat(2, rows)).write_parquet(tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").stat().st_size < MEGABYTE
    with pytest.raises(DataError, match="write it as CSV"):
        Interactions.read(tmp_path / "log.parquet")


def test_array_that_claims_more_than_the_file_has(write):
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999, 3), }".ljust(117) + b"\n"
    with pytest.raises(DataError, match="not a plain NumPy array"):
        Interactions.read(
            write("log.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header),
            {"user_id": 0, "item_id": 1},
        )


def test_long_header_field(write):
    path = write("log.csv", f"user_id,item_id,{'x' * 200_000}\n1,2,3\n2,3,4\n")
    with pytest.raises(DataError, match=r"the first row of .* cannot be split .*131072"):
        Interactions.read(path)
    long_name = write("log.inter", f"user_id:token\titem_id:token\t{'x' * 200_000}\n1\t2\t3\n2\t3\t4\n")
    assert len(Interactions.read(long_name)) == 2


def test_messages_cut_long_values(write):
    with pytest.raises(DataError) as caught:
        Interactions.read(write("log.csv", f"user_id,item_id,weight\n1,2,{'x' * 90_000}\n2,3,4\n"))
    assert "(90,002 characters)" in str(caught.value)
    assert len(str(caught.value)) < 1000
    with pytest.raises(DataError) as caught:
        Interactions.read(write("log.csv", "\t".join(["x" * 9000] * 12) + "\n1\t2\n"))
    assert len(str(caught.value)) < 3000


def test_a_million_columns(write):
    names = ",".join(f"c{k}" for k in range(1_000_000))
    path = write("log.csv", f"{names},item_id\n{',' * 1_000_000}1,2\n")
    with pytest.raises(DataError, match="and 999989 more"):
        Interactions.read(path)
    few = names[: names.index(",c100000,")]
    path = write("log.csv", f"{few},user_id,item_id\n{',' * 100_000}1,2\n{',' * 100_000}2,3\n")
    assert len(Interactions.read(path)) == 2


DAYS = pl.Series([2**31 - 1, -(2**31), 2_932_896, 2_932_897], dtype=pl.Int32)
YEAR_9999 = 253_402_300_799


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (DAYS.gather([0]).cast(pl.Date), "'timestamp' is 2147483647, which is after the year 9999"),
        (DAYS.gather([1]).cast(pl.Date), "'timestamp' is -2147483648, which is before 1970"),
        (DAYS.gather([3]).cast(pl.Date), "is after the year 9999"),
        (pl.Series([2**62]).cast(pl.Datetime("us")), "is 4611686018427387904, which is after the year 9999"),
        (pl.Series([2**62]).cast(pl.Datetime("ms")), "is 4611686018427387904, which is after the year 9999"),
        (pl.Series([-(2**62)]).cast(pl.Datetime("ms")), "is -4611686018427387904, which is before 1970"),
        (pl.Series([2**62]).cast(pl.Datetime("us", "Europe/Berlin")), "which is after the year 9999"),
        (pl.Series([-1]).cast(pl.Datetime("ns")), "which is before 1970"),
    ],
)
def test_times_beyond_the_range_of_dates(times, message):
    with pytest.raises(DataError, match=message):
        Interactions.read(pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "timestamp": times.gather([0, 0])}))


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (DAYS.gather([2]).cast(pl.Date), YEAR_9999 - 86_399),
        (pl.Series([YEAR_9999 * 1000]).cast(pl.Datetime("ms")), YEAR_9999),
        (pl.Series([YEAR_9999 * 10**6]).cast(pl.Datetime("us", "Europe/Berlin")), YEAR_9999),
        (pl.Series([1_546_272_009 * 10**9 + 999]).cast(pl.Datetime("ns")), 1_546_272_009),
    ],
)
def test_the_last_times_in_range(times, seconds):
    log = Interactions.read(pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "timestamp": times.gather([0, 0])}))
    assert log.timestamp is not None
    assert log.timestamp.tolist() == [seconds * 10**6] * 2


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{b = " * 100_000,
        ".".join(["a"] * 100_000) + " = 1",
        "[" + ' . "b c" . '.join(["a"] * 100_000) + "]",
        "seed = " + "9" * 10_000,
        "a = 1\n" * 800_000,
    ],
    ids=["arrays", "tables", "key", "quoted key", "digits", "length"],
)
def test_absurd_toml(write, text):
    with pytest.raises(ValueError, match=r"deep|parts|digits|characters"):
        parse_toml(text)
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        RunConfig.read(write("config.toml", text))


def test_ordinary_toml_with_many_dots_is_read():
    text = (
        "beta = ["
        + ", ".join(["0.1"] * 1000)
        + ']\npath = "'
        + "a.b/" * 100
        + '"\n'
        + "\n".join(f"a{k}.b.c = 0.5" for k in range(200))
    )
    assert len(parse_toml(text)) == 202


def test_deep_json(tmp_path, skewed):
    split.random(skewed, seed=0).save(tmp_path)
    (tmp_path / "manifest.json").unlink()  # its checksums would find the damage first
    good = json.loads((tmp_path / "split.json").read_text())
    for damaged in ("[" * 100_000, "[]", json.dumps({**good, "hashes": {}}), json.dumps({**good, "hashes": 5})):
        (tmp_path / "split.json").write_text(damaged)
        with pytest.raises(DataError, match="not a manifest"):
            split.load(tmp_path)


def test_names_that_are_not_text(write):
    for section in ("method", "backbone"):
        with pytest.raises(ConfigError, match=rf"{section}\.name is \[1\]; expected a text"):
            RunConfig.read(write("config.toml", f"[{section}]\nname = [1]\n"))
