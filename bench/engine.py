"""Training and ranking speed on Gowalla's published split, one thread, batch 1024, dim 64, warm.

Each figure comes from a process of its own. Beside ours runs the plain way in torch (whole tables, dense gradients,
Adam or RMSprop with default options, a sparse COO graph, argpartition) and, with an interpreter that has them,
RecBole and implicit. Ratios come from one run; absolute figures belong to the machine.

    python bench/engine.py [FOLDER] [--peers PYTHON]
    python bench/engine.py [FOLDER] --threads     # two threads over one instead, see bench/threads.py

FOLDER holds gowalla/train.txt and test.txt; default ICPE_DATA, else ../shared/data.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH, SECONDS = 1024, 6.0
# What is measured, against whom, and how many times faster it is to be.
TARGETS = [
    ("train", "mf", "recbole", 8.0),
    ("train", "mf-softmax", None, None),
    ("train", "neumf", "recbole", 3.0),
    ("train", "lightgcn", "recbole", 4.0),
    ("rank", "mf", "recbole", 5.0),
    ("rank", "mf", "implicit", 1.5),
    ("rank", "neumf", "recbole", 8.0),
]


def per_second(step: Callable[[], object], unit: int) -> float:
    """Units per CPU second, after two steps to warm up."""
    step(), step()
    start, done = time.process_time(), 0
    while time.process_time() - start < SECONDS:
        step()
        done += unit
    return done / (time.process_time() - start)


def measure(folder: Path, way: str, task: str, name: str) -> float:
    """One figure, in this process."""
    import torch

    from icpe import MF, Interactions, LightGCN, NeuMF, Normal

    torch.set_num_threads(1)
    log = Interactions.read(folder / "gowalla" / "train.txt")
    backbones = {"mf": MF, "neumf": NeuMF, "lightgcn": lambda: LightGCN(node_dropout=0.0, message_dropout=0.0)}
    base, _, loss = name.partition("-")
    method = Normal(backbones[base](), loss=loss or "bce")  # type: ignore[arg-type]
    if task == "rank":
        return rank_ours(method, log) if way == "ours" else rank_plainly(method, log)
    return train_ours(method, log) if way == "ours" else train_plainly(method, log)


def train_ours(method: Any, log: Any) -> float:
    from icpe.train import Trainer, TrainSettings

    trainer = Trainer(method, log, 0, TrainSettings(epochs=1000, batch_size=BATCH))
    drawn = (one for epoch in range(1000) for one in trainer._sampler.epoch(epoch))
    return per_second(lambda: trainer._step(next(drawn)), BATCH)


def train_plainly(method: Any, log: Any) -> float:
    import numpy as np
    import torch
    from torch.nn import functional

    from icpe.methods import Batch

    backbone, rng = method.backbone, np.random.default_rng(0)
    method.build(log, rng)
    kind = torch.optim.RMSprop if backbone.default_optimizer == "rmsprop" else torch.optim.Adam
    propagated = backbone.name == "lightgcn"
    tables = [torch.nn.Parameter(torch.randn(size, 64) * 0.1) for size in (len(log.users), len(log.items))]
    optimizer = kind(tables if propagated else method.parameters(), lr=1e-3)
    graph = coo(log) if propagated else None

    def reps() -> Any:
        if graph is None:
            return (one * 1 for one in backbone.reps())  # not the table itself: dense gradients
        layers = [torch.cat(tables)]
        for _ in range(3):
            layers.append(graph @ layers[-1])
        return torch.stack(layers).mean(0).tensor_split((len(log.users),))

    def loss(users: Any, items: Any, negatives: Any) -> Any:
        if method.loss_kind == "softmax":
            user, item, other = (functional.normalize(one, dim=-1) for one in (users, items, negatives))
            logits = torch.cat([(user * item).sum(-1, keepdim=True), user @ other.T], 1) / method.temperature
            return functional.cross_entropy(logits, torch.zeros(len(users), dtype=torch.int64))
        positive, negative = backbone.score(users, items), backbone.score(users[:, None], negatives)
        return functional.softplus(-positive).mean() + functional.softplus(negative).mean()

    def step() -> None:
        rows = rng.integers(0, len(log), BATCH)
        users, items = (torch.from_numpy(codes[rows].astype(np.int64)) for codes in (log.user, log.item))
        shape = (method.negatives.count,) if method.negatives.shared else (BATCH, 1)
        negatives = torch.from_numpy(rng.integers(0, len(log.items), shape))
        optimizer.zero_grad()
        all_users, all_items = reps()
        value = loss(all_users[users], all_items[items], all_items[negatives])
        (value + method.penalty(Batch(users, items, negatives))).backward()
        optimizer.step()

    return per_second(step, BATCH)


def coo(log: Any) -> Any:
    import numpy as np
    import torch

    users, size = len(log.users), len(log.users) + len(log.items)
    weight = 1 / np.sqrt(log.user_counts[log.user] * log.item_counts[log.item]).astype(np.float32)
    rows, columns = np.concatenate([log.user, log.item + users]), np.concatenate([log.item + users, log.user])
    values = torch.from_numpy(np.concatenate([weight, weight]).astype(np.float32))
    places = torch.from_numpy(np.stack([rows, columns]))
    return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=True).coalesce()


def built(method: Any, log: Any) -> tuple[int, Iterator[Any]]:
    """Builds the method; users per call, and the users of each call."""
    import numpy as np

    method.build(log, np.random.default_rng(0))
    chunk = 64 if method.backbone.name == "neumf" else 4096
    users = np.arange(len(log.users), dtype=np.int32)
    firsts = (number * chunk % (len(users) - chunk) for number in range(10**9))
    return chunk, (users[first : first + chunk] for first in firsts)


def rank_ours(method: Any, log: Any) -> float:
    import torch

    from icpe.ranking import top_n

    chunk, parts = built(method, log)
    with torch.no_grad():
        scores = method.scores()
    return per_second(lambda: top_n(scores, next(parts), 20, hide=[log]), chunk)


def rank_plainly(method: Any, log: Any) -> float:
    import numpy as np
    import torch

    from icpe.ranking.tables import PairScores

    chunk, parts = built(method, log)
    with torch.no_grad():
        reps = method.backbone.reps()
        pairwise = method.backbone.name == "neumf"
        scores = PairScores(method.backbone.score, *reps) if pairwise else method.backbone.scores(*reps)
    starts = np.concatenate([[0], np.cumsum(log.user_counts)])

    def step() -> None:
        mine = next(parts)
        table = scores.block(mine, 0, scores.items)
        pairs = slice(starts[mine[0]], starts[mine[-1] + 1])
        table[log.user[pairs] - mine[0], log.item[pairs]] = -np.inf
        best = np.argpartition(-table, 20, axis=1)[:, :20]
        np.take_along_axis(best, np.argsort(-np.take_along_axis(table, best, 1), axis=1), 1)

    return per_second(step, chunk)


def child(python: str, script: str, *arguments: str) -> dict[str, float] | None:
    """A figure from a process of its own: units per CPU second and peak memory in MB; None if it failed."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [python, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, env=os.environ | one, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{' '.join(arguments[1:])} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main(folder: str, peers: str | None) -> None:
    if peers is None:
        print("no peers: name an interpreter that has recbole and implicit with --peers (see bench/README.md)")
    print(f"{'':<22}{'ours /s':>10}{'MB':>7}   {'against':<12}{'/s':>9}{'MB':>7}{'ratio':>8}{'target':>8}")
    known: dict[tuple[str, str], dict[str, float] | None] = {}
    for task, name, peer, target in TARGETS:
        key = (task, name)
        fresh = key not in known
        known.setdefault(key, child(sys.executable, "engine.py", folder, "--only", "ours", task, name))
        if fresh:
            show(
                task,
                name,
                known[key],
                "plain torch",
                child(sys.executable, "engine.py", folder, "--only", "plain", *key),
            )
        if peers is not None and peer is not None:
            show(task, name, known[key], peer, child(peers, "peers.py", folder, peer, task, name), target)


