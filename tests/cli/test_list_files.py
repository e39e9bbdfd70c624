"""Lists on their way into files: as they come, in order, whole or not at all."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from icpe import IcpeError
from icpe.cli.list_files import write_lists


def piece(number, users=100, n=10):
    return pl.DataFrame(
        {
            "user_id": [f"user {user}" for user in np.repeat(np.arange(users) + number * users, n)],
            "item_id": np.arange(users * n) + number,
            "score": np.linspace(1, 0, users * n, dtype=np.float32),
            "rank": np.tile(np.arange(1, n + 1, dtype=np.int32), users),
        }
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_pieces_make_one_file_in_order(tmp_path, suffix):
    path = tmp_path / f"lists.{suffix}"
    pieces = [piece(0).clear(), *(piece(number) for number in range(30))]
    assert write_lists(iter(pieces), path) == 30_000
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "jsonl": pl.read_ndjson}[suffix]
    found = read(path) if suffix == "parquet" else read(path, schema=pieces[0].schema)
    assert found.equals(pl.concat(pieces))
    assert write_lists([pieces[0]], path) == 0
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_an_error_on_the_way_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"lists.{suffix}"
    path.write_bytes(b"old")

    def pieces():
        yield piece(0)
        raise IcpeError("the score of user 1 is NaN")

    with pytest.raises(IcpeError, match="the score of user 1 is NaN"):
        write_lists(pieces(), path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_memory_does_not_grow_with_the_lists(tmp_path):
    """Ten million rows, 200 MB of numbers, in a process that may not hold them."""
    code = f"""
import resource
from pathlib import Path
import numpy as np, polars as pl
from icpe.cli.list_files import write_lists

def pieces():
    for number in range(200):
        yield pl.DataFrame({{"user": np.arange(50_000) + number, "item": np.arange(50_000), "score": np.ones(50_000)}})

folder = Path({str(tmp_path)!r})
write_lists([next(pieces())], folder / "one.parquet")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_lists(pieces(), folder / "all.parquet")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100
    assert pl.scan_parquet(tmp_path / "all.parquet").select(pl.len()).collect().item() == 10_000_000
