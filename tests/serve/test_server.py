"""The real program: processes, signals, exit codes, and reloads that all processes take part in."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from icpe.serve.server import listen
from icpe.serve.version import version_of


@pytest.fixture
def start():
    """Start the program, which does not outlive the test; returns the process and the address of the service."""
    started = []

    def begin(*arguments):
        command = [sys.executable, "-m", "icpe", "serve", *map(str, arguments), "--port", "0", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        lines = []
        while not lines or lines[-1] not in ("}\n", ""):
            lines.append(process.stdout.readline())
        return process, json.loads("".join(lines))["url"] if lines[-1] else None

    yield begin
    for process in started:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        process.communicate()


def wait_until_ready(url):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if httpx.get(f"{url}health/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


def wait_for_workers(url, count):
    end = time.monotonic() + 60
    while httpx.post(f"{url}admin/reload", timeout=60).json().get("workers") != count:
        assert time.monotonic() < end, "a dead process was not replaced"
        time.sleep(0.1)


def ask(url, user, **options):
    """Ask over a connection of its own, so that any process may answer."""
    response = httpx.post(f"{url}v1/recommend", json={"user_id": user, **options})
    assert response.status_code == 200
    return response.json()


def test_several_processes(start, folders, models, tmp_path):
    live = tmp_path / "live"
    shutil.copytree(folders["main"], live)
    process, url = start(f"live={live}", "--workers", 2)
    wait_until_ready(url)
    users = models["main"].log.users[:12].to_list()
    for user in users:
        expected = models["main"].recommend([user], 5)["item_id"].to_list()
        assert [item["item_id"] for item in ask(url, user, n=5)["items"]] == expected
    text = httpx.get(f"{url}metrics").text
    assert 'icpe_served_lists_total{model="live"} 12.0' in text
    assert 'icpe_requests_total{endpoint="/v1/recommend",status="200"} 12.0' in text
    assert 'icpe_request_seconds_count{endpoint="/v1/recommend"} 12.0' in text

    shutil.rmtree(live)
    shutil.copytree(folders["other"], live)
    changed = httpx.post(f"{url}admin/reload", timeout=60).json()
    assert changed == {"versions": {"live": version_of(folders["other"])}, "changed": ["live"], "workers": 2}
    assert {ask(url, user)["model_version"] for user in users} == {version_of(folders["other"])}

    dead = next(one for one in psutil.Process(process.pid).children() if "spawn_main" in " ".join(one.cmdline()))
    dead.kill()
    dead.wait(30)
    assert {ask(url, user)["model_version"] for user in users} == {version_of(folders["other"])}
    wait_for_workers(url, 2)
    assert {ask(url, user)["model_version"] for user in users} == {version_of(folders["other"])}

    (live / "model.safetensors").write_bytes(b"damaged")
    assert httpx.post(f"{url}admin/reload", timeout=60).status_code == 409
    assert {ask(url, user)["model_version"] for user in users} == {version_of(folders["other"])}

    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    last = process.stderr.read().splitlines()[-1]
    assert json.loads(last)["error"]["code"] == "interrupted"


def test_sigterm_ends_one_process_well(start, folders):
    process, url = start(folders["main"])
    wait_until_ready(url)
    process.terminate()
    assert process.wait(30) == 0
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_cannot_be_loaded(start, folders, tmp_path, workers):
    shutil.copytree(folders["main"], tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"damaged")
    process, _ = start(tmp_path / "broken", "--workers", workers)
    assert process.wait(60) == 2
    said = process.stderr.read()
    assert "model.safetensors is damaged or was changed" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing holds no model"),
        (["a=x", "a=y"], "two models are called 'a'"),
        (["x", "--share", "x=0.5"], "--share x=0.5 names no further model"),
        (["x", "b=y", "--share", "b=1.5"], "--share b=1.5 should look like NAME=0.1"),
        (["x", "b=y", "c=z", "--share", "b=.6", "--share", "c=.6"], "the shares add up to 1.2"),
        (["x", "b=y", "--share", "b=.1", "--share", "b=.2"], "--share names 'b' twice"),
        (["sp ace"], "name it, as in main=sp ace"),
        (["x", "--port", "70000"], "70000 is not in the range"),
    ],
)
def test_wrong_use(icpe, arguments, said):
    code, _, err = icpe("serve", *arguments)
    assert code == 2
    assert said in err


def test_a_port_in_use(icpe, folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = icpe("serve", folders["main"], "--port", taken.getsockname()[1])
    assert code == 1
    assert "cannot listen on 127.0.0.1" in err


def test_a_key_that_no_header_carries(icpe, folders, monkeypatch):
    monkeypatch.setenv("ICPE_API_KEY", "")
    code, _, err = icpe("serve", folders["main"], "--port", 0)
    assert code == 2
    assert "ICPE_API_KEY" in err


def test_the_extra_is_named(icpe, folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = icpe("serve", folders["main"], "--port", 0)
    assert code == 2
    assert "the service needs uvicorn, which is not installed: pip install 'icpe[serve]'" in err


def test_answers_are_sent_at_once():
    """A socket that does not name TCP keeps asyncio from sending small packets at once: 40 ms for each answer."""
    with listen("127.0.0.1", 0) as found:
        assert found.proto == socket.IPPROTO_TCP
