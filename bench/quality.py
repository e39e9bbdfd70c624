"""Time to quality: CPU and clock seconds from a file to a model with a given validation NDCG@20, ours and peers.

    python bench/quality.py lastfm --peers peers/bin/python --budget 60
    python bench/quality.py gowalla --peers peers/bin/python --budget 1800

Every library trains in a process of its own on one thread for a budget of CPU seconds, imports and reading included. It
writes its vectors after an epoch if its time has grown by 15 % since it wrote them last, and our metrics evaluate them
on the same validation part; writing and evaluating do not count. The best NDCG@20 of each peer within the budget is a
target, and the tables say when ours reach it. Lists of ICPE are measured at the settings 0, 0.5 and 1 of its dial, and
the best counts. Gowalla is the published training part, of which a tenth is held out. bench/README.md says how to make
the environment of the peers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, LightGCN, Method, Normal, open_log, split
from icpe.metrics import evaluate
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import DotScores, with_bias
from icpe.train import Trainer, TrainSettings
from icpe.train.dial import dial_direction
from icpe.train.loop import Validation
from icpe.train.method import TrainingMethod

PEERS = ("implicit-als", "implicit-bpr", "lenskit-als", "recbole-bpr", "recbole-lightgcn")
LOOP = {"epochs": 1000, "patience": 10_000, "lr": 0.01, "goal": "none"}
APART = 1.15  # ratio of the times of two evaluations
OUT = Path(__file__).parent / "out"


def ours(name: str) -> Method:
    """One of our models, with the same width as the peers."""
    backbone = MF(dim=64) if name.endswith("mf") else LightGCN(dim=64, layers=2)
    return ICPE(backbone) if name.startswith("icpe") else Normal(backbone, loss="softmax", temperature=0.1)


OURS = ("normal-mf", "icpe-mf", "normal-lightgcn", "icpe-lightgcn")


class Enough(Exception):
    """The budget is used up."""


def train_ours(folder: Path, name: str, budget: float) -> None:
    """Train one of ours and write its vectors after each epoch, as bench/quality_peers.py does."""
    begin = time.perf_counter() - (time.time() - psutil.Process().create_time())  # of the process, imports included
    paused, written, epochs = [0.0, 0.0], [0.0], 0
    log = Interactions.read(folder / "train.parquet")
    steps = -(-len(log) // 1024)

    def write(method: TrainingMethod, last_share: float | None = None) -> Validation:
        nonlocal epochs
        cpu, wall = time.process_time(), time.perf_counter()
        spent = {"cpu": cpu - paused[0], "wall": wall - begin - paused[1]}
        epochs += 1
        if spent["cpu"] > APART * written[-1]:
            written.append(spent["cpu"])
            table = method.scores()
            assert isinstance(table, DotScores)
            vectors = {"users": table.user_vectors, "items": table.item_vectors}
            if isinstance(method, ICPE):
                vectors["direction"] = dial_direction(method, log)
            np.savez(folder / f"{name}-{epochs:05}.npz", **vectors, **spent)
        paused[0] += time.process_time() - cpu
        paused[1] += time.perf_counter() - wall
        if spent["cpu"] > budget:
            raise Enough
        return Validation(float(epochs), {}, None, 0.0)

    trainer = Trainer(ours(name), log, 0, TrainSettings(**LOOP, evaluate_every=steps), write)
    try:
        trainer.run()
    except Enough:
        return


def curve(folder: Path, name: str, parts: split.Parts) -> list[dict[str, float]]:
    """The NDCG@20 of each epoch that a process has written, with its CPU and clock seconds."""
    found = []
    for path in sorted(folder.glob(f"{name}-*.npz")):
        content = np.load(path)
        table = DotScores(*(np.ascontiguousarray(content[one], np.float32) for one in ("users", "items")))
        tables = [table]
        if "direction" in content:
            tables += [with_bias(table, item_bias(content["direction"], beta)) for beta in (0.5, 1.0)]
        values = [evaluate(one, parts.valid, parts.train).values["ndcg@20"] for one in tables]
        found.append({"cpu": float(content["cpu"]), "wall": float(content["wall"]), "ndcg": max(values)})
        path.unlink()
    return found


def reached(found: list[dict[str, float]], target: float) -> dict[str, float] | None:
    """The first epoch with at least this NDCG@20."""
    return next((one for one in found if one["ndcg"] >= target), None)


def open_parts(data: str) -> split.Parts:
    if data == "gowalla":
        folder = Path(os.environ.get("ICPE_DATA", Path(__file__).parents[2] / "shared" / "data"))
        log = Interactions.read(folder / "gowalla" / "train.txt", format="lists")
        return split.random(log, seed=0, train=0.8999, valid=0.1)
    return split.random(open_log(data), seed=0)


def report(curves: dict[str, list[dict[str, float]]]) -> None:
    """Print the best of each, and when each of ours reaches it."""
    best = {name: max(one["ndcg"] for one in found) for name, found in curves.items() if found}
    print(f"{'':<18}{'best NDCG@20':>14}{'measured':>10}{'CPU s':>9}{'clock s':>9}")
    for name, value in best.items():
        when = reached(curves[name], value)
        assert when is not None
        print(f"{name:<18}{value:>14.4f}{len(curves[name]):>10}{when['cpu']:>9.1f}{when['wall']:>9.1f}")
    mine = [name for name in OURS if name in best]
    print("\nCPU seconds (clock seconds) until ours reach the best NDCG@20 of a peer")
    print(f"{'target':<18}{'its own':>16}" + "".join(f"{name:>18}" for name in mine))
    for name in [one for one in best if one not in OURS]:
        cells = [_shown(reached(curves[one], best[name])) for one in (name, *mine)]
        print(f"{name:<18}{cells[0]:>16}" + "".join(f"{cell:>18}" for cell in cells[1:]))


def _shown(when: dict[str, float] | None) -> str:
    return "not reached" if when is None else f"{when['cpu']:.1f} ({when['wall']:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", help="gowalla, or a name or file that icpe reads, which is split at random")
    parser.add_argument("--peers", help="Python of the environment with implicit, RecBole and LensKit")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of each training")
    parser.add_argument("--only", default=",".join((*PEERS, *OURS)), help="names, with commas")
    parser.add_argument("--ours", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ours:
        train_ours(Path(asked.ours[0]), asked.ours[1], asked.budget)
        return 0
    parts = open_parts(asked.data)
    curves: dict[str, Any] = {}
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        np.save(Path(place, "train.npy"), np.stack([parts.train.user, parts.train.item], 1))
        parts.train.write_parquet(Path(place, "train.parquet"))
        for name in asked.only.split(","):
            budget = str(asked.budget)
            words = [sys.executable, __file__, asked.data, "--ours", place, name, "--budget", budget]
            if name in PEERS:
                if asked.peers is None:
                    continue
                words = [asked.peers, str(Path(__file__).with_name("quality_peers.py")), place, name, budget]
            done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
            curves[name] = curve(Path(place), name, parts)
            print(f"{name}: {len(curves[name])} evaluations, exit code {done.returncode}", file=sys.stderr, flush=True)
    (OUT / f"quality-{Path(asked.data).name}.json").write_text(json.dumps(curves))
    report(curves)
    return 0


if __name__ == "__main__":
    with_one_thread()
    sys.exit(main())
