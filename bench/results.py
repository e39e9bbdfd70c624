"""Results of several settings over several seeds, as a file of JSON lines and a table.

A study is a TOML file: sections as in a run's config.toml hold for all, ``[cells."NAME"]`` holds what a cell changes,
with the same sections and ``serving.NAME = [values]`` for dials to evaluate after training. Seeds cut the data anew as
well. What is done already is not done again.

    python bench/results.py STUDY.toml --seeds 0-4 -o results.jsonl [--only NAME] [--workers 2] [--part test]
"""

import argparse
import json
import math
import os
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, stdev
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is loaded: a worker has one core

SHOWN = ("recall@20", "ndcg@20", "recall_head@20", "recall_niche@20", "ndcg_niche@20", "coverage@20", "apt@20")


def run_cell(sections: dict[str, dict[str, Any]], seed: int) -> dict[str, Any]:
    """Train one setting with one seed and evaluate it, also with other values of the dial it has after training."""
    import time

    import torch

    from icpe.model.config import RunConfig
    from icpe.model.run import measure

    torch.set_num_threads(1)
    sections = dict(sections)
    dials = sections.pop("serving", {})
    config = RunConfig(**sections).updated("train", {"seed": seed})
    method, parts = config.make_method(), config.open_parts()
    settings = config.train_settings(method).as_dict()
    start = time.perf_counter()
    model = method.fit(parts.train, parts.valid, seed, **settings)
    found = {**measure(model, parts, config.depths), "seconds": round(time.perf_counter() - start, 1)}
    for name, values in dials.items():
        found["serving"] = [
            {name: value, **measure(model.adjusted(**{name: value}), parts, config.depths)} for value in values
        ]
    return found


def merged(common: dict[str, Any], cell: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of a cell over the common ones; another method starts from its own defaults."""
    sections = {name: dict(values) for name, values in common.items()}
    for name, values in cell.items():
        fresh = name == "method" and values.get("name", common.get("method", {}).get("name")) != common.get(
            "method", {}
        ).get("name")
        sections[name] = dict(values) if fresh else {**sections.get(name, {}), **values}
    return sections


def read_done(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Lines of the file by cell, seed and settings."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {(one["cell"], one["seed"], json.dumps(one["sections"], sort_keys=True)): one for one in records}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--seeds", default="0-4", help="such as 0-4 or 100,101")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", action="append", help="a cell; repeatable")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--against", help="a cell to compare all others with, seed by seed")
    parser.add_argument("--part", default="test", choices=["valid", "test"], help="what the table shows")
    arguments = parser.parse_args()
    content = tomllib.loads(arguments.study.read_text(encoding="utf-8"))
    cells = content.pop("cells")
    first, _, last = arguments.seeds.partition("-")
    seeds = list(range(int(first), int(last) + 1)) if last else [int(one) for one in arguments.seeds.split(",")]
    chosen = {
        name: merged(content, cell) for name, cell in cells.items() if not arguments.only or name in arguments.only
    }
    done = read_done(arguments.output)
    waiting = [
        (name, seed, sections)
        for seed in seeds
        for name, sections in chosen.items()
        if (name, seed, json.dumps(sections, sort_keys=True)) not in done
    ]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(arguments.workers) as pool:
        jobs = {pool.submit(run_cell, sections, seed): (name, seed, sections) for name, seed, sections in waiting}
        for job in as_completed(jobs):
            name, seed, sections = jobs[job]
            record = {"cell": name, "seed": seed, "sections": sections, **job.result()}
            with arguments.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            found = record[arguments.part]
            shown = " ".join(f"{found[metric]:.4f}" for metric in SHOWN)
            print(f"{name:<34} seed {seed:<4} {shown}  {record['seconds']:.0f} s", flush=True)
    print_tables(read_done(arguments.output), chosen, seeds, arguments.part, arguments.against)


def print_tables(
    done: dict[tuple[str, int, str], dict[str, Any]],
    chosen: dict[str, Any],
    seeds: list[int],
    part: str,
    against: str | None,
) -> None:
    """Mean and standard deviation over seeds, and differences to one cell with paired t-tests, as Markdown."""
    found = {
        name: {
            seed: done[name, seed, key][part]
            for seed in seeds
            if (name, seed, key := json.dumps(sections, sort_keys=True)) in done
        }
        for name, sections in chosen.items()
    }
    heading = " | ".join(SHOWN) + " |\n|---|" + "---|" * len(SHOWN)
    print(f"\n| {part}, {len(seeds)} seeds | {heading}")
    for name, runs in found.items():
        if runs:
            cells = [_mean([run[metric] for run in runs.values()]) for metric in SHOWN]
            print(f"| {name} | " + " | ".join(cells) + " |")
    if against is None:
        return
    print(f"\n| {against} less … (p of a paired t-test) | {heading}")
    for name, runs in found.items():
        both = sorted(found[against].keys() & runs.keys())
        if name == against or len(both) < 2:
            continue
        cells = [_difference([found[against][seed][m] - runs[seed][m] for seed in both]) for m in SHOWN]
        print(f"| {name} | " + " | ".join(cells) + " |")


def _mean(values: list[float]) -> str:
    return f"{mean(values):.4f}" + (f"±{stdev(values):.4f}" if len(values) > 1 else "")


def _difference(values: list[float]) -> str:
    """Mean and the p of a t-test against 0, two-sided."""
    spread = stdev(values) / math.sqrt(len(values))
    if spread == 0:
        return f"{mean(values):+.4f}"
    free, t = len(values) - 1, abs(mean(values)) / spread
    # Student's density, summed by the rule of midpoints from 0 to t.
    factor = math.gamma((free + 1) / 2) / math.gamma(free / 2) / math.sqrt(free * math.pi)
    pieces = 20_000
    inner = sum((1 + ((place + 0.5) * t / pieces) ** 2 / free) ** (-(free + 1) / 2) for place in range(pieces))
    p = max(0.0, 1 - 2 * factor * inner * t / pieces)
    return f"{mean(values):+.4f} ({p:.3f})"


if __name__ == "__main__":
    main()
