"""Training and ranking speed on Gowalla's published split, one thread, batch 1024, dim 64, warm.

Beside ours runs the plain way in torch: whole tables, dense gradients, Adam or RMSprop with default options, a sparse
COO graph, argpartition. Ratios come from one run; absolute figures belong to the machine.

    python bench/engine.py [FOLDER]     # the folder with gowalla/train.txt; default ICPE_DATA, else ../shared/data
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from icpe import MF, Interactions, LightGCN, NeuMF, Normal
from icpe.methods import Batch
from icpe.models.base import Backbone
from icpe.models.scores import PairScores, ScoreTable
from icpe.rank import top_n
from icpe.train import Trainer, TrainSettings

BATCH = 1024


def per_second(step: Callable[[], None], unit: int, seconds: float = 6.0) -> float:
    """Units per CPU second, after two steps to warm up."""
    step(), step()
    start, done = time.process_time(), 0
    while time.process_time() - start < seconds:
        step()
        done += unit
    return done / (time.process_time() - start)


def ours(backbone: Backbone, log: Interactions) -> float:
    trainer = Trainer(Normal(backbone), log, 0, TrainSettings(epochs=1000, batch_size=BATCH))
    drawn = (one for epoch in range(1000) for one in trainer._sampler.epoch(epoch))
    return per_second(lambda: trainer._step(next(drawn)), BATCH)


def plain(backbone: Backbone, log: Interactions) -> float:
    method = Normal(backbone)
    method.build(log, np.random.default_rng(0))
    kind = torch.optim.RMSprop if backbone.default_optimizer == "rmsprop" else torch.optim.Adam
    optimizer = kind(method.parameters(), lr=1e-3)
    tables = [torch.nn.Parameter(torch.randn(size, 64) * 0.1) for size in (len(log.users), len(log.items))]
    graph = coo(log)
    rng = np.random.default_rng(0)

    def step() -> None:
        rows = rng.integers(0, len(log), BATCH)
        users, items = (torch.from_numpy(codes[rows].astype(np.int64)) for codes in (log.user, log.item))
        negatives = torch.from_numpy(rng.integers(0, len(log.items), (BATCH, 1)))
        optimizer.zero_grad()
        if isinstance(backbone, LightGCN):
            layer = torch.cat(tables)
            layers = [layer, *(layer := graph @ layer for _ in range(3))]
            all_users, all_items = torch.stack(layers).mean(0).tensor_split((len(log.users),))
        else:
            all_users, all_items = (one * 1 for one in backbone.reps())  # not the table itself: dense gradients
        batch = Batch(users, items, negatives)
        positive = backbone.score(all_users[users], all_items[items])
        negative = backbone.score(all_users[users][:, None], all_items[negatives])
        loss = torch.nn.functional.softplus(-positive).mean() + torch.nn.functional.softplus(negative).mean()
        (loss + method.penalty(batch)).backward()
        optimizer.step()

    if isinstance(backbone, LightGCN):
        optimizer = kind(tables, lr=1e-3)
    return per_second(step, BATCH)


def coo(log: Interactions) -> torch.Tensor:
    users, size = len(log.users), len(log.users) + len(log.items)
    weight = 1 / np.sqrt(log.user_counts[log.user] * log.item_counts[log.item]).astype(np.float32)
    rows, columns = np.concatenate([log.user, log.item + users]), np.concatenate([log.item + users, log.user])
    values = torch.from_numpy(np.concatenate([weight, weight]).astype(np.float32))
    places = torch.from_numpy(np.stack([rows, columns]))
    return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=True).coalesce()


def ranking(scores: ScoreTable, plain_scores: ScoreTable, log: Interactions, chunk: int) -> tuple[float, float]:
    """Users per CPU second, ours and by argpartition of whole rows."""
    users = np.arange(len(log.users), dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(log.user_counts)])
    place = iter(range(10**9))

    def part() -> np.ndarray:
        first = next(place) * chunk % (len(users) - chunk)
        return users[first : first + chunk]

    def by_argpartition() -> None:
        mine = part()
        table = plain_scores.block(mine, 0, scores.items)
        pairs = slice(starts[mine[0]], starts[mine[-1] + 1])
        table[log.user[pairs] - mine[0], log.item[pairs]] = -np.inf
        best = np.argpartition(-table, 20, axis=1)[:, :20]
        np.take_along_axis(best, np.argsort(-np.take_along_axis(table, best, 1), axis=1), 1)

    return per_second(lambda: top_n(scores, part(), 20, hide=[log]) and None, chunk), per_second(by_argpartition, chunk)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    log = Interactions.read(folder / "gowalla" / "train.txt")
    no_dropout = {"node_dropout": 0.0, "message_dropout": 0.0}
    print(f"{'':<28}{'ours':>12}{'plain torch':>14}{'ratio':>8}")
    for make in (MF, NeuMF, lambda: LightGCN(**no_dropout)):
        mine, theirs = ours(make(), log), plain(make(), log)
        print(f"train {make().name:<12} positives/s{mine:>10,.0f}{theirs:>14,.0f}{mine / theirs:>8.1f}")
    for make, chunk in ((MF, 4096), (NeuMF, 64)):
        backbone = make()
        backbone.build(log, np.random.default_rng(0))
        with torch.no_grad():
            vectors = backbone.reps()
            pairs = PairScores(backbone.score, *vectors) if make is NeuMF else backbone.scores(*vectors)
            mine, theirs = ranking(backbone.scores(*vectors), pairs, log, chunk)
        print(f"rank  {backbone.name:<12} users/s    {mine:>10,.0f}{theirs:>14,.0f}{mine / theirs:>8.1f}")


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when numpy is loaded, so a process of its own must have it
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=os.environ | one, check=False).returncode)
    default = os.environ.get("ICPE_DATA", Path(__file__).parents[2] / "shared" / "data")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else default))
