"""Trains some runs in one process and then in a group, each into a folder; the tests start it in several processes.

The first process trains alone while the others wait for it, so that both kinds of runs have the same environment.
"""

import json
import os
import sys
from pathlib import Path

from icpe import shards
from icpe.runs.config import RunConfig
from icpe.runs.run import Run
from icpe.train import Trainer

CASES = {
    "mf-normal": {"backbone": {"name": "mf"}, "method": {"name": "normal"}},
    "mf-icpe": {"backbone": {"name": "mf"}, "method": {"name": "icpe"}},
    "mf-paper": {"backbone": {"name": "mf"}, "method": {"name": "icpe", "preset": "paper"}},
    "lightgcn-normal": {"backbone": {"name": "lightgcn"}, "method": {"name": "normal"}},
    "lightgcn-icpe": {"backbone": {"name": "lightgcn", "layers": 2}, "method": {"name": "icpe"}},
    "neumf-icpe": {"backbone": {"name": "neumf", "layers": [8]}, "method": {"name": "icpe"}},
}


def config(case: str, log: Path) -> RunConfig:
    made = CASES[case]
    return RunConfig(
        data={"source": str(log)},
        split={"kind": "random"},
        backbone={"dim": 8, **made["backbone"]},
        method=made["method"],
        train={"epochs": 1, "evaluate_every": 4, "batch_size": 2048},
    )


def held(case: str, log: Path) -> dict[str, int]:
    """Bytes of the state that this process holds, and rows of its user table."""
    made = config(case, log)
    method, settings, _ = made.prepare()
    trainer = Trainer(method, made.open_parts().train, 0, settings)
    tensors = trainer.tensors()
    return {"bytes": sum(one.nbytes for one in tensors.values()), "rows": len(tensors["now.backbone.user_table"])}


def main(folder: Path, cases: list[str]) -> None:
    log, alone, rank = folder / "log.parquet", folder / "alone", int(os.environ["RANK"])
    if rank == 0:
        for case in cases:
            Run(config(case, log), alone / case).train()
        (folder / "held-alone.json").write_text(json.dumps(held(cases[0], log)))
    group = shards.join()
    for case in cases:
        Run(config(case, log), folder / "shared" / case).train()
    (folder / f"held-{group.rank}.json").write_text(json.dumps(held(cases[0], log)))
    group.wait()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2].split(","))
