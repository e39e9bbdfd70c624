"""A user's mistake gives one clear message of our own error types: what, where, how to fix it."""

import gzip
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icpe import ConfigError, DataError, IcpeError, Interactions

HEADER = "user_id,item_id,timestamp,weight\n"
GOOD = "".join(f"u{k},i{k % 3},{1_500_000_000 + k},{k}\n" for k in range(1, 9))
PACKED = gzip.compress(os.urandom(2000).hex().encode())

BAD_TEXT = {
    "empty": ("log.csv", b"", r"log\.csv is empty \(0 bytes\)"),
    "blank lines only": ("log.csv", b"\n\n \n", r"no content"),
    "header only": ("log.csv", HEADER, r"log\.csv has no rows, only a header"),
    "missing column": ("log.csv", "uid,item_id\n1,2\n", r"column 'user_id' not found; .* has 'uid', 'item_id'\. Pass columns=\{'user_id': 'uid'\}"),
    "no header": ("log.csv", "1,2\n2,3\n", r"looks like data, not a header: pass header=False"),
    "null id": ("log.csv", HEADER + GOOD + "u9,,1500000000,1\n", r"row 10: 'item_id' is missing"),
    "row of separators": ("log.csv", "user_id,item_id\n1,2\n,\n2,3\n", r"row 3: 'user_id' is missing"),
    "blank lines, then a row of separators": ("log.csv", "user_id,item_id\n1,2\n\n1,3\n\n2,2\n,\n", r"row 7: 'user_id' is missing\. Every row"),
    "blank lines in quotes": ("log.csv", 'user_id,item_id,text\n1,2,"a\n\nb"\n\n2,2,\n,,\n', r"row 5: 'user_id' is missing\. Every row"),
    "rows of separators": ("log.csv", "user_id,item_id\n1,2\n\n,\n2,2\n,\n", r"row 4: 'user_id' is missing \(2 rows lack it\)"),
    "blank lines among JSON": ("log.jsonl", '{"user_id": 1, "item_id": 2}\n\n\n{"user_id": null, "item_id": 3}\n', r"row 4: 'user_id' is missing"),
    "empty id": ("log.csv", 'user_id,item_id\na,b\n"",c\n', r"row 3: 'user_id' is empty"),
    "blank id": ("log.csv", "user_id,item_id\na,b\n  ,c\n", r"row 3: 'user_id' is empty"),
    "weight not a number": ("log.csv", HEADER + GOOD + "u9,i1,1500000000,many\n", r"row 10: 'weight' is 'many', which is not a number"),
    "weight missing": ("log.csv", HEADER + "u9,i1,1500000000,\n" + GOOD, r"row 2: 'weight' is None, which is not a number"),
    "weight infinite": ("log.csv", HEADER + "u9,i1,1500000000,inf\n" + GOOD, r"row 2: 'weight' is 'inf', which is not a number"),
    "time not a time": ("log.csv", HEADER + GOOD + "u9,i1,yesterday,1\n", r"row 10: 'timestamp' is 'yesterday', which cannot be read as a time; expected Unix"),
    "time missing": ("log.csv", HEADER + GOOD + "u9,i1,,1\n", r"row 10: 'timestamp' is None"),
    "time negative": ("log.csv", HEADER + GOOD + "u9,i1,-5,1\n", r"row 10: 'timestamp' is -5, which is before 1970"),
    "time before 1970": ("log.csv", HEADER + "u9,i1,1956-01-01,1\nu8,i2,2000-01-01,1\n", r"row 2: 'timestamp' is '1956-01-01', which is before 1970"),
    "impossible date": ("log.csv", HEADER + "u9,i1,2019-02-30,1\nu8,i2,2000-01-01,1\n", r"row 2: 'timestamp' is '2019-02-30', which cannot be read"),
    "seconds and milliseconds": ("log.csv", HEADER + GOOD + "u9,i1,1500000000000,1\n", r"looks like seconds; others look like ms"),
    "mixed ids": ("log.csv", "user_id,item_id\n1,5\n2,6\ntotal,7\n", r"row 4: 'user_id' is 'total', but most others are integers\. Correct it, or pass ids='text'"),
    "too many fields": ("log.csv", "user_id,item_id\n1,2\n3,4,5\n", r"row 3 has 3 fields where the first row has 2"),
    "open quote": ("log.csv", 'user_id,item_id\n1,"2\n' + "3,4\n" * 5000, r"row 2 opens a quotation mark"),
    "latin-1": ("log.csv", "user_id,item_id\n1,2\n2,käse\n".encode("latin-1"), r"row 3 is not UTF-8 \(byte 0xe4\)\. Convert it"),
    "latin-1 header": ("log.csv", "käufer,item_id\n1,2\n".encode("latin-1"), r"row 1 is not UTF-8"),
    "latin-1 packed": ("log.csv.gz", gzip.compress("user_id,item_id\n1,käse\n".encode("latin-1")), r"row 2 is not UTF-8"),
    "binary": ("log.csv", b"\x00\x01\x02\x03" * 100, r"looks like a binary file"),
    "utf-16": ("log.csv", "user_id,item_id\n1,2\n".encode("utf-16"), r"not UTF-8|binary"),
    "cut-off gzip": ("log.csv.gz", PACKED[: len(PACKED) // 2], r"cannot be unpacked .* cut off or damaged"),
    "cut-off zstd": ("log.csv.zst", pa.compress(b"user_id,item_id\n" + os.urandom(2000).hex().encode(), codec="zstd", asbytes=True)[:900], r"cannot be unpacked"),
    "not parquet": ("log.parquet", "user_id,item_id\n1,2\n", r"is not a complete Parquet file"),
    "one user": ("log.csv", "user_id,item_id\n1,2\n1,3\n", r"has 1 user\(s\) and 2 item\(s\); at least 2 of each"),
    "column twice": ("log.csv", "user_id,item_id,user_id\n1,2,3\n", r"has 2 columns called 'user_id'"),
    "movielens": ("ratings.dat", "1::1193::5::978300760\n", r"separates fields by '::'"),
    "lists of users alone": ("train.txt", "1\n2\n3\n", r"has no rows"),
}  # fmt: skip


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("case", BAD_TEXT)
def test_files(write, case):
    name, content, message = BAD_TEXT[case]
    with pytest.raises(DataError, match=message) as caught:
        Interactions.read(write(name, content))
    assert "\n" not in str(caught.value)


def test_missing_file_and_folders(tmp_path, write):
    with pytest.raises(DataError, match=r"nowhere\.csv does not exist"):
        Interactions.read(tmp_path / "nowhere.csv")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(DataError, match=r"has no Parquet files \(it is empty\)"):
        Interactions.read(folder)
    (folder / "log.csv").touch()
    with pytest.raises(DataError, match=r"has no Parquet files \(it has log\.csv\)"):
        Interactions.read(folder)


def test_cut_off_parquet(tmp_path):
    path = tmp_path / "log.parquet"
    pl.DataFrame({"user_id": range(999), "item_id": range(999)}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match="cut off or damaged"):
        Interactions.read(path)


def test_parquet_parts_that_do_not_fit(tmp_path):
    pl.DataFrame({"user_id": [1], "item_id": [1]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"user_id": ["x"], "item_id": [1]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="do not have the same columns and types"):
        Interactions.read(tmp_path)
    with pytest.raises(DataError, match="'user_id' has integers in .* and text in"):
        Interactions.read([tmp_path / "a.parquet", tmp_path / "b.parquet"])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"user_id": [1, "a"], "item_id": [1, 2]}), r"'user_id' mixes int \(the frame, row 1\) and str \(the frame, row 2\)"),
        (pl.DataFrame({"user_id": [1.5, 2.0], "item_id": [1, 2]}), "has the type Float64; expected integers or text"),
        (pl.DataFrame({"user_id": [[1], [2]], "item_id": [1, 2]}), "has the type List"),
        (pl.DataFrame({"user_id": [True, False], "item_id": [1, 2]}), "has the type Boolean"),
        (pl.DataFrame({"user_id": [1, None], "item_id": [1, 2]}), "row 2: 'user_id' is missing"),
        (pl.DataFrame({"user_id": [None, None], "item_id": [1, 2]}), "row 1: 'user_id' is missing"),
        (pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "weight": ["a", "b"]}), "'weight' is 'a'"),
        (pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "weight": [1.0, float("nan")]}), "row 2: 'weight' is nan"),
        (pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "timestamp": [True, False]}), "'timestamp' has the type Boolean"),
        (pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "timestamp": [1e30, 1.0]}), "after the year 9999"),
        (pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2], "timestamp": [float("nan"), 1.0]}), "row 1: 'timestamp' is nan"),
        (pl.DataFrame({"user_id": [], "item_id": []}), "has no rows"),
        (pl.DataFrame(), "column 'user_id' not found"),
        ({"user_id": [1, 2], "item_id": [1]}, "do not make a table"),
        (object(), "cannot be read from 'object'"),
        ([], "cannot be read from 'list'"),
    ],
)  # fmt: skip
def test_frames(frame, message):
    with pytest.raises(DataError, match=message):
        Interactions.read(frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"uid": "user_id"}}, r"'uid' is not one of our column names, .*pass columns=\{'user_id': 'uid'\}"),
        ({"columns": {"user_id": "item_id"}}, "column 'item_id' .* twice"),
        ({"columns": {"user_id": 7}}, "column 7 .* does not exist"),
        ({"columns": {"weight": "rating"}}, "column 'rating' not found"),
        ({"format": "xml"}, "format is 'xml'; expected one of"),
        ({"ids": "number"}, "ids is 'number'"),
        ({"time_unit": "days", "columns": {"timestamp": "when"}}, "time_unit is 'days'"),
        ({"separator": "::"}, "expected one character"),
        ({"header": False}, "read without a header"),
        ({"min_weight": 3}, "min_weight=3 needs weights"),
        ({"min_weight": 99, "columns": {"weight": "plays"}}, "no row .* has a weight of at least 99; the largest is 4"),
    ],
)
def test_options(write, options, message):
    path = write("log.csv", "user_id,item_id,when,plays\n1,2,100,3\n2,3,101,4\n")
    with pytest.raises(IcpeError, match=message):
        Interactions.read(path, **options)


