"""The page from a log to a service: its commands run as they stand there, on a small generated log."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from icpe import load, make_world
from icpe.cli import run
from icpe.runs.config import RunConfig

PAGE = Path(__file__).parents[1] / "docs" / "production.md"
BLOCKS = dict(re.findall(r"<!-- (\w+) -->\n```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


def commands(block: str) -> list[list[str]]:
    lines = BLOCKS[block].splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


@pytest.fixture(scope="module")
def port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def wait_until_ready(service: subprocess.Popen, port: str) -> None:
    for _ in range(600):
        assert service.poll() is None, "the service has ended"
        asked = subprocess.run(["curl", "--silent", "--fail", f"http://127.0.0.1:{port}/health/ready"], check=False)
        if asked.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("the service is not ready after a minute")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys, port):
    monkeypatch.chdir(tmp_path)
    log = make_world(users=300, items=200, interactions=5000).log
    log.to_frame().rename({"user_id": "uid", "item_id": "sku", "timestamp": "ts"}).write_csv("events.csv")
    assert set(BLOCKS) == {"prepare", "lists", "serve", "ask", "night", "fails"}
    for block in ("prepare", "lists"):
        for program, *words in commands(block):
            assert program == "icpe"
            assert run(words) == 0, capsys.readouterr().err

    ((_, *words),) = commands("serve")
    words = [port if word == "8000" else word for word in words]
    with subprocess.Popen([sys.executable, "-m", "icpe", *words], stderr=subprocess.PIPE) as service:
        try:
            wait_until_ready(service, port)
            answers = []
            for command in commands("ask"):
                asked = [word.replace(":8000", f":{port}") for word in command]
                answers.append(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        finally:
            service.terminate()
    known, new, metrics, page = answers
    expected = load("run/live").recommend(["u0003"], 5)["item_id"].to_list()
    assert [row["item_id"] for row in json.loads(known)["items"]] == expected
    assert json.loads(new)["beta"] == -0.2
    assert "icpe_" in metrics
    assert "<html" in page

    for _, *words in commands("night"):
        assert run(words) == 0, capsys.readouterr().err
    assert pl.read_parquet("bias.parquet").height == 1
    assert RunConfig.read(Path("tonight/config.toml")).train["niche_share"] == 0.4
    assert load("tonight/live").beta == load("tonight").beta
    ((_, *words),) = commands("fails")
    capsys.readouterr()
    assert run(words) == 1
    assert "apt@20<.99" in capsys.readouterr().err
