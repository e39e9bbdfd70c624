"""What a log contains can neither run in a spreadsheet nor steer a terminal or a page, and ids survive a round trip."""

import csv
import io
import json
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icpe import DataError, Interactions
from icpe.audit import audit
from icpe.cli import run
from icpe.report.pages.audit import audit_report, terminal_text
from icpe.shown import visible, visible_lines
from icpe.spreadsheet import plain_texts, safe_frame, safe_text
from icpe.tables import Cell, Column, Row, Table, as_csv, as_html, as_markdown, as_text, as_turned_text

FORMULAS = ["=1+1", "+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''-x", "=cmd|'/c calc'!A0"]
ORDINARY = ["plain", "don't", "'quoted'", "a=b", "x@y", "–", "7"]
ODD = "a\x1b[2Jb\u202ec\u2066|*_<b>"


@given(st.text(alphabet="'=+-@\t\rab ", max_size=6))
def test_safe_text_is_never_a_formula_and_can_be_undone(text):
    safe = safe_text(text)
    assert not re.match(r"[=+\-@\t\r]", safe)
    assert plain_texts(pl.Series([safe])).to_list() == [text]
    assert safe_frame(pl.DataFrame({"a": [text]})).item() == safe


def test_frames_change_only_text():
    frame = pl.DataFrame({"user_id": FORMULAS, "score": [-0.5] * 9, "rank": range(9), "name": [None, *ORDINARY, "="]})
    safe = safe_frame(frame)
    assert safe.columns == frame.columns
    assert safe["score"].to_list() == [-0.5] * 9
    assert safe["user_id"].to_list() == [f"'{one}" for one in FORMULAS]
    assert safe["name"].to_list() == [None, *ORDINARY, "'="]
    assert safe_frame(frame.select("score")).equals(frame.select("score"))


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


@pytest.fixture
def odd_log():
    """A log whose ids are formulas; every user has used seven of sixteen items."""
    users = [one for one in FORMULAS for _ in range(7)]
    items = [(FORMULAS + ORDINARY)[k % 16] for k in range(len(users))]
    return Interactions.read(pl.DataFrame({"user_id": users, "item_id": items}))


def test_a_log_survives_csv(odd_log, tmp_path):
    odd_log.write(tmp_path / "log.csv")
    assert all(not re.match(r"[=+\-@\t\r]", cell) for row in read_csv(tmp_path / "log.csv") for cell in row.values())
    again = Interactions.read(tmp_path / "log.csv")
    assert again.content_hash == odd_log.content_hash
    odd_log.write(tmp_path / "raw.csv", raw=True)
    assert {row["user_id"] for row in read_csv(tmp_path / "raw.csv")} == set(FORMULAS)


def test_ids_that_reading_would_join_are_refused(write):
    with pytest.raises(
        DataError, match=r"""row 3: 'user_id' is "'=a", which stands for '=a' .* but the file has that id too"""
    ):
        Interactions.read(write("log.csv", "user_id,item_id\n=a,1\n'=a,2\n"))


