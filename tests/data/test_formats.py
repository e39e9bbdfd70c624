"""Every way in gives the same log."""

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from icpe import ConfigError, DataError, IcpeError, Interactions
from icpe.data.readers import delimited

ROWS = [("ann", "tea", 30), ("bob", "tea", 10), ("ann", "jam", 20), ("cem", "jam", 40), ("ann", "tea", 5)]
PAIRS = [("ann", "jam", 20), ("ann", "tea", 5), ("bob", "tea", 10), ("cem", "jam", 40)]  # (ann, tea) is there twice
FRAME = pl.DataFrame(ROWS, schema=["user_id", "item_id", "timestamp"], orient="row")


def seconds(log: Interactions) -> list[tuple[object, object, int]]:
    frame = log.to_frame()
    return [(u, i, int(t.timestamp())) for u, i, t in frame.iter_rows()]


def text(separator: str = ",", header: str | None = None) -> bytes:
    lines = [header or separator.join(FRAME.columns), *(separator.join(map(str, row)) for row in ROWS)]
    return ("\n".join(lines) + "\n").encode()


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


FILES = {
    "log.csv": text(),
    "semicolon.csv": text(";"),
    "tabs.csv": text("\t"),
    "log.tsv": text("\t"),
    "pipe.log": text("|"),
    "delimited.txt": text(),
    "no-suffix": text(),
    "crlf.csv": text().replace(b"\n", b"\r\n"),
    "bom.csv": b"\xef\xbb\xbf" + text(),
    "blank.csv": b"\n\n" + text().replace(b"\nbob", b"\n\nbob") + b"\n\n",
    "quoted.csv": text().replace(b"ann", b'"ann"'),
    "no-newline.csv": text().rstrip(b"\n"),
    "log.csv.gz": gzip.compress(text()),
    "members.csv.gz": gzip.compress(text()[:40]) + gzip.compress(text()[40:]),
    "log.tsv.gz": gzip.compress(text("\t")),
    "log.csv.zst": zstd(text()),
    "log.inter": text("\t", "user_id:token\titem_id:token\ttimestamp:float"),
    "log.inter.gz": gzip.compress(text("\t", "user_id:token\titem_id:token\ttimestamp:float")),
}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("name", FILES)
def test_text_files(write, name):
    log = Interactions.read(write(name, FILES[name]))
    assert seconds(log) == PAIRS
    assert log.reading.duplicates == 1
    assert log.reading.rows == 5


def test_parquet_file_and_folders(tmp_path):
    FRAME.write_parquet(tmp_path / "one.parquet")
    folder = tmp_path / "parts"
    for number, part in enumerate(FRAME.iter_slices(2)):
        (folder / f"day={number}").mkdir(parents=True)
        part.write_parquet(folder / f"day={number}" / "part.parquet")
    (folder / "_SUCCESS").touch()
    assert seconds(Interactions.read(tmp_path / "one.parquet")) == PAIRS
    assert seconds(Interactions.read(folder)) == PAIRS
    assert Interactions.read(folder).content_hash == Interactions.read(tmp_path / "one.parquet").content_hash


def test_parquet_without_suffix_is_known_by_its_first_bytes(tmp_path):
    FRAME.write_parquet(tmp_path / "export")
    assert seconds(Interactions.read(tmp_path / "export")) == PAIRS


def test_partition_folder_as_column(tmp_path):
    for name, part in FRAME.partition_by("item_id", as_dict=True).items():
        (tmp_path / f"item_id={name[0]}").mkdir()
        part.drop("item_id").write_parquet(tmp_path / f"item_id={name[0]}" / "part.parquet")
    assert seconds(Interactions.read(tmp_path)) == PAIRS


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.lazy(),
        FRAME.with_columns(pl.col("user_id").cast(pl.Categorical)),
        FRAME.to_pandas(),
        FRAME.to_pandas().astype({"user_id": "category", "item_id": object}),
        FRAME.to_pandas(use_pyarrow_extension_array=True),
        FRAME.to_arrow(),
        FRAME.to_dict(as_series=False),
    ],
    ids=["polars", "lazy", "categorical", "pandas", "pandas-object", "pandas-arrow", "arrow", "dictionary"],
)
def test_frames(frame):
    assert seconds(Interactions.read(frame)) == PAIRS


