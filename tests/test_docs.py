"""What the README and the docs show is run as it stands there."""

import contextlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import polars as pl
import pytest

import icpe
from icpe import load
from icpe.cli import cli, run
from icpe.methods import METHODS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
IN_ORDER = ("exporting.md", "own-log.md")
"""Pages whose blocks follow one another; on all others, each block stands alone."""


def blocks_of(page):
    return re.findall(r"<!-- tested -->\n```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


PAGES = {page.name: blocks_of(page) for page in sorted(ROOT.glob("docs/**/*.md"))}


@pytest.fixture
def own_log(tmp_path, monkeypatch):
    """The reader's ``events.csv``: other column names, ISO times without offset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICPE_CACHE", str(tmp_path / "cache"))
    shutil.copy(ROOT / "examples" / "events.csv", "events.csv")


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
    Path("examples").mkdir()
    shutil.move("events.csv", "examples")
    blocks = blocks_of(README)
    assert [kind for kind, _ in blocks] == ["console"]
    run_in_order("README.md", blocks, capsys)
    recs = pl.read_parquet("recs.parquet").select("user_id", "item_id", "score", "rank")
    used = pl.read_csv("examples/events.csv").rename({"uid": "user_id", "sku": "item_id"})
    assert len(recs) > 0
    assert recs.join(used, on=["user_id", "item_id"], how="semi").is_empty()  # nobody is shown what they have used


def test_readme_is_read_to_the_end():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_own_log(own_log, capsys):
    blocks = PAGES["own-log.md"]
    assert [kind for kind, _ in blocks] == ["console"] * 6 + ["python", "console"]
    run_in_order("own-log.md", blocks, capsys)
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
    [(page, *block) for page, blocks in PAGES.items() if page not in IN_ORDER for block in blocks],
)
def test_docs(page, kind, block):
    """Each block stands alone."""
    assert kind == "python"
    exec(compile(block, page, "exec"), {})


RUN_BY_TESTS = {"tested", "prepare", "lists", "serve", "ask", "night", "fails", "first night", "cron", "actions"}
NOT_RUN = {"output", "not run"}


@pytest.mark.parametrize("page", sorted({*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")}), ids=lambda page: page.name)
def test_every_block_is_run_or_says_what_it_is(page):
    """Of commands without a mark, the next test checks the flags."""
    blocks = re.findall(r"^(?:<!-- ([^>\n]+) -->\n)?```([^\n]*)\n.*?^```$", page.read_text("utf-8"), re.DOTALL | re.M)
    for mark, language in blocks:
        if language.startswith("{"):
            continue  # a directive
        known = mark in RUN_BY_TESTS | NOT_RUN or mark.startswith(("file: ", "tested by "))
        assert known or (not mark and language in ("console", "bash")), f"{mark!r} {language!r}"


def commands_of(page):
    """Every command of icpe in the blocks of a page, whether tests run it or not."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ icpe ") and "…" not in line:
                yield shlex.split(line.removeprefix("$ icpe "), comments=True)


@pytest.mark.parametrize("page", [README, *sorted(ROOT.glob("docs/**/*.md"))], ids=lambda page: page.stem)
def test_commands_of_the_docs_have_flags_that_exist(page, monkeypatch):
    """Commands that would take too long here are at least read as the program reads them."""
    monkeypatch.setattr(click.Path, "convert", lambda self, value, *_: value)  # the reader's files are not here
    for words in commands_of(page):
        command, context = cli, click.Context(cli)
        while isinstance(command, click.Group):
            name, *words = words
            command = command.get_command(context, name)
            assert command is not None, name
        with contextlib.suppress(click.exceptions.Exit):  # --help-settings prints and ends
            command.make_context(name, words, parent=context)


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    public = {*icpe.__all__, *(one.__name__ for one in METHODS.values())}
    missing = [
        name for name in sorted(public) if not re.search(rf"^\.\. auto\w+:: (icpe\.)?(\w+\.)*{name}$", page, re.M)
    ]
    assert sorted(missing) == ["split"]  # a module, whose functions are there


PARTS_OF_A_METHOD = (
    "Idea",
    "Formula",
    "When to use",
    "Cost",
    "Settings",
    "Expected numbers",
    "Differences from public code",
)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page_of_the_same_form(name):
    """Settings and numbers are made by tools, from the declarations and from docs/results."""
    page = (ROOT / "docs" / "methods" / f"{name}.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert [part.replace("the paper", "public code") for part in parts] == list(PARTS_OF_A_METHOD)
    assert f"<!-- settings: method {name} -->" in page
    assert f"<!-- expected: {name} -->" in page
    assert blocks_of(ROOT / "docs" / "methods" / f"{name}.md")
    assert f"methods/{name}\n" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", ["settings_tables", "expected_numbers"])
def test_what_tools_write_into_pages_is_up_to_date(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / f"{tool}.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def front_results():
    """The script that writes the pages of results."""
    path = ROOT / "tools" / "front_results.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_of_results_are_what_the_result_files_say(front_results, capsys):
    assert front_results.main(["--check"]) == 0, capsys.readouterr().out


def test_a_number_that_the_result_files_do_not_say_is_found(front_results, tmp_path, monkeypatch, capsys):
    name = next(path.stem for path in sorted(front_results.FILES.glob("*-mf.csv")))
    text = front_results.PAGE.read_text(encoding="utf-8")
    place = text.index(f"<!-- comparison: {name} -->")
    number = re.compile(r"0\.\d{4}").search(text, place)[0]
    other = f"{float(number) + 0.0001:.4f}"
    monkeypatch.setattr(front_results, "PAGE", tmp_path / "fronts.md")
    front_results.PAGE.write_text(text[:place] + text[place:].replace(number, other, 1), encoding="utf-8")
    assert front_results.main(["--check"]) == 1
    assert "fronts.md is not what the result files say" in capsys.readouterr().out


def areas_of(table):
    """The hypervolume of each method in a table of fronts, as printed."""
    return dict(re.findall(r"^\| MF \| ([^|]+) \| (?:\*\*|<u>)?([\d.]+)", table, re.MULTILINE))


def test_numbers_of_the_overviews_are_those_of_the_comparisons(front_results):
    """This also covers comparisons without result files, whose rows stay as they are."""
    details = front_results.PAGE.read_text(encoding="utf-8")
    for page in front_results.OVERVIEWS:
        rows = front_results.rows_of(page.read_text(encoding="utf-8"), "results").values()
        assert len(rows) >= 3
        for first, *values in ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in rows):
            data, _, seeds = first.partition(", ")
            found = front_results.place_of(details, f"comparison: {front_results.DATA[data]}")[0]
            assert f"over {seeds}" in found
            areas = areas_of(found)
            newer = re.fullmatch(r"([\d.]+)\**\s\((\w+)\)", values.pop(3))
            if newer:
                apart = f"comparison: {front_results.DATA[data]}{front_results.NEWER_PART}"
                of_newer = (
                    areas_of(front_results.place_of(details, apart)[0]) if f"<!-- {apart} -->" in details else areas
                )
                assert of_newer[newer[2]] == newer[1] == max(of_newer.get(one, "") for one in front_results.NEWER)
            for method, value in zip((*front_results.SIMPLE, "ICPE"), values, strict=True):
                assert areas[method] == value, f"{page.name}: {method} on {data}"


def test_links_of_the_docs_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "bench" / "README.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
