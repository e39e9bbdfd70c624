"""Train with two checkouts on one machine and compare test metrics and model tensors bit for bit.

A redesign must not change results. Run this against the commit it started from after every large step:

    python tests/golden/compare.py OLD_CHECKOUT NEW_CHECKOUT
    python tests/golden/compare.py OLD_CHECKOUT NEW_CHECKOUT --only icpe-mf --only normal-neumf --keep /tmp/golden

Both checkouts run in the interpreter that runs this script. It exits with 1 if anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

TRAININGS = Path(__file__).parent / "golden.json"
FAILED = "did not finish"
NEW_WITH_THE_DIAL = ("--train.goal", "--method.cooling")


def train(checkout: Path, folder: Path, arguments: list[str]) -> None:
    """Train once with a checkout, in a process of its own with one thread, unless its result is there already."""
    if (folder / "result.json").exists():
        return
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout.resolve() / "src"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    if not (checkout / "src" / "icpe" / "train" / "dial.py").exists():  # it does what these flags ask for anyway
        places = [place for place, word in enumerate(arguments) if word in NEW_WITH_THE_DIAL]
        arguments = [word for place, word in enumerate(arguments) if not {place, place - 1} & set(places)]
    command = [sys.executable, "-m", "icpe", "train", *arguments, "--force", "-o", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=checkout)
    if done.returncode:
        print(f"{folder.name}: {checkout} failed\n{done.stderr[-2000:]}", file=sys.stderr)


def differences(old: Path, new: Path) -> list[str]:
    """Say in which metrics and tensors two run folders differ."""
    if not all((folder / "result.json").exists() for folder in (old, new)):
        return [FAILED]
    found = []
    before, after = (json.loads((folder / "result.json").read_text()) for folder in (old, new))
    for part in ("valid", "test"):
        changed = [name for name, value in before[part].items() if after[part].get(name) != value]
        found += [f"{part}.{name}: {before[part][name]} -> {after[part].get(name)}" for name in changed]
    tensors: list[dict[str, Any]] = [load_file(folder / "model.safetensors") for folder in (old, new)]
    if tensors[0].keys() != tensors[1].keys():
        found.append(f"tensor names differ: {sorted(tensors[0].keys() ^ tensors[1].keys())}")
    for name in tensors[0].keys() & tensors[1].keys():
        if tensors[0][name].dtype != tensors[1][name].dtype or tensors[0][name].tobytes() != tensors[1][name].tobytes():
            found.append(f"tensor {name} differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", action="append", help="Name of a training in golden.json; repeatable. Default: all.")
    parser.add_argument("--keep", type=Path, help="Folder in which the runs of OLD are kept for the next comparison.")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    trainings = json.loads(TRAININGS.read_text())
    wanted = {name: one["arguments"] for name, one in trainings.items() if not options.only or name in options.only}
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as pool:
        old, new = options.keep or Path(temporary) / "old", Path(temporary) / "new"
        for checkout, place in ((options.old, old), (options.new, new)):
            # The first run compiles and caches the kernels, so that two processes do not do it at the same time.
            jobs = [(checkout, (place / name).resolve(), arguments) for name, arguments in wanted.items()]
            train(*jobs[0])
            list(pool.map(lambda job: train(*job), jobs[1:]))
        reports = {name: differences(old / name, new / name) for name in wanted}
    for name, report in reports.items():
        print(f"{name:<24}{'the same' if not report else '; '.join(report[:4])}")
    changed = sum(bool(report) for report in reports.values())
    print(f"{len(reports)} trainings compared, {changed} differ")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