def test_pandas_times_and_gaps():
    frame = pd.DataFrame(
        {"user_id": [1, 2], "item_id": [5, 6], "timestamp": pd.to_datetime(["2020-01-01", "2021-01-01"])}
    )
    assert Interactions.read(frame).to_frame()["timestamp"].dt.year().to_list() == [2020, 2021]
    zoned = frame.assign(timestamp=frame["timestamp"].dt.tz_localize("Europe/Berlin"))
    assert Interactions.read(zoned).to_frame()["timestamp"].dt.hour().to_list() == [23, 23]
    with pytest.raises(DataError, match="row 2: 'user_id' is missing"):
        Interactions.read(frame.assign(user_id=[1.0, np.nan]))


def test_lists(write):
    log = Interactions.read(write("train.txt", "0 10 11\n1 11\n\n2\n3 10  12 10\n"))
    assert log.to_frame().rows() == [(0, 10), (0, 11), (1, 11), (3, 10), (3, 12)]
    assert log.reading.duplicates == 1
    named = Interactions.read(write("names.txt.gz", gzip.compress(b"ann tea jam\nbob tea\n")))
    assert named.to_frame().rows() == [("ann", "jam"), ("ann", "tea"), ("bob", "tea")]


def test_json_lines(write):
    lines = "".join(f'{{"item_id": "{item}", "ts": {time}, "user_id": "{user}"}}\n' for user, item, time in ROWS)
    for name in ("log.jsonl", "log.ndjson"):
        log = Interactions.read(write(name, lines.encode()), {"timestamp": "ts"}, time_unit="s")
        assert seconds(log) == PAIRS
    numbers = Interactions.read(write("numbers.jsonl", b'{"user_id": 1, "item_id": 7}\n{"user_id": 2, "item_id": 8}\n'))
    assert numbers.users.to_list() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"user_id": 1, "item_id": 2\n', "is not a file of JSON lines"),
        (b"user_id,item_id\n1,2\n", "is not a file of JSON lines"),
        (b'{"user_id": 1, "item_id": [2, 3]}\n', "'item_id' holds lists; expected one value in each line"),
        (b'{"uid": 1, "item_id": 2}\n', "column 'user_id' not found"),
    ],
)
def test_json_lines_that_cannot_be_read(write, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        Interactions.read(write("log.jsonl", content))


def test_hetrec(write):
    content = "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t3\r\n7\t51\t1\r\n"
    log = Interactions.read(write("user_artists.dat", content))
    assert log.to_frame().rows() == [(2, 51, 13883.0), (2, 52, 3.0), (7, 51, 1.0)]


def test_numpy_array(tmp_path):
    np.save(tmp_path / "log.npy", np.array([[1, 10, 60], [2, 10, 61], [1, 11, 62]]))
    log = Interactions.read(tmp_path / "log.npy", {"user_id": 0, "item_id": 1, "timestamp": 2}, time_unit="min")
    assert log.to_frame()["timestamp"].dt.timestamp("ms").to_list() == [3_600_000, 3_720_000, 3_660_000]


def test_several_files_make_one_log(write):
    log = Interactions.read([write("a.csv", text()), write("b.csv.gz", gzip.compress(text()))])
    assert seconds(log) == PAIRS
    assert log.reading.duplicates == 6


def test_other_names_and_positions(write):
    renamed = text().replace(b"user_id", b"uid").replace(b"timestamp", b"ts")
    mapping = {"user_id": "uid", "timestamp": "ts"}
    assert seconds(Interactions.read(write("odd.csv", renamed), mapping)) == PAIRS
    bare = b"\n".join(text().split(b"\n")[1:])
    by_position = {"user_id": 0, "item_id": 1, "timestamp": 2}
    assert seconds(Interactions.read(write("bare.csv", bare), by_position, header=False)) == PAIRS
    assert Interactions.read(write("odd.csv", renamed), {"user_id": "uid"}).timestamp is None


def test_a_column_that_is_not_asked_for_may_be_anything(write):
    log = Interactions.read(write("extra.csv", "user_id,note,item_id\n1,x y,2\n2,,3\n"))
    assert log.reading.ignored_columns == ("note",)


def test_order_of_rows_does_not_matter():
    shuffled = FRAME.sample(fraction=1.0, shuffle=True, seed=3)
    assert Interactions.read(shuffled).content_hash == Interactions.read(FRAME).content_hash


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "20", "3"], pl.Int64),
        (["1", "-20", "0"], pl.Int64),
        (["007", "7", "42"], pl.String),  # zero-padded: 007 and 7 are two people
        (["99999999999999999999", "1", "2"], pl.String),  # does not fit an integer
        (["a1", "b2", "17"], pl.String),  # a number among names
        (["ü", "日本", "🎵"], pl.String),
    ],
)
def test_ids_in_text_files(write, values, kind):
    log = Interactions.read(
        write("ids.csv", "user_id,item_id\n" + "".join(f"{one},{k}\n" for k, one in enumerate(values)))
    )
    assert log.users.dtype == kind
    assert sorted(map(str, log.users)) == sorted(values)


