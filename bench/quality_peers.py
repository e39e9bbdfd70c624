"""The training of one other library for bench/quality.py, which starts this file in the environment of the peers.

    /path/to/python bench/quality_peers.py FOLDER implicit-als SECONDS

Reads FOLDER/train.npy, int32 [pairs, 2] with codes of users and items, and writes FOLDER/NAME-00001.npz and so on after
epochs until the CPU seconds are used up: vectors of users and items and the CPU and clock seconds since the start
of the process. Writing does not count. Imports nothing of icpe.
"""

import contextlib
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from peers import DIM, RECBOLE, restore_names

APART = 1.15  # ratio of the times of two evaluations
START = time.perf_counter() - (time.time() - psutil.Process().create_time())  # of the process, imports included


class Enough(Exception):
    """The budget is used up."""


class Curve:
    """Writes the vectors of each epoch and keeps the time that this takes out of the measurement."""

    def __init__(self, folder: Path, name: str, budget: float) -> None:
        self._folder, self._name, self._budget = folder, name, budget
        self._cpu, self._wall, self._written, self._epochs = 0.0, 0.0, 0.0, 0

    def add(self, users: Any, items: Any) -> None:
        """Write the vectors of an epoch; raise :class:`Enough` once the budget is used up."""
        cpu, wall = time.process_time(), time.perf_counter()
        spent = {"cpu": cpu - self._cpu, "wall": wall - START - self._wall}
        self._epochs += 1
        if spent["cpu"] > APART * self._written:
            self._written = spent["cpu"]
            np.savez(self._folder / f"{self._name}-{self._epochs:05}.npz", users=users, items=items, **spent)
        self._cpu += time.process_time() - cpu
        self._wall += time.perf_counter() - wall
        if spent["cpu"] > self._budget:
            raise Enough


def implicit(folder: Path, kind: str, curve: Curve) -> None:
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    pairs = np.load(folder / "train.npy")
    seen = csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])))
    made = AlternatingLeastSquares if kind == "als" else BayesianPersonalizedRanking
    model = made(factors=DIM, iterations=10_000, random_state=0, num_threads=1)
    model.fit(seen, show_progress=False, callback=lambda *_: curve.add(model.user_factors, model.item_factors))


def lenskit(folder: Path, kind: str, curve: Curve) -> None:
    import pandas as pd
    from lenskit.als import ImplicitMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    pairs = np.load(folder / "train.npy")
    data = from_interactions_df(pd.DataFrame(pairs, columns=["user_id", "item_id"]))
    model = ImplicitMFScorer(embedding_size=DIM, epochs=10_000)
    trainer = model.create_trainer(data, TrainingOptions(rng=0))
    while True:
        trainer.train_epoch()
        user, item = (one.ids().astype(np.int64) for one in (data.users, data.items))
        users, items = (np.zeros((1 + size, DIM), np.float32) for size in pairs.max(0))
        users[user], items[item] = model.user_embeddings, model.item_embeddings
        curve.add(users, items)


def recbole(folder: Path, kind: str, curve: Curve) -> None:
    import torch

    restore_names()
    torch.set_num_threads(1)
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    pairs = np.load(folder / "train.npy")
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # it writes logs where it stands
        home = Path(place) / "log"
        home.mkdir()
        rows = "".join(f"{user}\t{item}\n" for user, item in pairs.tolist())
        one = rows[: rows.index("\n") + 1]  # RecBole wants all three parts, but only trains here
        for part, some in (("train", rows), ("valid", one), ("test", one)):
            (home / f"log.{part}.inter").write_text("user_id:token\titem_id:token\n" + some)
        settings = {**RECBOLE, "data_path": place, "checkpoint_dir": place}
        sys.argv = sys.argv[:1]
        config = Config(model={"bpr": "BPR", "lightgcn": "LightGCN"}[kind], dataset="log", config_dict=settings)
        init_seed(0, True)
        dataset = create_dataset(config)
        train = data_preparation(config, dataset)[0]
        model = get_model(config["model"])(config, train._dataset)
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        places = [
            dataset.token2id(field, np.arange(1 + most).astype(str))
            for field, most in zip(("user_id", "item_id"), pairs.max(0), strict=True)
        ]
        for epoch in range(10_000):
            trainer._train_epoch(train, epoch)
            model.eval()
            with torch.no_grad():
                users, items = (
                    model.forward()
                    if kind == "lightgcn"
                    else (model.user_embedding.weight, model.item_embedding.weight)
                )
            curve.add(users[places[0]].detach().numpy(), items[places[1]].detach().numpy())
            model.train()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    place, name, budget = Path(sys.argv[1]).absolute(), sys.argv[2], float(sys.argv[3])
    library, kind = name.split("-")
    with contextlib.suppress(Enough):
        {"implicit": implicit, "lenskit": lenskit, "recbole": recbole}[library](place, kind, Curve(place, name, budget))
