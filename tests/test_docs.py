"""What the README and the docs show is run as it stands there."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from icpe import load, make_world
from icpe.cli import run

README = Path(__file__).parents[1] / "README.md"


def blocks_of(page):
    return re.findall(r"<!-- tested -->\n```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


BLOCKS = blocks_of(README)
PAGES = {page.name: blocks_of(page) for page in sorted(README.parent.glob("docs/**/*.md"))}


@pytest.fixture
def own_log(tmp_path, monkeypatch):
    """The reader's ``events.csv``: other column names, ISO times without offset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICPE_CACHE", str(tmp_path / "cache"))
    frame = make_world(users=300, items=200, interactions=5000).log.to_frame()
    frame = frame.select(
        uid="user_id", sku="item_id", ts=pl.col("timestamp").dt.replace_time_zone(None).dt.strftime("%Y-%m-%dT%H:%M:%S")
    )
    frame.write_csv("events.csv")


def test_readme_has_what_is_tested():
    assert [kind for kind, _ in BLOCKS] == ["console", "console", "console", "console", "console", "python", "console"]


def run_in_order(page, blocks, capsys):
    """Run commands and Python blocks one after the other in the current folder."""
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, page, "exec"), {})
            continue
        for line in block.splitlines():
            assert line.startswith("$ icpe ")
            assert run(shlex.split(line.removeprefix("$ icpe "))) == 0, capsys.readouterr().err


def test_readme(own_log, capsys):
    run_in_order("README.md", BLOCKS, capsys)
    assert {path.name for path in Path().iterdir()} >= {"tail.png", "parts", "world", "report.html"}
    assert {path.name for path in Path("parts").iterdir()} >= {
        "train.parquet",
        "valid.parquet",
        "test.parquet",
        "split.json",
    }


def test_parts_have_what_is_tested():
    assert [kind for kind, _ in PAGES["parts.md"]] == ["python", "python"]


def test_exporting(own_log, capsys):
    """Five ways to query an exported model give the same lists as the model itself."""
    blocks = PAGES["exporting.md"]
    assert [kind for kind, _ in blocks] == ["console", "python", "python", "python", "python", "python"]
    run_in_order("exporting.md", blocks[:2], capsys)
    model = load("run").dial(beta=-0.2)
    expected = model.recommend([model.log.users[0]], 5)["item_id"].to_list()
    for kind, block in blocks[2:]:
        capsys.readouterr()
        run_in_order("exporting.md", [(kind, block)], capsys)
        assert re.findall(r"\bi\d+\b", capsys.readouterr().out) == expected, block


@pytest.mark.parametrize(
    ("page", "kind", "block"),
    [(page, *block) for page, blocks in PAGES.items() if page != "exporting.md" for block in blocks],
)
def test_docs(page, kind, block):
    """Each block stands alone."""
    assert kind == "python"
    exec(compile(block, page, "exec"), {})


def test_links_of_the_docs_lead_somewhere():
    for page in [README, *README.parent.glob("*.md"), *README.parent.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