def show(
    task: str,
    name: str,
    mine: dict[str, float] | None,
    whom: str,
    theirs: dict[str, float] | None,
    target: float | None = None,
) -> None:
    if mine is None or theirs is None:
        return
    ratio, wanted = mine["rate"] / theirs["rate"], f"{target:g}" if target else ""
    met = "" if not target else "  met" if ratio >= target else "  missed"
    head = f"{task} {name}, {'users' if task == 'rank' else 'positives'}"
    figures = f"{mine['rate']:>10,.0f}{mine['peak']:>7,.0f}   {whom:<12}{theirs['rate']:>9,.0f}{theirs['peak']:>7,.0f}"
    print(f"{head:<22}{figures}{ratio:>8.1f}{wanted:>8}{met}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--peers", help="an interpreter that has recbole and implicit")
    parser.add_argument("--threads", action="store_true", help="two threads over one; the machine must be quiet")
    parser.add_argument("--only", nargs=3, metavar=("WAY", "TASK", "NAME"), help="one figure, as JSON")
    arguments = parser.parse_args()
    place = arguments.folder or os.environ.get("ICPE_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    if arguments.only:
        speed = measure(Path(place), *arguments.only)
        print(json.dumps({"rate": speed, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
    elif arguments.threads:
        import threads

        sys.exit(not threads.main(Path(place)))
    else:
        main(place, arguments.peers)
