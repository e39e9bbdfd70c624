"""The files in ``examples/`` run as they are and print what the site shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from icpe.cli import run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "examples.md"
SCRIPTS = sorted(ROOT.glob("docs/examples/*.svg"))
"""The pictures of the examples that are Python programs."""


def masked(text):
    """The text without its numbers, whose last digits may differ between machines."""
    return re.sub(r"\d+", "0", text)


@pytest.mark.parametrize("picture", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_prints_and_draws_what_the_site_shows(picture, tmp_path):
    command = [sys.executable, str(ROOT / "examples" / f"{picture.stem}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert masked(done.stdout) == masked(picture.with_suffix(".txt").read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == [picture.name]
    assert f"](examples/{picture.name})" in PAGE.read_text(encoding="utf-8")


def test_the_commands_of_the_plugin_give_such_lists(tmp_path, monkeypatch, capsys):
    block = re.search(r"```console\n(.*?plugin.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    commands = [line.removeprefix("$ icpe ").replace("examples/", f"{ROOT}/examples/") for line in block.splitlines()]
    monkeypatch.chdir(tmp_path)
    assert [run(shlex.split(line)) for line in commands] == [0, 0], capsys.readouterr().err
    shown = (ROOT / "docs" / "examples" / "plugin.txt").read_text(encoding="utf-8").splitlines()
    lists = capsys.readouterr().out.splitlines()[-len(shown) :]
    assert lists[0].split() == shown[0].split()
    assert [line.split()[:2] for line in lists] == [line.split()[:2] for line in shown]


def test_every_example_is_on_the_site():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) == 3
    for file in [*ROOT.glob("examples/*.py"), *ROOT.glob("examples/*.sh")]:
        assert f"literalinclude}} ../examples/{file.name}" in page


def test_the_nightly_job_is_that_of_the_guide():
    guide = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")
    assert f"```sh\n{(ROOT / 'examples' / 'nightly.sh').read_text(encoding='utf-8')}```" in guide
