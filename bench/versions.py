"""Speed of two checkouts on the same machine: time of a training step and of ranking, new over old.

    python bench/versions.py OLD_CHECKOUT NEW_CHECKOUT [FOLDER]   # the folder with gowalla/train.txt

Each round starts a process for either checkout, one after the other, with one thread; the ratio is the median over
rounds.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 5
MEASURE = """
import json, sys, time
import numpy as np, torch
torch.set_num_threads(1)
from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal
from icpe.train import Trainer, TrainSettings
log = Interactions.read(sys.argv[1])
cases = {
    "MF bce": (lambda: Normal(MF()), 300),
    "MF softmax": (lambda: Normal(MF(), loss="softmax", reg=0.0), 100),
    "MF ICPE": (lambda: ICPE(MF()), 100),
    "NeuMF bce": (lambda: Normal(NeuMF()), 60),
    "NeuMF ICPE": (lambda: ICPE(NeuMF(), loss="bce"), 60),
    "LightGCN bce": (lambda: Normal(LightGCN()), 6),
    "LightGCN ICPE": (lambda: ICPE(LightGCN()), 6),
}
found = {}
for name, (make, steps) in cases.items():
    trainer = Trainer(make(), log, 0, TrainSettings(batch_size=1024, epochs=1))
    batches = trainer._sampler.epoch(0)
    for _ in range(3):
        trainer._step(next(batches))
    started = time.process_time()
    for _ in range(steps):
        trainer._step(next(batches))
    found[f"train {name}"] = (time.process_time() - started) / steps
try:
    from icpe.ranking import top_n
except ImportError:  # the name before the redesign
    from icpe.rank import top_n
method = Normal(MF())
method.build(log, np.random.default_rng(0))
with torch.no_grad():
    scores = method.eval().scores()
users = np.arange(4096, dtype=np.int32)
top_n(scores, users, 20, hide=[log])
started = time.process_time()
top_n(scores, users, 20, hide=[log])
found["rank MF, 1000 users"] = (time.process_time() - started) / 4.096
print(json.dumps(found))
"""


def measure(checkout: Path, log: Path) -> dict[str, float]:
    """Return the seconds of each case, measured by a process that imports the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, "-c", MEASURE, str(log)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    old, new = Path(sys.argv[1]), Path(sys.argv[2])
    folder = sys.argv[3] if len(sys.argv) > 3 else os.environ.get("ICPE_DATA", "../shared/data")
    log = Path(folder) / "gowalla" / "train.txt"
    for checkout in (old, new):
        measure(checkout, log)  # compiles and caches the kernels
    rounds = [(measure(old, log), measure(new, log)) for _ in range(ROUNDS)]
    print(f"{'':<24}{'old, ms':>10}{'new, ms':>10}{'new / old':>12}")
    for name in rounds[0][0]:
        ratio = statistics.median(after[name] / before[name] for before, after in rounds)
        times = [1000 * statistics.median(one[side][name] for one in rounds) for side in (0, 1)]
        print(f"{name:<24}{times[0]:>10.2f}{times[1]:>10.2f}{ratio:>12.3f}")


if __name__ == "__main__":
    main()