def test_digits_in_a_typed_source_stay_text():
    log = Interactions.read(pl.DataFrame({"user_id": ["1", "2"], "item_id": [1, 2]}))
    assert log.users.to_list() == ["1", "2"]
    assert Interactions.read(pl.DataFrame({"user_id": ["1", "2"], "item_id": [1, 2]}), ids="int").users.to_list() == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        ("1546272009", 1546272009_000000),
        ("1546272009.5", 1546272009_500000),
        ("1546272009123", 1546272009_123000),
        ("1546272009123456", 1546272009_123456),
        ("1546272009123456789", 1546272009_123456),
        ("2018-12-31", 1546214400_000000),
        ("2018-12-31T16:00:09", 1546272009_000000),
        ("2018-12-31 16:00:09.25", 1546272009_250000),
        ("2018-12-31T16:00:09Z", 1546272009_000000),
        ("2018-12-31T18:00:09+02:00", 1546272009_000000),
        ("2018-12-31 16:00", 1546272000_000000),
        (" 1546272009 ", 1546272009_000000),
        ("0", 0),
    ],
)
def test_times(write, written, microseconds):
    log = Interactions.read(write("times.csv", f"user_id,item_id,timestamp\n1,1,{written}\n2,2,{written}\n"))
    assert log.timestamp is not None
    # ns and fractions of seconds go through a float; a microsecond off is not a different time
    assert abs(int(log.timestamp[0]) - microseconds) <= 1


def test_iso_forms_may_be_mixed(write):
    content = "user_id,item_id,timestamp\n1,1,2020-01-02\n2,2,2020-01-02T00:00:01Z\n"
    log = Interactions.read(write("mixed.csv", content))
    assert np.diff(log.timestamp).tolist() == [1_000_000]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_min_weight_comes_before_duplicates(tmp_path, suffix):
    frame = pl.DataFrame({"user_id": [9, 1, 1, 2, 2], "item_id": [7, 1, 1, 1, 2], "weight": [1.0, 2.0, 5.0, 4.0, 3.0]})
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_csv(tmp_path / "log.csv")
    log = Interactions.read(tmp_path / f"log{suffix}", min_weight=3)
    assert log.to_frame().rows() == [(1, 1, 5.0), (2, 1, 4.0), (2, 2, 3.0)]
    assert (log.reading.below_min_weight, log.reading.duplicates) == (2, 0)
    assert log.users.to_list() == [1, 2], "user 9 has no row left"


