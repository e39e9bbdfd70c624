"""What the README and the docs show is run as it stands there."""

import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from icpe import make_world
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


def test_readme(own_log, capsys):
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, "README.md", "exec"), {})
            continue
        for line in block.splitlines():
            assert line.startswith("$ icpe ")
            assert run(shlex.split(line.removeprefix("$ icpe "))) == 0, capsys.readouterr().err
    assert {path.name for path in Path().iterdir()} >= {"tail.png", "parts", "world", "report.html"}
    assert {path.name for path in Path("parts").iterdir()} >= {
        "train.parquet",
        "valid.parquet",
        "test.parquet",
        "split.json",
    }


def test_parts_have_what_is_tested():
    assert [kind for kind, _ in PAGES["parts.md"]] == ["python", "python"]


@pytest.mark.parametrize(
    ("page", "kind", "block"), [(page, *block) for page, blocks in PAGES.items() for block in blocks]
)
def test_docs(page, kind, block):
    """Each block stands alone."""
    assert kind == "python"
    exec(compile(block, page, "exec"), {})


def test_links_of_the_docs_lead_somewhere():
    for page in [README, *README.parent.glob("*.md"), *README.parent.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
