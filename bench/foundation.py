"""From a CSV with text ids to ids, 10-core and unbiased split: time against polars' bare parsing, peak memory, growth.

Run with `make bench` or `python bench/foundation.py [rows]`. Times are the best of three, taken in turns in one
process; memory is the peak of a process that does nothing else. Exits with 1 if a limit is missed.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from icpe import Interactions, split

FOLDER = Path(__file__).parent / "out"
TIME_LIMIT, MEMORY_LIMIT, GROWTH_LIMIT = 4.0, 6.0, 1.5


def make_csv(rows: int) -> Path:
    """A long-tailed log: 30 rows per user, 100 per item, ids such as u0012345; about one row in a hundred repeats."""
    path = FOLDER / f"log-{rows}.csv"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    users, items = rows // 30, rows // 100
    frame = pl.DataFrame(
        {
            "user_id": (users * rng.random(rows) ** 1.5).astype(np.int64),
            "item_id": (items * rng.random(rows) ** 3).astype(np.int64),
            "timestamp": rng.integers(1_500_000_000, 1_600_000_000, rows),
        }
    )
    padded = (pl.lit("u") + pl.col("user_id").cast(pl.String).str.zfill(7)).alias("user_id")
    frame = frame.with_columns(padded, (pl.lit("i") + pl.col("item_id").cast(pl.String).str.zfill(6)).alias("item_id"))
    frame.write_csv(path)
    return path


def pipeline(path: Path) -> split.Parts:
    return split.unbiased(Interactions.read(path).k_core(10), seed=0)


def best_of_three(jobs: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """CPU seconds (of all threads) and seconds by the clock, the best of each."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for _ in range(3):
        for name, job in jobs.items():
            start = time.process_time(), time.perf_counter()
            job()
            taken[name].append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return {name: (min(cpu for cpu, _ in pairs), min(wall for _, wall in pairs)) for name, pairs in taken.items()}


def peak_bytes(path: Path) -> int:
    """Peak memory of a fresh process that runs the pipeline once, interpreter and mapped file included."""
    done = subprocess.run([sys.executable, __file__, "--peak", str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def verdict(label: str, value: float, limit: float) -> bool:
    print(f"{label:<58} {value:6.2f}   limit {limit:.1f}   {'ok' if value <= limit else 'MISSED'}")
    return value <= limit


def main(rows: int) -> int:
    small, large = make_csv(rows // 10), make_csv(rows)
    pipeline(small)  # compiles the kernels
    pl.read_csv(small)
    times = best_of_three(
        {
            "parse": lambda: pl.read_csv(large),
            "ours": lambda: pipeline(large),
            "parse small": lambda: pl.read_csv(small),
            "ours small": lambda: pipeline(small),
        }
    )
    columns = pl.read_csv(large).estimated_size()
    for name, (cpu, wall) in times.items():
        print(f"{name:<12} {cpu:7.3f} CPU s {wall:7.3f} s by the clock")
    ours, parse, small_ours = times["ours"], times["parse"], times["ours small"]
    kept = [
        verdict(f"CPU time, {rows:,} rows: ours / polars' parsing", ours[0] / parse[0], TIME_LIMIT),
        verdict("time by the clock, all cores: the same", ours[1] / parse[1], TIME_LIMIT),
        verdict("peak memory / bytes of the three columns", peak_bytes(large) / columns, MEMORY_LIMIT),
        verdict("growth: CPU time per row, large / small", ours[0] / small_ours[0] / 10, GROWTH_LIMIT),
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        pipeline(Path(sys.argv[2]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000))