def test_names_stay_available(write):
    names = write("names.csv", "item_id,name\n2,Two\n9,Nine\n")
    log = Interactions.read(pl.DataFrame({"user_id": [1, 2, 2], "item_id": [2, 3, 2]}), item_info=names)
    assert log.item_names().to_list() == ["Two", "3"]
    assert log.item_names([3, 2, 77]).to_list() == ["3", "Two", "77"]


LOG = pl.DataFrame({"user_id": [1, 2, 2], "item_id": [2, 3, 2]})


@pytest.mark.parametrize("name", ["titles.csv", "titles.tsv", "titles.parquet", "frame"])
def test_item_information_with_other_column_names(tmp_path, name):
    frame = pl.DataFrame({"sku": [3, 2], "title": ["Three", "Two"], "name": ["x", "y"], "size": ["L", "M"]})
    if name == "frame":
        info = frame
    else:
        info = tmp_path / name
        write = {"csv": frame.write_csv, "parquet": frame.write_parquet}.get(name.rpartition(".")[2])
        write(info) if write else frame.write_csv(info, separator="\t")
    log = Interactions.read(LOG, item_info=info, item_columns={"item_id": "sku", "name": "title"})
    assert log.item_names().to_list() == ["Two", "Three"]
    assert log.item_info.columns == ["item_id", "name", "size"], "the mapped title replaces the column 'name'"
    assert log.item_info["size"].to_list() == ["M", "L"]


@pytest.mark.parametrize(
    ("info", "columns", "message"),
    [
        ({"itemid": [1], "title": ["x"]}, None, r"'item_id' not found.* 'title'.*--item-column item_id=itemid"),
        ({"id": [1], "title": ["x"]}, {"item_id": "sku"}, r"'sku' not found.*item_columns=.*--item-column item_id="),
        (
            {"id": [1], "title": ["x"]},
            {"sku": "id"},
            r"'sku' is not one of our column names, which are 'item_id', 'name'",
        ),
        ({"id": [1]}, {"item_id": "id"}, "only the column 'item_id'"),
        ({"id": ["a"], "title": ["x"]}, {"item_id": "id"}, "type String, but the log has ids of type Int64"),
        (None, {"item_id": "id"}, r"no items; pass item_info \(command line: --items FILE\)"),
    ],
)
def test_item_information_that_cannot_be_used(info, columns, message):
    with pytest.raises(IcpeError, match=message):
        Interactions.read(LOG, item_info=info if info is None else pl.DataFrame(info), item_columns=columns)


def test_written_log_reads_back(tmp_path, skewed):
    for name in ("log.parquet", "log.csv"):
        skewed.write(tmp_path / name)
        assert Interactions.read(tmp_path / name).content_hash == skewed.content_hash
    with pytest.raises(ConfigError, match=r"should end in \.parquet or \.csv"):
        skewed.write(tmp_path / "log.xlsx")


def test_a_failed_write_leaves_the_old_file(tmp_path, skewed, monkeypatch):
    skewed.write(tmp_path / "log.parquet")
    before = (tmp_path / "log.parquet").read_bytes()

    def fail(self: pl.DataFrame, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(IcpeError, match="no space"):
        skewed.write(tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_a_stream_is_not_a_log():
    with pytest.raises(DataError, match="cannot be read from 'BytesIO'"):
        Interactions.read(io.BytesIO(b"user_id,item_id\n1,2\n"))


def test_batches_give_the_same_log(tmp_path, monkeypatch, skewed):
    frame = skewed.to_frame().with_columns(pl.col("timestamp").dt.epoch("s"), weight=pl.int_range(pl.len()))
    frame.with_columns(pl.format("u{}", "user_id").alias("user_id")).write_csv(tmp_path / "log.csv")
    at_once = Interactions.read(tmp_path / "log.csv")
    monkeypatch.setattr(delimited, "STREAM_FROM_BYTES", 0)
    monkeypatch.setattr(delimited, "STREAM_BATCH_ROWS", 100)
    in_batches = Interactions.read(tmp_path / "log.csv")
    assert in_batches.content_hash == at_once.content_hash
    assert in_batches.reading == at_once.reading