def test_ids_must_be_integers_if_asked(write):
    with pytest.raises(DataError, match="'user_id' is 'a', but ids='int' requires integers"):
        Interactions.read(write("log.csv", "user_id,item_id\n1,2\na,3\n"), ids="int")
    assert Interactions.read(write("log.csv", "user_id,item_id\n1,2\n2,4\na,3\n"), ids="text").users.to_list() == [
        "1",
        "2",
        "a",
    ]


def test_k_core_that_leaves_nothing_names_the_largest(skewed):
    with pytest.raises(DataError, match="the 500-core of the frame leaves nothing; the largest k") as caught:
        skewed.k_core(500)
    largest = int(str(caught.value).rsplit(" ", 1)[1])
    assert len(skewed.k_core(largest)) > 0
    with pytest.raises(DataError, match="leaves nothing"):
        skewed.k_core(largest + 1)
    for wrong in (0, -1, 2.5, True, "3"):
        with pytest.raises(ConfigError, match="expected a whole number"):
            skewed.k_core(wrong)


SUFFIXES = [".csv", ".tsv", ".csv.gz", ".csv.zst", ".inter", ".txt", ".dat", ".parquet", ".npy", ".jsonl", ""]
GARBAGE = st.one_of(
    st.binary(min_size=1, max_size=400),
    st.text(max_size=400).map(str.encode),
    st.text(alphabet='01239,.;\t\n\r"- aü\0', min_size=1, max_size=300).map(str.encode),
)


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    """A good file of every kind, to be damaged."""
    folder = tmp_path_factory.mktemp("whole")
    frame = pl.DataFrame(
        {"user_id": [f"u{k % 40}" for k in range(300)], "item_id": np.arange(300) % 17, "timestamp": 5}
    )
    frame.write_parquet(folder / "log.parquet")
    frame.write_csv(folder / "log.csv")
    content = (folder / "log.csv").read_bytes()
    (folder / "log.csv.gz").write_bytes(gzip.compress(content))
    (folder / "log.csv.zst").write_bytes(pa.compress(content, codec="zstd", asbytes=True))
    np.save(folder / "log.npy", np.arange(60).reshape(20, 3))
    return {path.suffixes[-1]: path.read_bytes() for path in folder.iterdir()}


