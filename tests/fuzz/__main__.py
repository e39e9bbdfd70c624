"""Fuzz with new seeds for some time; prints the seed of every failure and exits with 1 if there is one.

Example: python -m fuzz --seconds 600 --targets csv,parquet
"""

import argparse
import sys
import time
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from fuzz.harness import FuzzError, attempt
from fuzz.targets import make_targets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="when to stop")
    parser.add_argument("--targets", help="names, separated by commas; default: all")
    parser.add_argument("--seed", type=int, help="run this seed only")
    options = parser.parse_args()
    first = SystemRandom().randrange(2**40) if options.seed is None else options.seed
    outcomes = {"read": 0, "refused": 0, "failed": 0}
    with TemporaryDirectory() as name:
        (good := Path(name) / "good").mkdir()
        targets = make_targets(good)
        chosen = options.targets.split(",") if options.targets else list(targets)
        end, seed = time.monotonic() + options.seconds, first
        while time.monotonic() < end and (options.seed is None or seed == first):
            for one in chosen:
                try:
                    outcomes[attempt(one, targets[one], seed, Path(name) / "damaged")] += 1
                except FuzzError as error:
                    outcomes["failed"] += 1
                    print(f"{error}\n  again: python -m fuzz --targets {one} --seed {seed}", flush=True)
            seed += 1
    print(", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items()))
    return int(outcomes["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
