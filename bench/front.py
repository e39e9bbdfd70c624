"""Cost of the front of a model, all settings of the dial together, relative to one evaluation, on Gowalla.

The model is trained shortly on Gowalla's published split, a random tenth of the training pairs is the validation part,
and both are measured in turn in CPU seconds on one thread. The ratio is the median over rounds.

    python bench/front.py [FOLDER]     # the folder with gowalla/train.txt; default ICPE_DATA, else ../shared/data
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from alone import with_one_thread
from icpe import ICPE, MF, Interactions, Normal, split
from icpe.methods import Method
from icpe.recommender.evaluation import evaluate_part
from icpe.recommender.model import Model
from icpe.split import Parts

ROUNDS, LIMIT = 5, 2.0


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(label: str, method: Method, parts: Parts) -> float:
    model: Model = method.fit(parts.train, epochs=4, lr=4e-3)
    for warm_up in (lambda: model.front(parts.valid), lambda: evaluate_part(model, parts, "valid")):
        warm_up()
    ratios = []
    for _ in range(ROUNDS):
        one = seconds(lambda: evaluate_part(model, parts, "valid"))
        whole = seconds(lambda: model.front(parts.valid))
        ratios.append(whole / one)
    settings, found = len(model.front().table), statistics.median(ratios)
    print(f"{label:<20} front of {settings} settings: {found:.2f} evaluations of {one:.1f} s (limit {LIMIT:g})")
    return found


def main() -> int:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ICPE_DATA", "../shared/data"))
    log = Interactions.read(folder / "gowalla" / "train.txt", format="lists")
    parts = split.random(log, seed=0)
    found = [
        measure("MF, Normal softmax", Normal(MF(), loss="softmax", reg=0.0), parts),
        measure("MF, ICPE", ICPE(MF()), parts),
    ]
    return int(max(found) > LIMIT)


if __name__ == "__main__":
    with_one_thread()
    sys.exit(main())