def read_anything(path, content, **options):
    path.write_bytes(content)
    try:
        log = Interactions.read(path, **options)
    except IcpeError as error:
        assert str(error)
        return
    assert len(log) > 0


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=GARBAGE, header=st.booleans(), named=st.booleans())
def test_garbage_gives_our_errors_only(tmp_path, suffix, content, header, named):
    if named:
        content = b"user_id,item_id,timestamp,weight\n" + content
    mapping = None if header else {"user_id": 0, "item_id": 1}
    read_anything(tmp_path / f"log{suffix}", content, header=header, columns=mapping)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".gz", ".zst", ".npy"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_our_errors_only(tmp_path, whole_files, suffix, data):
    content = bytearray(whole_files[suffix])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    name = f"log.csv{suffix}" if suffix in (".gz", ".zst") else f"log{suffix}"
    read_anything(tmp_path / name, bytes(content), columns={"user_id": 0, "item_id": 1})


VALUES = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.dates(), st.binary(max_size=3)
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_frames_of_anything_give_our_errors_only(data):
    size = data.draw(st.integers(0, 6))
    columns = {
        name: data.draw(st.lists(VALUES, min_size=size, max_size=size))
        for name in ("user_id", "item_id", "timestamp", "weight")
        if data.draw(st.booleans()) or name.endswith("id")
    }
    for frame in (columns, pd.DataFrame(columns)):
        try:
            Interactions.read(frame)
        except IcpeError as error:
            assert str(error)
