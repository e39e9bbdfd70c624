"""Trainings on several processes: the same bits as one process, resumed with another number, and failures."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from icpe.cli import run

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
FILES = ("model.safetensors", "metrics.jsonl", "result.json", "front.parquet", "front_test.parquet", "per_user.parquet")
PATIENCE = 300  # seconds until a process that hangs counts as one

BROKEN = """
import os
from typing import ClassVar
from icpe import Normal
from icpe.errors import DataError

class Broken(Normal):
    name: ClassVar[str] = "broken"
    shareable: ClassVar[bool] = True
    losses = 0

    def loss(self, batch, rng=None):
        self.losses += 1
        if self.losses == 3 and os.environ["RANK"] == "1":
            raise DataError("the second process cannot go on")
        return super().loss(batch, rng)
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with so many users and items that two processes share both tables."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(1100, size=9000), (600 * rng.random(9000) ** 2).astype(int)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pl.DataFrame({"user_id": user, "item_id": item}).unique(maintain_order=True).write_parquet(path)
    return path


@pytest.fixture
def environment():
    """One thread, and nothing that an outer torchrun has set."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def assert_same(one, other, files=FILES):
    for name in files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train_together(folder, log, cases, processes, environment):
    """Train cases in one process and in a group, into the folders ``alone`` and ``shared``."""
    shutil.copy(log, folder / "log.parquet")
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, str(HERE / "together.py"), str(folder), ",".join(cases)],
            env={**environment, **shared, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    for one in started:
        _, errors = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0, errors


def test_two_processes_give_the_files_of_one(tmp_path, log, environment):
    cases = ["mf-normal", "mf-icpe", "mf-paper", "lightgcn-normal", "lightgcn-icpe", "neumf-icpe"]
    train_together(tmp_path, log, cases, 2, environment)
    for case in cases:
        assert_same(tmp_path / "alone" / case, tmp_path / "shared" / case)
    alone, *parts = (json.loads((tmp_path / f"held-{name}.json").read_text()) for name in ("alone", 0, 1))
    assert [part["rows"] for part in parts] == [512, alone["rows"] - 512]
    assert sum(part["bytes"] for part in parts) < 1.05 * alone["bytes"]


def arguments(log, folder):
    settings = ["--seed", "3", "--split", "random", "--method", "icpe", "--backbone.dim", "8"]
    loop = ["--train.epochs", "16", "--train.evaluate_every", "20", "--train.batch_size", "512"]
    return ["train", str(log), *settings, *loop, "-o", str(folder)]


def end(started):
    """Kill torchrun and its workers, whose parents are these processes."""
    workers = psutil.Process(started.pid).children(recursive=True)
    for one in (started, *workers):
        one.send_signal(signal.SIGKILL)
    started.wait(PATIENCE)
    psutil.wait_procs(workers, PATIENCE)  # they keep the folder locked until they are gone


def test_a_killed_run_resumes_with_any_number_of_processes(tmp_path, log, environment, capsys):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(arguments(log, whole)) == 0
    started = subprocess.Popen(
        [*TORCHRUN, "--nproc-per-node", "2", "-m", "icpe", *arguments(log, killed)], env=environment
    )
    state, limit = killed / "checkpoint" / "state.json", time.monotonic() + PATIENCE
    while not state.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    end(started)
    assert not (killed / "result.json").exists()
    parts = [part["name"] for part in json.loads(state.read_text())["tensors"]]
    assert len(parts) == 2
    four = shutil.copytree(killed, tmp_path / "four")
    damaged = shutil.copytree(killed, tmp_path / "damaged")

    assert run([*arguments(log, killed), "--resume"]) == 0
    assert_same(whole, killed)

    command = [*TORCHRUN, "--nproc-per-node", "4", "-m", "icpe", *arguments(log, four), "--resume", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["folder"] == str(four)  # one process prints the result, once
    assert_same(whole, four)

    with (damaged / "checkpoint" / parts[1]).open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"damaged!")
    capsys.readouterr()
    assert run([*arguments(log, damaged), "--resume"]) == 2
    assert "does not match its checksum" in capsys.readouterr().err


def test_an_error_of_one_process_is_printed_once_and_ends_all(tmp_path, log, environment):
    plugin = tmp_path / "broken.py"
    plugin.write_text(BROKEN)
    flags = ["--split", "random", "--backbone.dim", "8", "--plugin", str(plugin), "--method", "broken"]
    command = [*TORCHRUN, "--nproc-per-node", "2", "-m", "icpe", "train", str(log), *flags, "-o", str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1  # torchrun has no other code for a failure
    assert done.stderr.count("error: the second process cannot go on") == 1
    assert "exitcode  : 2" in done.stderr
    assert "Connection closed" not in done.stderr


@pytest.fixture
def two_hosts():
    """The names and addresses of two network namespaces that a cable connects."""
    names = [f"icpe-{os.getpid()}-{one}" for one in "ab"]
    links = [f"ic{os.getpid()}{one}" for one in "ab"]
    hosts = list(zip(names, links, ("10.77.0.1", "10.77.0.2"), strict=True))
    commands = [f"netns add {name}" for name in names]
    commands.append(f"link add {links[0]} netns {names[0]} type veth peer name {links[1]} netns {names[1]}")
    for name, link, address in hosts:
        commands += [f"-n {name} addr add {address}/24 dev {link}", f"-n {name} link set {link} up"]
        commands.append(f"-n {name} link set lo up")
    try:
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True, capture_output=True)
        yield hosts
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine cannot create network namespaces: {error}")
    finally:
        for name in names if shutil.which("ip") else ():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.mark.slow
def test_two_hosts_give_the_model_of_one_process(tmp_path, log, environment, two_hosts):
    flags = ["--split", "random", "--method", "icpe", "--backbone.dim", "8", "--train.epochs", "2"]
    command = ["train", str(log), *flags, "-o"]
    two = [*command, str(tmp_path / "two")]
    rendezvous = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29511"]
    started = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, *TORCHRUN, *rendezvous, "--node-rank", str(rank), "-m", "icpe", *two],
            env={**environment, "GLOO_SOCKET_IFNAME": link},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, (name, link, _) in enumerate(two_hosts)
    ]
    assert run([*command, str(tmp_path / "one")]) == 0
    for one in started:
        _, errors = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0, errors
    assert_same(tmp_path / "one", tmp_path / "two")
