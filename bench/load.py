"""Requests per second and latency of the service, every answer compared with ``Model.recommend``.

    python bench/load.py [--seconds 20] [--connections 16] [--workers 2] [--soak SECONDS]

The script makes two untrained models of Gowalla's size, serves one of them from a folder of its own, and asks for lists
of random users over a few connections to 127.0.0.1. It ends by itself after the given time, at the latest after a
million requests. ``--soak`` replaces the model every few seconds under load and watches the memory of the workers. The
client shares the machine with the service, so it takes its part of the processor time, which the output shows.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from icpe import MF, Interactions, Normal
from icpe.recommender import Model
from icpe.rng import stream
from icpe.serve.version import version_of

USERS, ITEMS, PAIRS, DIM = 29_858, 40_981, 810_128, 64
ASKED = 2_000  # users whose lists are known in advance
LENGTH = 20
MOST_REQUESTS = 1_000_000
RATE, P99 = 1_000, 0.030
RELOAD_EVERY = 5.0  # seconds, in a soak
GROWTH = 1.05  # memory at the end of a soak relative to its middle

Lists = dict[int, list[tuple[int, float]]]


@dataclass
class Tally:
    """What the client has seen."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0
    versions: set[str] = field(default_factory=set)


def untrained(seed: int, log: Interactions) -> Model:
    method = Normal(MF(dim=DIM, init_std=0.3), beta=0.3)
    method.build(log, stream(seed, "bench"))
    return Model(method, log)


def random_log() -> Interactions:
    rng = np.random.default_rng(0)
    popular = rng.zipf(1.3, 4 * PAIRS)
    item = (popular[popular <= ITEMS][:PAIRS] - 1).astype(np.int32)
    user = rng.integers(0, USERS, len(item)).astype(np.int32)
    return Interactions.from_codes(pl.Series(np.arange(USERS)), pl.Series(np.arange(ITEMS)), user, item)


def lists_of(model: Model, users: Sequence[int]) -> Lists:
    frame = model.recommend(users, LENGTH)
    found: Lists = {user: [] for user in users}
    for user, item, score in frame.select("user_id", "item_id", "score").iter_rows():
        found[user].append((item, score))
    return found


