"""Small requests, their growth with users and items, new users, and loading, on one thread.

    python bench/serving.py [FOLDER] [--peers PYTHON] [--parts requests growth fold-in loading] [--overlap RUN ...]

Times are CPU milliseconds in the fastest tenth of many calls, because other work on the machine only adds time. FOLDER
holds gowalla/train.txt; default ICPE_DATA, else ../shared/data. PYTHON is an interpreter with implicit and faiss; a
peer that it does not have is left out. Vectors are random, because any numbers take as long to rank. ``--overlap``
shows for runs of ``icpe train`` how much the lists of known users, folded in from their own histories, agree with
their lists.
"""

import argparse
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from alone import with_one_thread
from icpe import MF, Interactions, LightGCN, NeuMF, Normal, load
from icpe.backbones.base import Backbone
from icpe.recommender import Model
from icpe.rng import stream
from icpe.types import IntArray

DIM, ITEMS = 64, 40_000
SIZES = {1: 0.6, 16: 5.0, 256: None}  # users of a request, and the most milliseconds that it may take
GROWTH = (30_000, 300_000, 3_000_000)  # users
NEW_USER_ITEMS, NEW_USER_LIMIT = 20_000, 5.0
ROWS = (1_000_000, 4_000_000, 16_000_000)
KNOWN = 300  # known users whose histories are folded in


def milliseconds(call: Callable[[], object], least: float = 1.0) -> float:
    """CPU time of a call in the fastest tenth of the calls, which take at least so many seconds together."""
    call(), call()
    found: list[float] = []
    while sum(found) < least or len(found) < 5:
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return 1e3 * float(np.quantile(found, 0.1))


def untrained(log: Interactions, backbone: Backbone | None = None) -> Model:
    method = Normal(backbone or MF(dim=DIM, init_std=0.3), beta=0.3)
    method.build(log, stream(0, "bench"))
    return Model(method, log)


def requests(folder: Path, peers: str | None) -> None:
    log = Interactions.read(folder / "gowalla" / "train.txt")
    text = pl.format("u{}", pl.col("user_id")).alias("user_id")
    models = {
        "integer ids": untrained(log),
        "text ids": untrained(Interactions.read(log.to_frame().with_columns(text))),
    }
    print(f"Gowalla, {len(log.users):,} users × {len(log.items):,} items, CPU ms per request")
    print(f"{'users':>6}{'ranker.top':>12}{'recommend':>12}{'text ids':>12}{'limit':>8}   peers (time over recommend)")
    for size, limit in SIZES.items():
        mine = [request_time(models["integer ids"], size, frames=False)]
        mine += [request_time(model, size, frames=True) for model in models.values()]
        against = []
        for library in ("implicit", "faiss"):
            theirs = peer_milliseconds(peers, folder, library, size)
            if theirs is not None:
                against.append(f"{library} {theirs:.2f} ms ({theirs / mine[1]:.2f})")
        met = "" if limit is None else f"{limit:>8}" + (" met" if mine[1] <= limit else " missed")
        print(f"{size:>6}{mine[0]:>12.2f}{mine[1]:>12.2f}{mine[2]:>12.2f}{met:<15}{', '.join(against)}", flush=True)


def request_time(model: Model, size: int, frames: bool) -> float:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, len(model.log.users), size).astype(np.int32) for _ in range(64)]
    ids = [model.log.users.gather(one).to_list() for one in codes]
    turn = itertools.cycle(range(64))
    if frames:
        return milliseconds(lambda: model.recommend(ids[next(turn)], 20))
    return milliseconds(lambda: model.ranker.top(codes[next(turn)], 20))


def peer_milliseconds(peers: str | None, folder: Path, library: str, size: int) -> float | None:
    if peers is None:
        return None
    command = [peers, str(Path(__file__).parent / "peers.py"), str(folder), library, "request", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"({library} left out: {(done.stderr.strip().splitlines() or ['no message'])[-1]})")
        return None
    return 1e3 * size / float(json.loads(done.stdout)["rate"])


