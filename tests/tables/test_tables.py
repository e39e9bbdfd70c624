"""The table model and its five renderers, on tables small enough to check by eye."""

import csv
import io

import pytest

from icpe.tables import (
    Cell,
    Column,
    Row,
    Table,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
    as_text,
    as_turned_text,
    terminal_width,
)

COLUMNS = (Column("Recall@20", better="more"), Column("Gini@20", better="less", decimals=2), Column("note"))
ROWS = (
    Row(("MF", "Normal"), (Cell(0.1, 0.01, rank=2), Cell(0.9), Cell("a|b"))),
    Row(("MF", "ICPE"), (Cell(0.25, 0.02, rank=1, mark="*"), Cell(0.5), Cell())),
    Row(("LightGCN", "ICPE"), (Cell(0.3), Cell(), Cell("x & y"))),
)
TABLE = Table(COLUMNS, ROWS, ("backbone", "method"), "Three runs.", "on the backbone")
GROUPED = Table(
    (Column("all", "Recall@20", "more"), Column("head", "Recall@20", "more"), Column("@20", "Gini", "less")),
    tuple(Row((name,), (Cell(0.1), Cell(0.2, rank=1), Cell(0.3))) for name in ("A", "B", "C")),
)
HOSTILE = "<script>alert('x')</script> & \"y\""


def test_text_separates_groups_and_marks_ranks():
    lines = as_text(TABLE).splitlines()
    assert lines[0].split() == ["backbone", "method", "Recall@20", "↑", "Gini@20", "↓", "note"]
    assert lines[2].split() == ["MF", "Normal", "0.1000", "±", "0.0100²", "0.90", "a|b"]
    assert lines[3].split() == ["MF", "ICPE", "0.2500", "±", "0.0200¹*", "0.50", "–"]
    assert lines[4] == ""
    assert lines[5].startswith("LightGCN")
    assert "Three runs." in lines[-1]
    assert "¹" in lines[-1]


def test_text_continues_below_when_it_does_not_fit():
    columns = tuple(Column(f"metric {at}") for at in range(6))
    wide = Table(columns, (Row(("method",), tuple(Cell(at / 10) for at in range(6))),), ("",), "word " * 40)
    text = as_text(wide, width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert all(text.count(f"metric {at}") == 1 for at in range(6))
    assert text.count("method") > 1
    assert as_text(wide).count("method") == 1
    narrow = as_text(wide, width=5)  # too narrow for anything: one column per block
    assert narrow.count("method") == 6


def test_turned_text_has_a_line_for_each_column():
    lines = as_turned_text(GROUPED).splitlines()
    assert lines[0].split() == ["A", "B", "C"]
    assert lines[1].split() == ["Recall@20", "↑", "all", "0.1000", "0.1000", "0.1000"]
    assert lines[2].split() == ["head", "0.2000", "*", "0.2000", "*", "0.2000", "*"]
    assert lines[3].split()[:3] == ["Gini", "↓", "@20"]
    cut = as_turned_text(GROUPED, width=55)
    assert max(map(len, cut.splitlines())) <= 55
    assert cut.count("Recall@20") == 2


def test_markdown_and_latex_emphasise_and_escape():
    markdown = as_markdown(TABLE).splitlines()
    assert markdown[2] == r"| MF | Normal | <u>0.1000 ± 0.0100</u> | 0.90 | a\|b |"
    assert markdown[3] == r"| MF | ICPE | **0.2500 ± 0.0200**\* | 0.50 | – |"
    latex = as_latex(TABLE)
    assert r"MF & ICPE & \textbf{0.2500 $\pm$ 0.0200}\textsuperscript{*} & 0.50 & -- \\" in latex
    assert r"x \& y" in latex
    assert latex.count(r"\midrule") == 2
    assert latex.count("{") == latex.count("}")


def test_csv_keeps_exact_numbers():
    exact = Table((Column("recall"),), (Row(("a,b",), (Cell(1 / 3, 0.1),)), Row(("c",), (Cell(),))), ("method",))
    rows = list(csv.DictReader(io.StringIO(as_csv(exact))))
    assert rows[0] == {"method": "a,b", "recall": repr(1 / 3), "recall_std": "0.1"}
    assert rows[1] == {"method": "c", "recall": "", "recall_std": ""}


def test_html_emphasises_and_escapes():
    page = as_html(TABLE)
    assert "<b>0.2500</b>*" in page
    assert "<u>0.1000</u>" in page
    assert page.count('scope="rowgroup"') == 2
    assert 'scope="colgroup" colspan="2"' in as_html(GROUPED)
    hostile = Table(
        (Column(HOSTILE, HOSTILE),), (Row((HOSTILE, HOSTILE), (Cell(HOSTILE, mark=HOSTILE),)),), ("", ""), HOSTILE
    )
    assert "<script" not in as_html(hostile)
    assert as_html(hostile).count("&lt;script&gt;") == 7


@pytest.mark.parametrize("render", [as_text, as_turned_text, as_markdown, as_latex, as_csv, as_html])
def test_a_table_without_rows(render):
    assert "Recall@20" in render(Table(COLUMNS, (), ("backbone", "method"), "Nothing."))


def test_no_width_without_a_terminal(capfd):
    assert terminal_width() is None