class Connection:
    """One connection that stays open: a request and its answer at a time, with as little work as possible."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, content: object) -> tuple[int, dict]:
        """Return the status and the body of an answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = json.dumps(content).encode()
        head = [
            f"POST {path} HTTP/1.1",
            "Host: bench",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        received = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(received.partition("content-length:")[2].partition("\r\n")[0])
        return int(received.split(" ", 2)[1]), json.loads(await reader.readexactly(length))

    def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            self._streams[1].close()


async def ask(port: int, seed: int, end: float, expected: dict[str, Lists], tally: Tally) -> None:
    """Ask for lists of random users until the end, and compare every answer."""
    connection, rng = Connection(port), random.Random(seed)
    users = list(next(iter(expected.values())))
    while time.monotonic() < end and len(tally.seconds) < MOST_REQUESTS:
        user = rng.choice(users)
        start = time.perf_counter()
        try:
            status, answer = await connection.post("/v1/recommend", {"user_id": user, "n": LENGTH})
        except (OSError, asyncio.IncompleteReadError):
            tally.lost += 1
            connection = Connection(port)
            continue
        tally.seconds.append(time.perf_counter() - start)
        if status != 200:
            tally.lost += 1
            continue
        tally.versions.add(answer["model_version"])
        wanted = expected[answer["model_version"]][user]
        found = [(item["item_id"], item["score"]) for item in answer["items"]]
        right = [item for item, _ in found] == [item for item, _ in wanted]
        tally.wrong += not (right and np.allclose([score for _, score in found], [score for _, score in wanted]))
    connection.close()


async def reload_often(
    port: int, end: float, live: Path, versions: Sequence[Path], workers: list, memory: list
) -> None:
    """Replace the model every few seconds; note the memory of the workers."""
    count = 0
    while time.monotonic() < end:
        await asyncio.sleep(RELOAD_EVERY)
        connection = Connection(port)
        count += 1
        await asyncio.to_thread(shutil.copytree, versions[count % 2], live, dirs_exist_ok=True)
        status, answer = await connection.post("/admin/reload", {})
        assert status == 200, answer
        assert answer["changed"] == ["live"], answer
        connection.close()
        memory.append(sum(one.memory_info().rss for one in workers) / 2**20)


async def load(port: int, seconds: float, connections: int, expected: dict[str, Lists], more: Sequence = ()) -> Tally:
    tally, end = Tally(), time.monotonic() + seconds
    clients = [ask(port, seed, end, expected, tally) for seed in range(connections)]
    await asyncio.gather(*clients, *more)
    return tally


def start(live: Path, workers: int) -> tuple[subprocess.Popen, int]:
    command = [
        sys.executable,
        "-m",
        "icpe",
        "serve",
        f"live={live}",
        "--workers",
        str(workers),
        "--port",
        "0",
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the service did not start")
        text += line
    port = int(json.loads(text)["url"].rsplit(":", 1)[1].strip("/"))
    end = time.monotonic() + 120
    while not _is_ready(port):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit("the service did not become ready")
        time.sleep(0.2)
    return process, port


def _is_ready(port: int) -> bool:
    import http.client

    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def report(tally: Tally, seconds: float, service: float, client: float) -> bool:
    """Print what was measured; returns whether the targets are met."""
    times = np.sort(tally.seconds)
    rate, p99 = len(times) / seconds, float(np.quantile(times, 0.99))
    parts = ", ".join(f"p{100 * q:g} {1e3 * np.quantile(times, q):.1f} ms" for q in (0.5, 0.9, 0.99, 0.999))
    print(f"{len(times):,} requests in {seconds:.0f} s: {rate:,.0f} requests/s, {parts}")
    print(f"lost {tally.lost}, wrong {tally.wrong}, versions {len(tally.versions)}")
    print(f"CPU per request: service {1e3 * service / len(times):.2f} ms, client {1e3 * client / len(times):.2f} ms")
    print(f"load average {', '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return rate >= RATE and p99 < P99 and not tally.lost and not tally.wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="reload under load for this long")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        versions, live, log = [Path(folder) / "a", Path(folder) / "b"], Path(folder) / "live", random_log()
        users = random.Random(0).sample(range(USERS), ASKED)
        expected = {}
        for seed, version in enumerate(versions):
            model = untrained(seed, log)
            model.save(version)
            expected[version_of(version)] = lists_of(model, users)
        shutil.copytree(versions[0], live)
        process, port = start(live, options.workers)
        try:
            met = measure(options, process, port, expected, live, versions)
        finally:
            process.terminate()
            process.wait(30)
    sys.exit(0 if met else 1)


def measure(
    options: argparse.Namespace, process: subprocess.Popen, port: int, expected: dict, live: Path, versions: list
) -> bool:
    parent, own = psutil.Process(process.pid), psutil.Process()
    workers = [one for one in parent.children() if "spawn_main" in " ".join(one.cmdline())] or [parent]
    asyncio.run(load(port, 2, options.connections, expected))  # warm up
    before, began, start_time = cpu(workers), cpu([own]), time.monotonic()
    if not options.soak:
        tally = asyncio.run(load(port, options.seconds, options.connections, expected))
        return report(tally, time.monotonic() - start_time, cpu(workers) - before, cpu([own]) - began)
    memory: list[float] = []

    async def soak() -> Tally:
        reloads = reload_often(port, time.monotonic() + options.soak, live, versions, workers, memory)
        return await load(port, options.soak, options.connections, expected, [reloads])

    tally = asyncio.run(soak())
    report(tally, time.monotonic() - start_time, cpu(workers) - before, cpu([own]) - began)
    middle, end = (
        float(np.median(part))
        for part in (memory[len(memory) // 3 : 2 * len(memory) // 3], memory[2 * len(memory) // 3 :])
    )
    print(f"{len(memory)} reloads; memory of the workers in the middle {middle:,.0f} MB, at the end {end:,.0f} MB")
    return not tally.lost and not tally.wrong and end <= GROWTH * middle


if __name__ == "__main__":
    main()