def test_lists_survive_csv_and_audit(odd_log, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    odd_log.write("log.csv")
    assert (
        run(["train", "log.csv", "--split", "random", "--train.epochs", "1", "--backbone.dim", "4", "-o", "run"]) == 0
    )
    for flags, name in (((), "safe.csv"), (("--raw-csv",), "raw.csv"), ((), "recs.parquet")):
        assert run(["recommend", "run", "--all", "-n", "5", "-o", name, *flags]) == 0
    cells = [cell for row in read_csv(tmp_path / "safe.csv") for name, cell in row.items() if name.endswith("_id")]
    assert not any(re.match(r"[=+\-@\t\r]", cell) for cell in cells)
    assert any(cell.startswith("'=") for cell in cells)
    lists = pl.read_parquet("recs.parquet")
    assert [row["item_id"] for row in read_csv(tmp_path / "raw.csv")] == lists["item_id"].to_list()
    found = audit(odd_log, {"safe": "safe.csv", "parquet": "recs.parquet"})
    assert found.sets[0].given.content_hash == found.sets[1].given.content_hash
    assert found.values["safe"] == found.values["parquet"]
    capfd.readouterr()
    assert run(["recommend", "run", "--user", "=1+1", "-n", "2", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)[0]["user_id"] == "=1+1"


def test_visible():
    assert visible("tab\tnew\nline\u2028") == "tab\\u0009new\\u000aline\\u2028"
    assert visible_lines("tab\tnew\nline\x07") == "tab\tnew\nline\\u0007"
    assert visible("Sigur Rós 日本 עברית 🎵 e\u0301") == "Sigur Rós 日本 עברית 🎵 e\u0301"
    text = json.dumps({"a": ODD + "\x9b"}, ensure_ascii=False)
    assert visible_lines(text) != text
    assert json.loads(visible_lines(text)) == json.loads(text)


TABLE = Table(
    (Column("score"), Column("name")),
    (Row((ODD,), (Cell(-0.5, 0.1), Cell(ODD))), Row(("=1",), (Cell(1), Cell("=2")))),
    ("id",),
)


def obeyed(text):
    return re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("render", [as_text, as_turned_text, as_markdown, as_html])
def test_tables_obey_nothing(render):
    assert obeyed(ODD)
    assert not obeyed(str(render(TABLE)))


def test_tables_as_csv_and_markdown():
    rows = list(csv.reader(io.StringIO(as_csv(TABLE))))
    assert rows[1] == [ODD, "-0.5", "0.1", ODD]
    assert rows[2] == ["'=1", "1", "", "'=2"]
    assert list(csv.reader(io.StringIO(as_csv(TABLE, raw=True))))[2] == ["=1", "1", "", "=2"]
    first = as_markdown(TABLE).splitlines()[2]
    assert len(re.findall(r"(?<!\\)\|", first)) == 4  # the borders of three cells
    assert r"\|\*\_\<b\>" in first
    row = Table((Column("x"),), (Row(("a\n| b |",), (Cell(1),)),))
    assert len(as_markdown(row).splitlines()) == 3


def test_names_in_the_terminal_and_on_pages(tmp_path, icpe):
    frame = pl.DataFrame(
        {
            "user_id": [f"{ODD}{k}" for k in range(8)] * 3,
            "item_id": [f"i{k % 5}\u202e" for k in range(24)],
            "\x1b[1mextra": 1,
        }
    )
    names = pl.DataFrame({"item_id": [f"i{k}\u202e" for k in range(5)], "name": [f"<i>{ODD}" for _ in range(5)]})
    frame.write_csv("log.csv")
    names.write_csv("items.csv")
    code, out, err = icpe("data", "describe", "log.csv")
    assert code == 0, err
    assert r"\u001b[1mextra" in out
    assert not obeyed(out)
    assert (
        icpe("train", "log.csv", "--items", "items.csv", "--split", "random", "--train.epochs", 1, "-o", "run")[0] == 0
    )
    code, out, _ = icpe("recommend", "run", "--user", f"{ODD}1", "-n", 3, "--include-seen")
    assert r"\u001b[2Jb\u202ec" in out
    assert not obeyed(out)
    code, out, err = icpe("recommend", "run", "--user", "x\x1b[2J\u202e")
    assert code == 2
    assert not obeyed(err)
    assert icpe("report", "run", "-o", "page.html")[0] == 0
    assert not obeyed((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_audits_obey_nothing(tmp_path):
    log = Interactions.read(
        pl.DataFrame(
            {"user_id": [f"{ODD}{k % 6}" for k in range(24)], "item_id": [f"i{k % 7}\u202e" for k in range(24)]}
        )
    )
    lists = log.to_frame().with_columns(rank=1)
    found = audit(log, {"new": lists})
    page = audit_report(found, tmp_path / "audit.html", (), "icpe audit")
    assert not obeyed(page.read_text(encoding="utf-8"))
    assert not obeyed("".join(terminal_text(found, None)))
