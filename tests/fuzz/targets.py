"""What icpe reads, each with a good file to damage and a way to read it."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from icpe import Interactions, World, make_world, split
from icpe.audit import audit
from icpe.compare.study_file import read_cells
from icpe.data import open_log
from icpe.runs.config import RunConfig
from icpe.runs.presets import read_presets

_CONFIG = """[data]
source = "log.csv"
k_core = 2

[data.columns]
user_id = "user_id"

[split]
kind = "random"
valid = 0.1

[backbone]
name = "lightgcn"
dim = 8
layers = 2

[method]
name = "icpe"
clusters = 3
beta = 0.5

[train]
seed = 3
epochs = 2
lr = 0.01

[evaluate]
n = [5, 10]
"""
_CELLS = f"""seeds = [0, 1]

{_CONFIG}
[cells."ICPE"]
label = "ICPE"
tuned = true
ranking.beta = [0.0, 0.1]

[cells."Normal"]
method.name = "normal"
"""
_PRESETS = "[icpe.mf]\nscore = 0.25\n\n[icpe.mf.method]\nclusters = 4\n\n[icpe.mf.train]\nlr = 0.003\nepochs = 20\n"


@dataclass(frozen=True)
class Target:
    """One kind of input.

    Attributes:
        files: the files of a folder by name, all of them good.
        damaged: names of those that are damaged, one at a time.
        read: reads the folder in this process, given the folder and the damaged file.
        command: arguments of the command line that read the folder; None if a test in this process is enough.
    """

    files: dict[str, bytes]
    damaged: tuple[str, ...]
    read: Callable[[Path, str], Any]
    command: Callable[[str], list[str]] | None = None


def _frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    rows = 240
    return pl.DataFrame(
        {
            "user_id": [f"u{code}" for code in rng.integers(0, 25, rows)],
            "item_id": rng.integers(1, 18, rows),
            "timestamp": 1_546_272_009 + rng.integers(0, 10**7, rows),
            "weight": rng.integers(1, 6, rows) / 2,
        }
    )


def _parquet(frame: pl.DataFrame, folder: Path) -> bytes:
    frame.write_parquet(folder / "frame.parquet")
    return (folder / "frame.parquet").read_bytes()


def _npy(folder: Path) -> bytes:
    np.save(folder / "log.npy", np.random.default_rng(5).integers(1, 20, (200, 3)))
    return (folder / "log.npy").read_bytes()


def _saved(save: Callable[[Path], None], folder: Path) -> dict[str, bytes]:
    save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _read_log(folder: Path, name: str) -> Interactions:
    return Interactions.read(folder / name)


def _read_npy(folder: Path, name: str) -> Interactions:
    return Interactions.read(folder / name, {"user_id": 0, "item_id": 1, "timestamp": 2}, time_unit="min")


def _read_items(folder: Path, name: str) -> pl.Series:
    return Interactions.read(folder / "log.csv", item_info=folder / name).item_names()


def _read_recs(folder: Path, name: str) -> dict[str, Any]:
    return audit(folder / "log.csv", folder / name).values


def _read_config(folder: Path, name: str) -> None:
    config = RunConfig.read(folder / name)
    config.prepare()
    if config.data.get("source") == "log.csv":
        config.updated("data", {"source": str(folder / "log.csv")}).open_parts()


def _read_world(folder: Path, name: str) -> None:
    World.load(folder)
    open_log(folder)


def _describe(*flags: str) -> Callable[[str], list[str]]:
    return lambda name: ["data", "describe", name, *flags]


def make_targets(folder: Path) -> dict[str, Target]:
    """All targets by name. The folder is used to write the good files."""
    frame = _frame()
    csv, tsv = frame.write_csv().encode(), frame.write_csv(separator="\t").encode()
    inter = b"user_id:token\titem_id:token\ttimestamp:float\tweight:float\n" + tsv.split(b"\n", 1)[1]
    hetrec = b"userID\tartistID\tday\tweight\r\n" + tsv.split(b"\n", 1)[1].replace(b"\n", b"\r\n")
    lists = "\n".join(
        " ".join([user[1:], *map(str, items)]) for user, items in frame.group_by("user_id").agg("item_id").sort("user_id").iter_rows()
    ).encode()  # fmt: skip
    items = b"item_id,name,genre\n" + b"".join(b'%d,"The ""%d""",rock|pop\n' % (code, code) for code in range(1, 18))
    recs = frame.select("user_id", "item_id", score="weight").unique(["user_id", "item_id"], maintain_order=True)
    ranked = recs.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user_id"))
    world, parts = folder / "world", folder / "parts"
    world_files = _saved(make_world(users=30, items=20, interactions=180, seed=1).save, world)
    part_files = _saved(split.random(Interactions.read(frame), seed=0).save, parts)
    # Checksums find all damage first; without them, as in folders of earlier versions, the readers have to.
    unchecked = {name: content for name, content in part_files.items() if name != "manifest.json"}
    world_files.pop("manifest.json", None)
    log = {"log.csv": csv}
    return {
        "csv": Target(log, ("log.csv",), _read_log, _describe()),
        "tsv": Target({"log.tsv": tsv}, ("log.tsv",), _read_log),
        "gzip": Target({"log.csv.gz": gzip.compress(csv)}, ("log.csv.gz",), _read_log, _describe()),
        "zstd": Target(
            {"log.csv.zst": pa.compress(csv, codec="zstd", asbytes=True)}, ("log.csv.zst",), _read_log, _describe()
        ),
        "parquet": Target({"log.parquet": _parquet(frame, folder)}, ("log.parquet",), _read_log, _describe()),
        "inter": Target({"log.inter": inter}, ("log.inter",), _read_log, _describe()),
        "lists": Target({"train.txt": lists}, ("train.txt",), _read_log, _describe()),
        "hetrec": Target({"log.dat": hetrec}, ("log.dat",), _read_log),
        "npy": Target({"log.npy": _npy(folder)}, ("log.npy",), _read_npy),
        "items": Target({**log, "items.csv": items}, ("items.csv",), _read_items),
        "recs": Target(
            {**log, "recs.csv": ranked.write_csv().encode(), "recs.parquet": _parquet(recs, folder)},
            ("recs.csv", "recs.parquet"),
            _read_recs,
            lambda name: ["audit", "--log", "log.csv", "--recs", name],
        ),
        "config": Target(
            {**log, "config.toml": _CONFIG.encode()},
            ("config.toml",),
            _read_config,
            lambda name: ["split", "log.csv", "--config", name, "-o", "parts"],
        ),
        "cells": Target({"grid.toml": _CELLS.encode()}, ("grid.toml",), lambda at, name: read_cells(at / name)),
        "presets": Target({"own.toml": _PRESETS.encode()}, ("own.toml",), lambda at, name: read_presets(at / name)),
        "world": Target(world_files, tuple(sorted(world_files)), _read_world, lambda name: ["data", "describe", "."]),
        "split": Target(part_files, tuple(sorted(part_files)), lambda at, name: split.load(at)),
        "manifest": Target(unchecked, ("split.json",), lambda at, name: split.load(at)),
    }
