"""One figure of another library, on the same data and settings as bench/engine.py or serving.py, which start this file.

    /path/to/python bench/peers.py FOLDER recbole train mf       # prints JSON: units per CPU second, peak memory in MB
    /path/to/python bench/peers.py FOLDER implicit request 16    # users per CPU second in requests of 16 users

Runs in the peers' own environment and imports nothing of icpe.
"""

import contextlib
import json
import logging
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, DIM, SECONDS = 1024, 64, 6.0
RECBOLE: dict[str, Any] = {
    "benchmark_filename": ["train", "valid", "test"],
    "load_col": {"inter": ["user_id", "item_id"]},
    "embedding_size": DIM,
    "n_layers": 3,
    "eval_args": {"split": {"LS": "valid_and_test"}, "mode": "full", "order": "RO", "group_by": "user"},
    "use_gpu": False,
    "show_progress": False,
    "state": "ERROR",
    "nproc": 1,
    "worker": 0,
}
MODELS = {"mf": "BPR", "neumf": "NeuMF", "lightgcn": "LightGCN"}


def per_second(step: Callable[[], int]) -> float:
    """Units per CPU second, after two steps to warm up."""
    step(), step()
    start, done = time.process_time(), 0
    while time.process_time() - start < SECONDS:
        done += step()
    return done / (time.process_time() - start)


def quick(step: Callable[[], int]) -> float:
    """Units per CPU second in the fastest tenth of the calls: other work on the machine only adds time."""
    step(), step()
    times: list[float] = []
    units = 0
    while sum(times) < SECONDS / 3:
        start = time.process_time()
        units = step()
        times.append(time.process_time() - start)
    return units / float(np.quantile(times, 0.1))


def pairs(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        user, *items = line.split()
        yield from ((user, item) for item in items)


def restore_names() -> None:
    """Restore the names that RecBole 1.2 uses and newer versions of NumPy and SciPy no longer have."""
    from scipy.sparse import dok_matrix

    for alias, kind in (("float_", np.float64), ("complex_", np.complex128), ("unicode_", np.str_)):
        setattr(np, alias, kind)
    dok_matrix._update = lambda matrix, values: matrix._dict.update(values)


def recbole(folder: Path, task: str, name: str) -> float:
    import torch

    restore_names()
    torch.set_num_threads(1)
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # it writes logs where it stands
        home = Path(place) / "gowalla"
        home.mkdir()
        for part, file in (("train", "train.txt"), ("valid", "test.txt"), ("test", "test.txt")):
            rows = "".join(f"{user}\t{item}\n" for user, item in pairs(folder / "gowalla" / file))
            (home / f"gowalla.{part}.inter").write_text("user_id:token\titem_id:token\n" + rows)
        settings = {
            **RECBOLE,
            "data_path": place,
            "checkpoint_dir": place,
            "mf_embedding_size": DIM,
            "mlp_embedding_size": DIM,
            "mlp_hidden_size": [64, 32, 16],
            # Batches of pointwise training count positives and negatives.
            "train_batch_size": 2 * BATCH if name == "neumf" else BATCH,
            "eval_batch_size": (8 if name == "neumf" else 512) * 41000,  # users × items
            "topk": [20],
            "metrics": ["Recall", "NDCG"],
            "valid_metric": "Recall@20",
        }
        sys.argv = sys.argv[:1]
        config = Config(model=MODELS[name], dataset="gowalla", config_dict=settings)
        init_seed(0, True)
        dataset = create_dataset(config)
        train, _, test = data_preparation(config, dataset)
        model = get_model(config["model"])(config, train._dataset)
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        if task == "train":
            batches = (batch for _ in range(1000) for batch in train)

            def step() -> int:
                batch = next(batches)
                trainer.optimizer.zero_grad()
                loss = model.calculate_loss(batch)
                loss.backward()
                trainer.optimizer.step()
                return len(batch) // 2 if name == "neumf" else len(batch)

            return per_second(step)
        model.eval()
        trainer.item_tensor = test._dataset.get_item_feature()
        trainer.tot_item_num = test._dataset.item_num
        trainer.eval_collector.data_collect(train)
        batches = (batch for _ in range(1000) for batch in test)

        def rank() -> int:
            with torch.no_grad():
                batch = next(batches)
                interaction, scores, user, item = trainer._full_sort_batch_eval(batch)
                trainer.eval_collector.eval_batch_collect(scores, interaction, user, item)
                return len(interaction)

        return per_second(rank)


def implicit(folder: Path, task: str, name: str) -> float:
    from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase
    from scipy.sparse import csr_matrix

    user, item = np.array(list(pairs(folder / "gowalla" / "train.txt")), dtype=np.int64).T
    seen = csr_matrix((np.ones(len(user), np.float32), (user, item)))

    class Factors(MatrixFactorizationBase):
        def fit(self, *_: Any, **__: Any) -> None:
            """There is nothing to learn: any numbers take as long to rank."""

        def save(self, *_: Any) -> None:
            """There is nothing to keep."""

    model, rng = Factors(num_threads=1), np.random.default_rng(0)
    model.user_factors, model.item_factors = (rng.standard_normal((size, DIM), dtype=np.float32) for size in seen.shape)
    size = int(name) if task == "request" else 4096
    starts = iter(range(0, 10**9, size))

    def step() -> int:
        first = next(starts) % (seen.shape[0] - size)
        users = np.arange(first, first + size)
        model.recommend(users, seen[users], N=20, filter_already_liked_items=True)
        return size

    return quick(step) if task == "request" else per_second(step)


def faiss(folder: Path, task: str, name: str) -> float:
    """Exact search of a flat index. It does not hide the items that a user has used."""
    import faiss

    faiss.omp_set_num_threads(1)
    users, items = (1 + np.array(list(pairs(folder / "gowalla" / "train.txt")), dtype=np.int64).max(0)).tolist()
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((users, DIM), dtype=np.float32)
    index = faiss.IndexFlatIP(DIM)
    index.add(rng.standard_normal((items, DIM), dtype=np.float32))
    size = int(name)
    starts = iter(range(0, 10**9, size))

    def step() -> int:
        first = next(starts) % (users - size)
        index.search(queries[first : first + size], 20)
        return size

    return quick(step)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    library, task, name = sys.argv[2:5]
    rate = {"recbole": recbole, "implicit": implicit, "faiss": faiss}[library](Path(sys.argv[1]).absolute(), task, name)
    print(json.dumps({"rate": rate, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
