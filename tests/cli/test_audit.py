"""``icpe audit``: figures worked out by hand, odd files, one line for every mistake."""

import json
import math
from html import unescape
from pathlib import Path

import polars as pl
import pytest

from icpe import Interactions
from icpe.cli import run

# Five items, so the head is `hit` alone.
LOG = "who;what;on\na;hit;2024-01-01\nb;hit;2024-01-01\nc;hit;2024-01-02\na;x;2024-01-03\nb;y;2024-01-03\nd;z;2024-01-04\nd;w;2024-01-05\nd;w;2024-01-06\n"
RECS = "user_id,item_id\na,hit\na,neu ä\nb,x\nb,hit\nc,z\ne,hit\ne,x\n"
LATER = "who;what\na;w\na;neu ä\nb;hit\nb;z\nc;z\ne;x\nf;hit\n"
COLUMNS = ["--column", "user_id=who", "--column", "item_id=what", "--column", "timestamp=on"]


@pytest.fixture
def icpe(tmp_path, monkeypatch, capfd):
    """Run ``icpe audit`` in a folder with the files above; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("log.csv", LOG), ("recs.csv", RECS), ("later.csv", LATER)):
        Path(name).write_text(text, encoding="utf-8")

    def invoke(*arguments):
        code = run(["audit", "--log", "log.csv", *COLUMNS, *arguments])
        return code, *capfd.readouterr()

    return invoke


def test_figures_worked_out_by_hand(icpe):
    code, out, err = icpe("--recs", "recs.csv", "--test", "later.csv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    recs = found["recs"]["recs"]
    assert (found["file"], found["n"]) == ("audit.html", 2)
    expected = {"coverage@2": 4 / 6, "apt@2": 0.625, "gini@2": 0.5, "popularity@2": 1.625, "users": 4}
    expected |= {"novelty@2": (3 * (math.log2(4 / 3) + 2) / 2 + 2) / 4}
    expected |= {"recall@2": 0.625, "recall_niche@2": 0.625, "users_niche": 4, "users_head": 0}
    second = 1 / math.log2(3)
    expected |= {"ndcg@2": (second / (1 + second) + 0 + 1 + second) / 4}
    assert {name: recs["metrics"][name] for name in expected} == pytest.approx(expected)
    assert recs["metrics"]["recall_head@2"] is None
    counts = {
        "rows": 7, "duplicates": 0, "lists": 4, "places": 7, "short_lists": 1, "unknown_users": 1,
        "users_without_list": 1, "unknown_items": 1, "places_on_unknown_items": 1, "places_on_used_items": 2,
    }  # fmt: skip
    assert {name: recs[name] for name in counts} == counts
    said = " ".join(found["remarks"]).replace("\N{NO-BREAK SPACE}", " ")
    assert "judged at length 2" in said
    assert "1 of 7 test pairs" in said
    assert "17 % of the test pairs" in said


def test_bias_metrics_worked_out_by_hand(icpe):
    code, out, err = icpe("--recs", "recs.csv", "--test", "later.csv", "--json")
    assert (code, err) == (0, "")
    recs = json.loads(out)["recs"]["recs"]
    metrics = recs["metrics"]
    second = 1 / math.log2(3)
    expected = {
        "aclt@2": 1.0,
        "weighted_apt@2": (second / (1 + second) + 1 / (1 + second) + 1 + second / (1 + second)) / 4,
        # Head items are listed 3 times and open to e alone; niche items 4 times, and open 4 + 4 + 5 + 5 times.
        "pop_rsp@2": (3 - 4 / 18) / (3 + 4 / 18),
        # Items of a, b and c had 2, 2 and 3 interactions on average; their lists have 1.5, 2 and 1.
        "popularity_lift@2": 4.5 / 7 - 1,
        # hit 3, x 2, z 1 and the new item 1 of 7 places.
        "entropy@2": math.log2(7) - (3 * math.log2(3) + 2) / 7,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert metrics["pop_reo@2"] is None  # nobody wants a head item later
    assert metrics["ee_l@2"] > 0
    assert recs["user_groups"] == {
        "niche_users": 0,
        "mixed_users": 2,
        "blockbuster_users": 1,
    }  # d, a niche user, has no list
    assert metrics["popularity_lift_niche_users@2"] is None
    assert recs["lorenz"][0] == 0
    assert recs["lorenz"][-1] == 1
    assert recs["intervals"]["apt@2"][0] <= metrics["apt@2"] <= recs["intervals"]["apt@2"][1]
    assert set(recs["intervals"]) <= set(metrics)


def test_the_page_has_sentences_meanings_and_limits(icpe):
    assert icpe("--recs", "old=recs.csv", "--recs", "new=recs.csv", "--test", "later.csv")[0] == 0
    page = unescape(Path("audit.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " "))
    assert page.count('class="lead"') == 3
    assert "'new' fills 62 % of the list positions with niche items ('old': 62 %)" in page
    assert "'old' is not better in any column of the table." in page
    assert "29 % of the list positions show items that the user has already used." in page
    assert "Shown items are 0.6 times ('old': 0.6) as popular as the items that people chose." in page
    assert "The lists contain 62 % ('old': 62 %) of what people wanted later." in page
    assert page.count("What this means.") == page.count("<b>Limits.</b>") == page.count("<svg") == 4
    assert "only moderately" in page
    assert "Lorenz curve" in page
    assert "blockbuster users" in page


def test_rules_and_history_know_the_bias_metrics(icpe):
    code, _, err = icpe("--recs", "recs.csv", "--history", "bias.parquet", "--fail-if", "popularity_lift@2<-.3")
    assert (code, "popularity_lift@2 of recs is -0.357" in err) == (1, True)
    assert pl.read_parquet("bias.parquet")["popularity_lift@2"].to_list() == pytest.approx([4.5 / 7 - 1])


def test_without_a_test_part_only_exposure(icpe):
    code, out, _ = icpe("--recs", "recs.csv", "-n", "1", "-o", "pages/one.html", "--json")
    metrics = json.loads(out)["recs"]["recs"]["metrics"]
    assert code == 0
    assert {"coverage@1", "apt@1", "gini@1", "popularity@1", "novelty@1", "users", "aclt@1", "entropy@1"} <= set(
        metrics
    )
    assert not {name for name in metrics if name.startswith(("recall", "ndcg", "pop_reo", "ee_"))}
    assert (metrics["apt@1"], metrics["coverage@1"]) == (0.5, 0.5)  # hit, x, z, hit of the six items known
    assert Path("pages/one.html").exists()


def test_figures_of_a_set_do_not_depend_on_the_others(icpe):
    Path("after.tsv").write_text("kunde\tsku\tplatz\nb\tw\t0\nb\tganz neu\t3\nb\tw\t4\na\ty\t0\n", encoding="utf-8")
    mapped = [f"--recs-column=new:{pair}" for pair in ("user_id=kunde", "item_id=sku", "rank=platz")]
    both = icpe("--recs", "old=recs.csv", "--recs", "new=after.tsv", *mapped, "--test", "later.csv", "--json")
    assert both[0] == 0, both
    both = json.loads(both[1])["recs"]
    alone = json.loads(icpe("--recs", "old=recs.csv", "--test", "later.csv", "--json")[1])["recs"]
    assert both["old"] == alone["old"]
    assert (both["new"]["order"], both["new"]["duplicates"], both["new"]["places"]) == ("rank", 1, 3)


def test_the_terminal_and_the_page_say_what_was_met(icpe):
    code, out, err = icpe("--recs", "recs.csv", "--test", "later.csv", "--user", "b")
    assert (code, err) == (0, "")
    flat = " ".join(out.replace("\N{NO-BREAK SPACE}", " ").split())
    page = unescape(Path("audit.html").read_text(encoding="utf-8"))
    for words in (
        "'recs' fills 62 % of the list positions with niche items, which are 80 % of the catalogue and have 57 % of the log",
        "29 % of the list positions show items that the user has already used",
        "14 % of the list positions show items that are not in the log (number of these items: 1)",
        "not in the log: 1 of 4",
        "shorter than 2: 1 of 4",
    ):
        assert words in flat
        assert words in page.replace("\N{NO-BREAK SPACE}", " ")
    assert flat.count("already used") == page.count("already used") == 1
    assert "audit.html" in flat
    assert f"icpe audit --log log.csv {' '.join(COLUMNS)} --recs recs.csv --test later.csv --user b" in page
    assert "<h3>User b</h3>" in page
    assert Interactions.read("log.csv", {"user_id": "who", "item_id": "what", "timestamp": "on"}).content_hash in page


def test_mistakes_are_told_in_one_line(icpe, monkeypatch):
    files = {
        "empty.csv": "", "header.csv": "user_id,item_id\n", "other.csv": "user_id,item_id\na,HIT\n",
        "rank.csv": "user_id,item_id,rank\na,hit,first\n", "named.csv": "uid,item_id\na,hit\n",
        "bare.csv": "1,2\n3,4\n", "same.csv": "who;what\na;hit\n", "nobody.csv": "who;what\nzoe;hit\n",
    }  # fmt: skip
    for name, text in files.items():
        Path(name).write_text(text)
    pl.DataFrame({"user_id": [1], "item_id": [2]}).write_parquet("ints.parquet")
    before = sorted(Path().iterdir())
    for arguments, message in (
        (["--recs", "empty.csv"], "empty.csv is empty (0 bytes)"),
        (["--recs", "header.csv"], "header.csv has no rows"),
        (["--recs", "other.csv"], "no item of other.csv is in log.csv (such as 'HIT' and 'hit')"),
        (["--recs", "rank.csv"], "rank.csv, row 2: 'rank' is 'first'"),
        (["--recs", "named.csv"], "--recs-column user_id=uid"),
        (["--recs", "bare.csv"], "--recs-no-header --recs-column user_id=0"),
        (["--recs", "ints.parquet"], "'user_id' is text in log.csv (such as 'a') and integers in ints.parquet"),
        (["--recs", "missing.csv"], "missing.csv does not exist"),
        (["--recs", "recs.csv", "--recs", "recs.csv"], "two sets of lists are called 'recs'"),
        (["--recs", "recs.csv", "-n", "9"], "n is 9, but the longest list has 2 items"),
        (["--recs", "recs.csv", "--test", "same.csv"], "every pair of same.csv is already in log.csv"),
        (["--recs", "recs.csv", "--test", "nobody.csv"], "no user of the lists has a test item"),
        (["--recs", "recs.csv", "--user", "zoe"], "user 'zoe' has no list"),
        (["--recs", "recs.csv", "-o", "audit.pdf"], "should end in .html"),
        (["--recs", "recs.csv", "--recs-column", "old:rank=x"], "no set is called 'old'"),
        (["--recs", "recs.csv", "--recs-column", "weight=x"], "'weight' is not one of our column names"),
    ):
        code, out, err = icpe(*arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err, err
        assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == before


def test_a_file_without_header_and_a_name_with_an_equals_sign(icpe):
    Path("a=b.csv").write_text("a,hit\nb,x\n")
    mapped = ["--recs-no-header", "--recs-column", "user_id=0", "--recs-column", "item_id=1"]
    code, out, _ = icpe("--recs", "a=b.csv", *mapped, "--json")
    assert code == 0
    assert json.loads(out)["recs"]["a=b"]["lists"] == 2


ITEMS = "sku,kind,name\nhit,film,Hit\nx,film,X\ny,book,Y\nz,book,Z\nw,,W\n"


@pytest.fixture
def items(icpe):
    Path("items.csv").write_text(ITEMS, encoding="utf-8")
    return ["--items", "items.csv", "--item-column", "item_id=sku"]


def test_exposure_by_a_column_worked_out_by_hand(icpe, items):
    """Of seven places, hit and x have five, z one, and one shows an item that is not in the log."""
    code, out, err = icpe("--recs", "recs.csv", *items, "--by", "kind", "--json")
    assert (code, err) == (0, "")
    found = {one["name"]: one for one in json.loads(out)["by"]["kind"]}
    assert list(found) == ["film", "book", "unknown", "not in the log"]
    assert [one["of_catalogue"] for one in found.values()] == pytest.approx([0.4, 0.4, 0.2, 0])
    assert [one["of_log"] for one in found.values()] == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0])
    assert [one["of_lists"]["recs"] for one in found.values()] == pytest.approx([5 / 7, 1 / 7, 0, 1 / 7])
    assert found["film"]["ratios"]["recs"] == pytest.approx(5 / 4)
    code, out, _ = icpe("--recs", "recs.csv", *items, "--by", "kind", "--by", "name")
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "film" in out
    assert "1.25" in out
    assert "Exposure by kind" in page
    assert "Exposure by name" in page
    assert page.count("<svg") == 6


def test_every_night_adds_a_row_and_the_page_draws_them(icpe):
    def night(date, *more):
        return icpe("--recs", "recs=recs.csv", "--history", "bias.parquet", "--date", date, *more)

    assert night("2024-05-01")[0] == 0
    assert "Over time" not in Path("audit.html").read_text(encoding="utf-8")
    Path("recs.csv").write_text("user_id,item_id\na,hit\nb,hit\nb,x\nc,z\n")
    code, out, err = night("2024-05-02T03:00+03:00", "--fail-if", "apt@2<.1", "--fail-if", "apt@2<.99*previous")
    assert code == 1
    assert "apt@2 of recs is 0.5, and the limit of 'apt@2<.99*previous' is 0.61875" in err
    assert "'apt@2<.1'" not in err
    assert "apt@2<.1" in out
    assert "Rows in bias.parquet: 2" in out
    table = pl.read_parquet("bias.parquet")
    assert table["lists"].to_list() == ["recs", "recs"]
    assert table["apt@2"].to_list() == [0.625, 0.5]  # the night that failed is a part of the history too
    assert table["date"].dt.to_string("%d %H").to_list() == ["01 00", "02 00"]
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "Over time" in page
    assert "<b>Failed.</b> apt@2 of recs is 0.5" in page


def test_rules_in_json(icpe):
    code, out, err = icpe("--recs", "recs.csv", "--fail-if", "coverage@2<.7", "--fail-if", "gini@2>.6", "--json")
    assert code == 1
    assert err.count("\n") == 1
    rules = json.loads(out)["rules"]
    assert [(one["metric"], one["limit"], one["failed"]) for one in rules] == [
        ("coverage@2", 0.7, True),
        ("gini@2", 0.6, False),
    ]


def test_mistakes_of_a_nightly_audit_are_told_in_one_line(icpe, items):
    history = ["--history", "bias.parquet"]
    assert icpe("--recs", "recs.csv", *history)[0] == 0
    before = {path: path.read_bytes() for path in Path().iterdir()}
    for arguments, message in (
        (["--fail-if", "apt@2 is bad"], "--fail-if: 'apt@2 is bad' is not a rule"),
        (
            ["--fail-if", "apt@20<.2"],
            "--fail-if 'apt@20<.2': unknown metric of this audit 'apt@20'; did you mean 'apt@2'? Known: aclt@2",
        ),
        (["--fail-if", "apt@2<previous"], "--fail-if 'apt@2<previous' compares with an earlier night; add --history"),
        (["--date", "2024-05-01"], "--date is '2024-05-01', but only a history has dates; add --history"),
        (["--date", "May", *history], "--date is 'May'; expected a date such as 2024-05-31"),
        (["--history", "bias.csv"], "--history is bias.csv; expected a file that ends in .parquet"),
        (["-n", "1", *history], "bias.parquet has no metric of this audit: it has 'coverage@2'"),
        (["--by", "colour"], "nothing is known about the items; pass --items FILE"),
        ([*items, "--by", "kinds"], "unknown column of the items 'kinds'; did you mean 'kind'?"),
    ):
        code, out, err = icpe("--recs", "recs.csv", *arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err, err
        assert len(err.splitlines()) == 1
    code, _, err = icpe("--recs", "other=recs.csv", *history)
    assert (code, "history of 'recs', but this audit is about 'other'; pass --recs NAME=FILE" in err) == (2, True), err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