def random_log(users: int, items: int, each: int, names: bool = False) -> Interactions:
    """A log in which every user has ``each`` items. It is in order already."""
    rng = np.random.default_rng(0)
    steps = rng.integers(1, items // each, (users, each), dtype=np.int32)
    item = np.cumsum(steps, axis=1, dtype=np.int32).ravel()
    user = np.repeat(np.arange(users, dtype=np.int32), each)
    ids = pl.Series(np.arange(users))
    known = pl.select(pl.format("user{}", ids.cast(pl.String).str.zfill(9))).to_series() if names else ids
    return Interactions.from_codes(known, pl.Series(np.arange(items)), user, item)


def growth() -> None:
    print(f"\nGrowth with users, {ITEMS:,} items, text ids, CPU ms of recommend")
    print(f"{'users':>12}" + "".join(f"{f'{size} users':>12}" for size in SIZES))
    for users in GROWTH:
        model = untrained(random_log(users, ITEMS, 10, names=True))
        asked = [model.log.users.gather(np.random.default_rng(0).integers(0, users, size)) for size in SIZES]
        found = [milliseconds(lambda ids=ids, model=model: model.recommend(ids, 20)) for ids in asked]
        print(f"{users:>12,}" + "".join(f"{one:>12.2f}" for one in found), flush=True)


def fold_in() -> None:
    print(f"\nNew users with 30 of {NEW_USER_ITEMS:,} items, CPU ms per user, limit {NEW_USER_LIMIT:g} but for NeuMF")
    log = random_log(20_000, NEW_USER_ITEMS, 30)
    histories = own_histories(log, np.arange(256))
    print(f"{'':<10}{'first, s':>10}{'alone':>8}{'256':>8}")
    for backbone in (MF(dim=DIM, init_std=0.3), LightGCN(dim=DIM), NeuMF(dim=DIM)):
        ranker = untrained(log, backbone).ranker
        start = time.process_time()
        ranker.fold_in(histories[:1])
        first = time.process_time() - start
        alone = milliseconds(lambda ranker=ranker: ranker.fold_in(histories[:1]))
        together = milliseconds(lambda ranker=ranker: ranker.fold_in(histories)) / len(histories)
        print(f"{backbone.label:<10}{first:>10.1f}{alone:>8.2f}{together:>8.2f}", flush=True)


def own_histories(log: Interactions, users: IntArray) -> list[IntArray]:
    starts = np.searchsorted(log.user, np.stack([users, users + 1]).astype(np.int32))
    return [log.item[first:last] for first, last in starts.T]


def overlap(runs: list[str]) -> None:
    print(f"\nMean overlap@20 of folded-in and trained lists, {KNOWN} known users")
    for run in runs:
        model = load(run)
        users = np.random.default_rng(0).choice(len(model.log.users), KNOWN, replace=False).astype(np.int32)
        pairs = (model.ranker.top(users).items, model.ranker.fold_in(own_histories(model.log, users)).items)
        shared = [len(set(one) & set(other)) / 20 for one, other in zip(*pairs, strict=True)]
        print(f"{model!r}, dial at {model.beta:g}: {np.mean(shared):.3f}", flush=True)


def loading() -> None:
    print("\nLoading of MF with 16 dimensions, CPU s")
    print(f"{'rows':>12}{'MB':>8}{'s':>8}{'ms per MB':>11}")
    for rows in ROWS:
        with tempfile.TemporaryDirectory() as place:
            untrained(random_log(rows // 20, ITEMS, 20), MF(dim=16)).save(place)
            size = sum(file.stat().st_size for file in Path(place).iterdir()) / 1e6
            spent = milliseconds(lambda place=place: load(place), 0.0)
        print(f"{rows:>12,}{size:>8.0f}{spent / 1e3:>8.2f}{spent / size:>11.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = os.environ.get("ICPE_DATA", Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default), help="holds gowalla/train.txt")
    parser.add_argument("--peers", help="an interpreter that has implicit and faiss")
    every = ["requests", "growth", "fold-in", "loading"]
    parser.add_argument("--parts", nargs="+", choices=every, default=every, help="what to measure")
    parser.add_argument("--overlap", nargs="+", metavar="RUN", default=[], help="runs of icpe train")
    options = parser.parse_args()
    if "requests" in options.parts:
        requests(options.folder, options.peers)
    for name, part in (("growth", growth), ("fold-in", fold_in), ("loading", loading)):
        if name in options.parts:
            part()
    if options.overlap:
        overlap(options.overlap)


if __name__ == "__main__":
    with_one_thread()
    main()
