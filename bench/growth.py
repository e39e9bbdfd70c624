"""Time and memory per row from a file to lists, for logs of 1, 10 and 100 million rows: nothing may become slower.

    python bench/growth.py                      # 1 and 10 million rows
    python bench/growth.py --rows 1e6,1e7,1e8   # 100 million rows take the time and memory that docs/scaling.md states
    python bench/growth.py --rows 1e8 --share 0.05   # train and rank a twentieth and scale the time up

Every size runs in a process of its own; memory is the peak of each stage. A log has 100 rows per user and 1,000 per
item, with long tails and times. Ranking costs time per user and item, so its time per row grows with the number of
items; the limits compare it per pair of a user and an item instead. Times are CPU seconds after a small run that loads
the libraries. The logs are kept in bench/out. Exits with 1 if a stage becomes slower per unit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, Model, evaluate, load, split
from icpe.cli.list_files import write_lists
from icpe.train import Trainer, TrainSettings

OUT = Path(__file__).parent / "out"
PIECE = 5_000_000  # rows of a file
LIMIT = 1.5  # of the time per unit, compared with the next smaller size
UNITS = {"evaluate": "pair", "lists": "pair", "one user": "item"}  # what a stage is proportional to; rows by default


def make_log(rows: int) -> Path:
    """Folder of Parquet files with the log of a size. About one row in fifty repeats an earlier pair."""
    folder = OUT / f"growth-{rows}"
    if folder.exists():
        return folder
    temporary = folder.with_suffix(".new")
    temporary.mkdir(parents=True, exist_ok=True)
    users, items = rows // 100, rows // 1000
    for number, start in enumerate(range(0, rows, PIECE)):
        rng, size = np.random.default_rng([rows, number]), min(PIECE, rows - start)
        pl.DataFrame(
            {
                "user_id": (users * rng.random(size) ** 1.3).astype(np.int64),
                "item_id": (items * rng.random(size) ** 1.7).astype(np.int64),
                "timestamp": rng.integers(1_500_000_000, 1_600_000_000, size),
            }
        ).write_parquet(temporary / f"{number:03}.parquet")
    temporary.rename(folder)
    return folder


class Stages:
    """CPU seconds, seconds by the clock and peak memory of each stage."""

    def __init__(self) -> None:
        self.measured: dict[str, dict[str, float]] = {}

    @contextmanager
    def stage(self, name: str, share: float = 1.0) -> Iterator[None]:
        """Measure what happens in the context, which is this share of what the stage stands for."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the memory in use
        start, cpu = time.perf_counter(), time.process_time()
        yield
        taken = time.process_time() - cpu, time.perf_counter() - start
        if name not in self.measured or taken[0] < self.measured[name]["cpu"]:
            self.measured[name] = {"cpu": taken[0] / share, "wall": taken[1] / share, "peak": peak_bytes()}


def peak_bytes() -> int:
    """Largest memory of this process since the peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def one_epoch(train: Interactions, share: float) -> Model:
    """Train MF with ICPE for a share of the steps of an epoch."""
    trainer = Trainer(ICPE(MF(dim=64)), train, seed=0, settings=TrainSettings(epochs=1))
    trainer.steps = max(1, round(share * trainer.steps))
    trainer.run()
    return Model(trainer.method, train)


def measure(folder: Path, stages: Stages, share: float) -> dict[str, int]:
    """Run all stages on one log and return its numbers of rows, pairs of a user and an item, and items.

    Args:
        folder: folder of the log.
        stages: where to write the measurements.
        share: share of the steps of the epoch, and of the users to evaluate and to make lists for.
    """
    with stages.stage("read"):
        log = Interactions.read(folder)
    rows = log.reading.rows
    with stages.stage("10-core"):
        log = log.k_core(10)
    with stages.stage("split"):
        parts = split.unbiased(log, seed=0)
    del log
    with stages.stage("epoch", share):
        model = one_epoch(parts.train, share)
    users = parts.train.users[: max(1, round(share * len(parts.train.users)))]
    some = replace(parts, test=parts.test.keep(parts.test.user < len(users)))
    with stages.stage("evaluate", share):
        evaluate(model, some, n=[20])
    counts = {"row": rows, "pair": len(parts.train.users) * len(parts.train.items), "item": len(parts.train.items)}
    user = parts.train.users[len(parts.train.users) // 2]
    del parts, some
    with tempfile.TemporaryDirectory(dir=OUT) as place:
        with stages.stage("lists", share):
            write_lists(model.stream(users, n=20), Path(place) / "lists.parquet")
        with stages.stage("save"):
            model.save(Path(place) / "model")
        del model
        for _ in range(3):  # the fastest counts: a load is short, and other work on the machine only adds time
            with stages.stage("load"):
                model = load(Path(place) / "model")
        model.recommend([user])  # prepares what all requests share
        with stages.stage("one user", share=100):
            for _ in range(100):
                model.recommend([user])
    return counts


def run_size(rows: int, share: float) -> None:
    """Measure one size and print it as JSON."""
    measure(make_log(20_000), Stages(), 1.0)
    stages = Stages()
    counts = measure(make_log(rows), stages, share)
    print(json.dumps({"counts": counts, "stages": stages.measured}))


def report(found: dict[int, dict[str, Any]]) -> bool:
    """Print a table and whether no stage became slower per unit."""
    names = list(next(iter(found.values()))["stages"])
    print(f"{'':<10}" + "".join(f"{f'{rows:,} rows':>42}" for rows in found))
    print(f"{'':<10}" + "".join(f"{'CPU s':>10}{'clock s':>10}{'µs/row':>10}{'bytes/row':>12}" for _ in found))
    for name in names:
        cells = []
        for rows, one in found.items():
            stage = one["stages"][name]
            time_per_row = "" if name == "one user" else f"{1e6 * stage['cpu'] / rows:.3f}"
            cells.append(f"{stage['cpu']:>10.4g}{stage['wall']:>10.4g}{time_per_row:>10}{stage['peak'] / rows:>12.0f}")
        print(f"{name:<10}" + "".join(cells))
    print(f"{'peak, GB':<10}" + "".join(f"{max_peak(one) / 1e9:>42.2f}" for one in found.values()))
    kept = True
    for (small, before), (large, after) in zip(list(found.items())[:-1], list(found.items())[1:], strict=True):
        for name in names:
            unit = UNITS.get(name, "row")
            per = [one["stages"][name]["cpu"] / one["counts"][unit] for one in (before, after)]
            ratio = per[1] / per[0]
            kept &= ratio <= LIMIT
            said = "ok" if ratio <= LIMIT else "MISSED"
            print(f"{name:<10} CPU time per {unit}, {large:,} / {small:,} rows: {ratio:.2f}   limit {LIMIT}   {said}")
    return kept


def max_peak(one: dict[str, Any]) -> float:
    return max(stage["peak"] for stage in one["stages"].values())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="1e6,1e7", help="numbers of rows, with commas")
    parser.add_argument("--share", type=float, default=1.0, help="share of the steps and of the users to rank")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        run_size(asked.only, asked.share)
        return 0
    found = {}
    for rows in sorted(int(float(text)) for text in asked.rows.split(",")):
        words = [sys.executable, __file__, "--only", str(rows), "--share", str(asked.share)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
        found[rows] = json.loads(done.stdout.splitlines()[-1])
        (OUT / f"growth-{rows}.json").write_text(json.dumps(found[rows]))
    return 0 if report(found) else 1


if __name__ == "__main__":
    with_one_thread()
    sys.exit(main())
