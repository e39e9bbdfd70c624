"""Memory and speed of one training on 1, 2 and 4 processes of one machine, on a random log.

Prints, for each backbone and number of processes, the bytes of parameters and optimiser that the largest process holds,
its peak memory above that of an idle process with the same log, and pairs per second of all processes together.

    python bench/torchrun.py [USERS ITEMS PAIRS [BACKBONE]]     # default 400,000 users, 100,000 items, 2 million pairs
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import polars as pl

from icpe import MF, Interactions, LightGCN, Normal, shards
from icpe.train import Trainer, TrainSettings

STEPS = {"mf": 60, "lightgcn": 4}
BATCH = 8192


def random_log(users: int, items: int, pairs: int) -> Interactions:
    rng = np.random.default_rng(0)
    user, item = rng.integers(users, size=pairs, dtype=np.int32), rng.integers(items, size=pairs, dtype=np.int32)
    return Interactions.from_codes(pl.Series(range(users)), pl.Series(range(items)), user, item)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(backbone: str, users: int, items: int, pairs: int) -> None:
    log = random_log(users, items, pairs)
    group = shards.join() if int(os.environ["WORLD_SIZE"]) > 1 else None
    before = peak()
    model = MF() if backbone == "mf" else LightGCN(node_dropout=0.0, message_dropout=0.0)
    trainer = Trainer(Normal(model), log, 0, TrainSettings(batch_size=BATCH, epochs=1))
    times = [time.perf_counter()]
    steps = STEPS[backbone]

    class Done(Exception):
        """Enough steps were taken."""

    def on_step(_: object) -> None:
        times.append(time.perf_counter())
        if len(times) > steps + 2:
            raise Done

    with suppress(Done):
        trainer.run(on_step)
    held = sum(one.nbytes for one in trainer.tensors().values())
    found = {"held": held, "peak": peak() - before, "rate": BATCH * steps / (times[steps + 2] - times[2])}
    every = [found] if group is None else group.all_values(found)
    if shards.first():
        print(json.dumps({name: max(one[name] for one in every) for name in found}), flush=True)
    os._exit(0)


def measured(backbone: str, processes: int, sizes: list[str]) -> dict[str, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "worker", backbone, *sizes]
    started = [
        subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    outputs = [one.communicate()[0] for one in started]
    found: dict[str, float] = json.loads(outputs[0])
    return found


def main() -> None:
    sizes = sys.argv[1:4] or ["400000", "100000", "2000000"]
    print(f"{'':12}{'processes':>10}{'held, MB':>10}{'peak, MB':>10}{'pairs/s':>10}")
    for backbone in sys.argv[4:] or STEPS:
        for processes in (1, 2, 4):
            found = measured(backbone, processes, sizes)
            numbers = f"{found['held'] / 1e6:10.0f}{found['peak'] / 1e6:10.0f}{found['rate']:10,.0f}"
            print(f"{backbone:12}{processes:10}{numbers}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        train(sys.argv[2], *(int(size) for size in sys.argv[3:6]))
    main()
