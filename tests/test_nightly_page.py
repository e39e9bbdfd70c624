"""The page about nightly jobs: its files and commands run as they stand there, on a small generated log."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
import yaml

from icpe import make_world
from icpe.cli import run

PAGE = Path(__file__).parents[1] / "docs" / "nightly.md"
BLOCKS = dict(re.findall(r"<!-- ([\w :.]+) -->\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
QUICK = "\n[backbone]\ndim = 4\n\n[train]\nepochs = 4\nbatch_size = 256\n"


# The program of the shell hands its arguments to the process of the test, where everything is imported already.
PROGRAM = """#!{python} -S
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps([os.getcwd(), sys.argv[1:]]).encode())
    line.shutdown(socket.SHUT_WR)
    code, out, err = json.load(line.makefile())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the page is about a shell")


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    """The folder of the job, below the home of its user, with the files of the page."""
    folder = tmp_path_factory.mktemp("home") / "shop"
    folder.mkdir()
    log = make_world(users=90, items=250, interactions=2500).log
    log.to_frame().write_csv(folder / "events.csv")
    log.item_info.select("item_id", "name", category="genre").write_csv(folder / "items.csv")
    (folder / "shop.toml").write_text(BLOCKS["file: shop.toml"] + QUICK)
    (folder / "nightly.sh").write_text(BLOCKS["file: nightly.sh"])
    return folder


@pytest.fixture
def sh(shop):
    """Run shell commands of the user of the shop; gives exit code, standard output and standard error."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address, program = str(Path(folder) / "socket"), Path(folder) / "icpe"
        program.write_text(PROGRAM.format(python=sys.executable, address=address))
        program.chmod(0o755)
        listener.bind(address)
        listener.listen()
        listener.settimeout(0.05)

        def invoke(command: str, place: Path = shop) -> tuple[int, str, str]:
            environment = {**os.environ, "HOME": str(shop.parent), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with subprocess.Popen(["sh", "-e", "-c", command], cwd=place, env=environment, text=True, **pipes) as shell:
                while shell.poll() is None:
                    serve(listener)
                return shell.returncode, *shell.communicate()

        yield invoke


def serve(listener: socket.socket) -> None:
    """Run the command of the next program that calls, if one calls soon."""
    try:
        line, _ = listener.accept()
    except TimeoutError:
        return
    with line:
        line.settimeout(None)
        place, arguments = json.load(line.makefile())
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(place), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        line.sendall(json.dumps([code, out.getvalue(), err.getvalue()]).encode())


def commands(block: str) -> str:
    lines = BLOCKS[block].splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return "\n".join(line.removeprefix("$ ") for line in lines)


def test_the_nights_of_the_page(sh, shop):
    code, _, err = sh(commands("first night"))
    assert code == 0, err

    fields = BLOCKS["cron"].strip().split(" ", 5)
    assert fields[:5] == ["30", "3", "*", "*", "*"]
    code, out, _ = sh(fields[5], shop.parent)
    assert (code, out) == (0, ""), (shop / "nightly.log").read_text()
    assert (shop / "model").resolve().name != "first"
    assert pl.read_parquet(shop / "bias.parquet")["lists"].to_list() == ["live"]
    assert "Exposure by category" in (shop / "audit.html").read_text(encoding="utf-8")

    code, _, err = sh(commands("fails"))
    assert code == 1
    assert "error: the audit fails: apt@20 of live is " in err
    assert "the limit of 'apt@20<.99' is 0.99" in err


def test_the_job_of_github(sh, shop, tmp_path):
    """Its step runs the same script. Here the night fails, so that the old model must stay where it is."""
    steps = yaml.safe_load(BLOCKS["actions"])["jobs"]["night"]["steps"]
    (night,) = (step["run"] for step in steps if step.get("name") == "Night")
    (tmp_path / "nightly.sh").write_text(BLOCKS["file: nightly.sh"])
    (tmp_path / "old").mkdir()
    (tmp_path / "model").symlink_to("old")  # it holds no run, so the training fails
    code, _, err = sh(night, tmp_path)
    assert code == 2
    assert "--init-from is model, which holds no model" in err
    assert (tmp_path / "model").resolve().name == "old"
    kept = "\n".join(step["with"]["path"] for step in steps if "path" in step.get("with", {})).split()
    assert {"runs", "model", "bias.parquet", "audit.html"} <= set(kept)
