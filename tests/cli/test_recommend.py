"""`icpe recommend` with files of users, items and histories."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from icpe import load
from icpe.cli import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory, log_file):
    folder = tmp_path_factory.mktemp("finished") / "run"
    quick = ["--train.epochs", "2", "--backbone.dim", "4", "--split", "random"]
    assert run(["train", str(log_file), *quick, "-o", str(folder)]) == 0
    return folder


@pytest.fixture
def icpe(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        capsys.readouterr()
        code = run([str(word) for word in words])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def model(finished):
    return load(finished)


def write(path, text):
    Path(path).write_text(text, encoding="utf-8")
    return path


def test_users_in_a_file(icpe, finished, model):
    ids = model.log.users[[7, 3]].to_list()
    plain = write("users.txt", f"{ids[0]}\n\n {ids[1]} \n{ids[0]}\nann\n")
    table = write("users.csv", f"uid,age\n{ids[0]},3\n{ids[1]},4\nann,5\n")
    pl.DataFrame({"user_id": [*ids, 99999]}).write_parquet("users.parquet")
    expected = model.recommend(ids, 4)
    for path, flags, stranger in (
        (plain, [], "'ann'"),
        (table, ["--column", "user_id=uid"], "'ann'"),
        ("users.parquet", [], "'99999'"),
    ):
        code, out, err = icpe("recommend", finished, "--users", path, "-n", 4, "--json", *flags)
        assert code == 0
        assert [row["item_id"] for row in json.loads(out)] == expected["item_id"].to_list()
        assert f"--users {path}: 1 of 3 users are not in the training data, such as {stranger}" in err
    code, out, _ = icpe("recommend", finished, "--users", "users.parquet", "-n", 4, "--json", "--unknown", "popular")
    popular = [row for row in json.loads(out) if row["user_id"] == 99999]
    assert [row["score"] for row in popular] == sorted(model.log.item_counts, reverse=True)[:4]
    code, out, err = icpe("recommend", finished, "--users", plain, "--unknown", "raise")
    assert (code, out) == (2, "")
    assert "user 'ann' is not in the training data" in err


@pytest.mark.parametrize("whose", [["--all"], ["--user", "7"], ["--history", "new.csv"], ["--history", "1,2"]])
def test_only_and_excluded_items_in_files(icpe, finished, model, whose):
    some = model.log.items[5:30].to_list()
    write("only.txt", "\n".join(map(str, [*some, "stone"])))
    write("exclude.csv", "item_id\n" + "\n".join(map(str, [*some[:10], 88888, 99999])))
    write("new.csv", "user_id,item_id\nzoe,1\nzoe,2\n")
    code, out, err = icpe(
        "recommend", finished, *whose, "-n", 40, "--only", "only.txt", "--exclude", "exclude.csv", "-o", "lists.csv"
    )
    assert code == 0
    found = pl.read_csv("lists.csv")
    assert out == f"{len(found):,} rows in lists.csv\n"
    assert 0 < found["item_id"].n_unique() <= 15
    assert set(found["item_id"]) <= set(some[10:])
    assert "--only only.txt: 1 of 26 items are not in the training data, such as 'stone'" in err
    assert "--exclude exclude.csv: 2 of 12 items are not in the training data, such as '88888'" in err


def test_histories_of_new_users_in_a_file(icpe, finished, model):
    write("new.csv", "user_id,item_id\nzoe,1\nann,3\nzoe,2\nzoe,77777\nzoe,1\nlost,stone\n")
    code, out, err = icpe("recommend", finished, "--history", "new.csv", "-n", 5, "--json")
    assert code == 0
    expected = model.fold_in({"zoe": [1, 2], "ann": [3]}, n=5)
    rows = json.loads(out)
    assert [(row["user_id"], row["item_id"], row["rank"]) for row in rows] == expected.select(
        "user_id", "item_id", "rank"
    ).rows()
    np.testing.assert_allclose([row["score"] for row in rows], expected["score"], rtol=1e-6)
    assert "--history new.csv: 2 of 5 items are not in the training data, such as '77777'" in err
    assert "1 of 3 users have no known item, such as 'lost'; they get no list" in err
    code, out, err = icpe("recommend", finished, "--history", "new.csv", "-n", 5, "--json", "--unknown", "popular")
    assert [row["user_id"] for row in json.loads(out)] == ["zoe"] * 5 + ["ann"] * 5 + ["lost"] * 5
    assert "no list" not in err
    assert icpe("recommend", finished, "--history", "new.csv", "--unknown", "raise")[0] == 2
    write("numbers.csv", "user_id,item_id\n70007,1\n")
    assert json.loads(icpe("recommend", finished, "--history", "numbers.csv", "--json")[1])[0]["user_id"] == 70007


def test_three_formats_hold_the_same_lists(icpe, finished):
    for suffix in ("parquet", "csv", "jsonl"):
        assert icpe("recommend", finished, "--all", "-n", 3, "-o", f"lists.{suffix}")[0] == 0
    table = pl.read_parquet("lists.parquet")
    assert table.columns == ["user_id", "item_id", "score", "rank"]
    for other in (pl.read_csv("lists.csv"), pl.read_ndjson("lists.jsonl")):
        assert other.select("user_id", "item_id", "rank").rows() == table.select("user_id", "item_id", "rank").rows()
        np.testing.assert_allclose(other["score"], table["score"], rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--users", "nowhere.csv"], "'nowhere.csv' does not exist"),
        (["--users", "empty.txt"], "empty.txt has no content"),
        (["--users", "other.csv"], "column 'user_id' not found; other.csv has 'a', 'b'. Pass --column user_id=NAME"),
        (["--user", "7", "--only", "other.csv"], "column 'item_id' not found; other.csv has 'a', 'b'"),
        (["--user", "7", "--exclude", "binary.txt"], "binary.txt"),
        (["--history", "nowhere.csv"], "--history nowhere.csv does not exist; pass a file, or items"),
        (["--history", "other.csv"], "column 'user_id' not found; other.csv has 'a', 'b'"),
        (["--history", "header.csv"], "--history header.csv has no rows with a user and an item"),
        (["--users", "ok.txt", "--user", "7"], "choose whose lists to make: --user ID (repeatable), --users FILE"),
    ],
)  # fmt: skip
def test_wrong_files(icpe, finished, words, message):
    write("empty.txt", "\n\n")
    write("other.csv", "a,b\n1,2\n")
    write("header.csv", "user_id,item_id\n")
    write("ok.txt", "7\n")
    Path("binary.txt").write_bytes(b"\x00\xff\x00")
    code, out, err = icpe("recommend", finished, *words)
    assert (code, out) == (2, "")
    assert message in err
