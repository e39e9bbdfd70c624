"""CPU time and peak memory of ``icpe audit`` with three sets of lists on a log of two million rows.

The time is compared with that of reading the same files, measured in the same run: an audit has to read them anyway.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from icpe import Interactions
from icpe.metrics.given import read_lists

USERS, ITEMS, N, ROWS, WANTED = 100_000, 20_000, 20, 2_000_000, 300_000


def write_files(folder: Path, scale: float) -> None:
    """Write a log and a test part with power-law popularity, and lists that follow it to different degrees."""
    rng, users, items = np.random.default_rng(0), int(USERS * scale), ITEMS
    popularity = 1 / np.arange(1, items + 1) ** 0.8
    for name, rows in (("log", ROWS), ("later", WANTED)):
        drawn = rng.choice(items, int(rows * scale), p=popularity / popularity.sum())
        pl.DataFrame({"user_id": rng.integers(users, size=len(drawn)), "item_id": drawn}).write_parquet(
            folder / f"{name}.parquet"
        )
    for at, power in enumerate((4.0, 2.0, 1.2)):
        # Steps of 37 keep the items of a list distinct.
        first = (rng.random(users) ** power * items).astype(np.int64)
        listed = (first[:, None] + 37 * np.arange(N)) % items
        frame = {"user_id": np.repeat(np.arange(users), N), "item_id": listed.ravel()}
        pl.DataFrame({**frame, "rank": np.tile(np.arange(1, N + 1), users)}).write_parquet(
            folder / f"lists{at}.parquet"
        )


def cpu_of_reading(folder: Path) -> float:
    started = time.process_time()
    log = Interactions.read(folder / "log.parquet")
    for at in range(3):
        read_lists(folder / f"lists{at}.parquet", log)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the two million rows")
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, scale)
        reading = cpu_of_reading(folder)
        sets = [f"--recs={folder / f'lists{at}.parquet'}" for at in range(3)]
        command = [sys.executable, "-m", "icpe", "audit", "--log", str(folder / "log.parquet"), *sets]
        command += ["--test", str(folder / "later.parquet"), "-o", str(folder / "audit.html"), "--json"]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"three sets of {int(USERS * scale) * N:,} rows on a log of {int(ROWS * scale):,} rows, with test part and page"
    )
    print(f"CPU {cpu:.1f} s (wall {wall:.1f} s), {cpu / reading:.1f} times that of reading the files ({reading:.1f} s)")
    print(f"peak memory {used.ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
