"""The files in ``examples/`` run as they are and print what the site shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRINTED = sorted((ROOT / "docs" / "examples").glob("*.txt"))


def masked(text):
    """The text without its numbers, whose last digits may differ between machines."""
    return re.sub(r"\d+", "0", text)


@pytest.mark.parametrize("shown", PRINTED, ids=lambda path: path.stem)
def test_an_example_prints_what_the_site_shows(shown, tmp_path):
    command = [sys.executable, str(ROOT / "examples" / f"{shown.stem}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert masked(done.stdout) == masked(shown.read_text(encoding="utf-8"))


def test_every_example_is_on_the_site():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(PRINTED) == 3
    for file in [*ROOT.glob("examples/*.py"), *ROOT.glob("examples/*.sh")]:
        assert f"literalinclude}} ../examples/{file.name}" in page


def test_the_nightly_job_is_that_of_the_guide():
    guide = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")
    assert f"```sh\n{(ROOT / 'examples' / 'nightly.sh').read_text(encoding='utf-8')}```" in guide
