"""The history of audits: rows by date, an old file that survives, and clear words about files that do not fit."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import SimpleNamespace

import polars as pl
import pytest

from icpe.audit import History
from icpe.cli.audit_night import Night
from icpe.errors import DataError

FIRST, SECOND, THIRD = (datetime(2024, 5, day) for day in (1, 2, 3))


def night(value, name="model"):
    return {name: {"apt@20": value, "recall_head@20": None, "users": 7}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bias.parquet"


def test_nights_are_kept_in_the_order_of_their_dates(path):
    for date, value in ((FIRST, 0.1), (THIRD, 0.3), (SECOND, 0.2)):
        History.read(path).added(date, night(value)).write()
    found = History.read(path)
    assert found.nights == 3
    assert found.table["date"].to_list() == [FIRST, SECOND, THIRD]
    assert found.table["apt@20"].to_list() == [0.1, 0.2, 0.3]
    assert found.table["recall_head@20"].null_count() == 3
    assert [one.name for one in path.parent.iterdir()] == ["bias.parquet"]


def test_the_night_before_is_the_last_earlier_row(path):
    history = History.read(path)
    assert history.before(FIRST) == {}
    for date, value in ((FIRST, 0.1), (SECOND, 0.2), (THIRD, 0.3)):
        history = history.added(date, night(value))
    assert history.before(THIRD)["model"] == {"apt@20": 0.2, "recall_head@20": None, "users": 7.0}
    assert history.before(datetime(2030, 1, 1))["model"]["apt@20"] == 0.3


def test_a_night_that_is_audited_again_replaces_its_row(path):
    history = History.read(path).added(FIRST, night(0.1)).added(SECOND, night(0.2)).added(SECOND, night(0.4))
    assert history.table["apt@20"].to_list() == [0.1, 0.4]


def test_several_sets_of_a_night(path):
    both = {**night(0.1, "old"), **night(0.2, "new")}
    history = History.read(path).added(FIRST, both).added(SECOND, both)
    assert (history.nights, history.table.height) == (2, 4)
    assert history.before(THIRD).keys() == {"old", "new"}


def test_metrics_that_are_new_or_gone_are_null_on_the_other_nights(path):
    first = {"model": {"apt@20": 0.1, "entropy@20": 5.0, "users": 7}}
    second = {"model": {"apt@20": 0.2, "users": 7, "recall@20": 0.3}}
    history = History.read(path).added(FIRST, first).added(SECOND, second)
    history.write()
    again = History.read(path).added(THIRD, first)
    assert again.table.columns == ["date", "lists", "apt@20", "entropy@20", "users", "recall@20"]
    assert again.table["entropy@20"].to_list() == [5.0, None, 5.0]
    assert again.table["recall@20"].to_list() == [None, 0.3, None]
    assert history.before(THIRD)["model"]["entropy@20"] is None


def test_other_lists_and_metrics_are_refused(path):
    history = History.read(path).added(FIRST, night(0.1))
    with pytest.raises(DataError, match="is the history of 'model', but this audit is about 'recs'"):
        history.added(SECOND, night(0.2, "recs"))
    with pytest.raises(DataError, match="has no metric of this audit: it has 'apt@20'.*the audit 'apt@10'.*-n"):
        history.added(SECOND, {"model": {"apt@10": 0.1, "recall_head@10": None, "users": 7}})


def test_a_file_of_something_else_is_refused(path):
    pl.DataFrame({"user_id": [1]}).write_parquet(path)
    with pytest.raises(DataError, match="is no history of audits: its columns are 'user_id'"):
        History.read(path)
    path.write_bytes(b"not Parquet at all")
    with pytest.raises(DataError, match="cannot be read"):
        History.read(path)


def test_a_failure_leaves_the_file_as_it_was(path, monkeypatch):
    History.read(path).added(FIRST, night(0.1)).write()
    before = path.read_bytes()

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(KeyboardInterrupt):
        History.read(path).added(SECOND, night(0.2)).write()
    assert path.read_bytes() == before


def test_audits_that_end_at_the_same_moment_keep_all_rows(path):
    nights = [Night(path, datetime(2024, 5, day), []) for day in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: one.append(SimpleNamespace(values=night(0.5))), nights))
    assert History.read(path).table["date"].to_list() == [one.date for one in nights]
