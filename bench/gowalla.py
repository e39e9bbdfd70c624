"""LightGCN on Gowalla's published split: the published level, within an hour on two cores.

Trains on all of the published training part and shows Recall@20 and NDCG@20 on the published test part as they come.
Nothing is chosen by them: the settings come from runs on a tenth of the training pairs, held out (``--valid`` holds out
the same), and the figures that count are those of the last line. Items are ranked by cosine and length; docs/gowalla.md
says why and what was tried.

    python bench/gowalla.py [FOLDER]    # the folder with gowalla/train.txt; default ICPE_DATA, else ../shared/data
    python bench/gowalla.py --valid     # train on nine tenths of the training pairs, show the tenth held out
    python bench/gowalla.py --draw FILE # only draw the curve of the last run

Writes a line per evaluation to ``bench/out/gowalla.jsonl``, or ``gowalla-valid.jsonl``.
"""

import argparse
import copy
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from icpe import Interactions, LightGCN, Normal, split
from icpe.metrics import evaluate
from icpe.ranking.tables import DotScores, ScoreTable
from icpe.report.figures import GREY, HEAD, NICHE, save_figure
from icpe.train import Trainer, TrainSettings
from icpe.train.loop import Validation
from icpe.train.method import TrainingMethod

LAYERS, TEMPERATURE, NEGATIVES = 2, 0.09, 2048
POWER = 0.25  # `norm_power`: of an item's length in the score; 0 is the cosine
BATCH, LR, EPOCHS, EVALUATE_EPOCHS = 2048, 0.02, 7, 1
PUBLISHED = {"recall@20": 0.182, "ndcg@20": 0.154}  # LightGCN, three layers, BPR, at convergence
AIM = {"recall@20": 0.175, "ndcg@20": 0.148}
POPULAR = {"recall@20": 0.0416, "ndcg@20": 0.0317}  # published for the most popular items; checks our evaluation
OUT = Path(__file__).parent / "out"


def method() -> Normal:
    backbone = LightGCN(dim=64, layers=LAYERS, node_dropout=0.0, message_dropout=0.0)
    return Normal(backbone, loss="softmax", negatives=NEGATIVES, temperature=TEMPERATURE, reg=0.0, norm_power=POWER)


def cosines(trained: Normal) -> ScoreTable:
    """Scores without the lengths of items, which the loss does not see either."""
    plain = copy.copy(trained)
    plain.settings = plain.settings.replace(norm_power=0.0)
    return plain.scores()


def run(train: Interactions, held: Interactions, out: Path) -> list[dict[str, Any]]:
    """Train on one part, judge on the other; a record per evaluation, written as it comes."""
    records: list[dict[str, Any]] = []
    begin, cpu = time.perf_counter(), time.process_time()
    steps = -(-len(train) // BATCH)
    settings = TrainSettings(
        epochs=EPOCHS, batch_size=BATCH, lr=LR, patience=EPOCHS, evaluate_every=EVALUATE_EPOCHS * steps
    )

    trained = method()

    def judge(method: TrainingMethod, last_share: float | None = None) -> Validation:
        values = evaluate(method.scores(), held, train).values
        cosine = evaluate(cosines(trained), held, train).values
        metrics = values | {f"cosine_{name}": cosine[name] for name in AIM}
        return Validation(values["ndcg@20"], metrics, None, values["apt@20"])

    def note(record: dict[str, Any]) -> None:
        shown = [*AIM, "recall_niche@20", *(f"cosine_{name}" for name in AIM)]
        values = {name: round(record["valid"][name], 5) for name in shown}
        clock = {"minutes": (time.perf_counter() - begin) / 60, "cpu_minutes": (time.process_time() - cpu) / 60}
        rounded = {name: round(value, 2) for name, value in clock.items()}
        records.append({"epoch": round(record["epoch"]), **rounded, "loss": round(record["loss"], 4), **values})
        show(records[-1])
        with out.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")

    out.parent.mkdir(exist_ok=True)
    out.unlink(missing_ok=True)
    trainer = Trainer(trained, train, 0, settings, judge)
    trainer.run(
        on_step=lambda position: set_rate(trainer, LR * (1 - position.step / trainer.steps)), on_evaluation=note
    )
    return records


def set_rate(trainer: Trainer, lr: float) -> None:
    """Learning rate of the steps to come; the loop itself knows one rate only."""
    dense = trainer._optimizer._dense
    for group in dense.param_groups if dense else ():
        group["lr"] = lr


def show(record: dict[str, Any]) -> None:
    print(
        f"epoch {record['epoch']:>4}  {record['minutes']:6.1f} min  {record['cpu_minutes']:6.1f} CPU min  "
        f"loss {record['loss']:.4f}  Recall@20 {record['recall@20']:.4f}  NDCG@20 {record['ndcg@20']:.4f}  "
        f"(by cosine {record['cosine_recall@20']:.4f}, {record['cosine_ndcg@20']:.4f})",
        flush=True,
    )


def check_evaluation(parts: split.Parts) -> None:
    """The most popular items must score what has been published for them."""
    popularity = parts.train.item_counts.astype(np.float32)[:, None]
    values = evaluate(
        DotScores(np.ones((len(parts.train.users), 1), np.float32), popularity), parts.test, parts.train
    ).values
    found = {name: round(values[name], 4) for name in POPULAR}
    print(f"most popular items: Recall@20 {found['recall@20']}, NDCG@20 {found['ndcg@20']}")
    if found != POPULAR:
        raise SystemExit(f"expected {POPULAR}: this is not the published split")


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Both metrics by time, with the published level and the aim."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    minutes = [record["minutes"] for record in records]
    for name, label, colour in (("recall@20", "Recall@20", NICHE), ("ndcg@20", "NDCG@20", HEAD)):
        values = [record[name] for record in records]
        axes.plot(minutes, values, "o-", color=colour, markersize=4)
        axes.annotate(
            f"{label} {values[-1]:.4f}", (minutes[-1], values[-1]), (6, 0), textcoords="offset points", color=colour
        )
        cosine = [record[f"cosine_{name}"] for record in records]
        axes.plot(minutes, cosine, ".-", color=colour, linewidth=1, alpha=0.6)
        axes.annotate(
            f"by cosine {cosine[-1]:.4f}", (minutes[-1], cosine[-1]), (6, -3), textcoords="offset points", color=colour
        )
        for level, style, text in ((PUBLISHED[name], ":", "published"), (AIM[name], "--", "aim")):
            axes.axhline(level, color=colour, linestyle=style, linewidth=1, alpha=0.7)
            axes.annotate(f"{text} {level:.3f}", (0, level), (2, 2), textcoords="offset points", color=GREY, fontsize=8)
    axes.set(xlabel="minutes", ylabel="on the published test part", xlim=(0, 1.22 * max(minutes)))
    axes.set_title("LightGCN on Gowalla's published split, by cos · length^¼ and by cosine alone", loc="left")
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = os.environ.get("ICPE_DATA", Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default), help="holds gowalla/train.txt")
    parser.add_argument("--valid", action="store_true", help="hold out a tenth of the training pairs; no test")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw the last run's curve and do nothing else")
    options = parser.parse_args()
    out = OUT / ("gowalla-valid.jsonl" if options.valid else "gowalla.jsonl")
    if options.draw:
        draw([json.loads(line) for line in out.read_text().splitlines()], options.draw)
        return
    parts = split.given(options.folder / "gowalla" / "train.txt", test=options.folder / "gowalla" / "test.txt")
    check_evaluation(parts)
    print(f"{torch.get_num_threads()} threads; {method().settings.as_dict()}, {method().backbone.settings.as_dict()}")
    train, held = parts.train, parts.test
    if options.valid:
        tenth = np.random.default_rng(123).random(len(train)) < 0.1
        train, held = train.keep(~tenth), train.keep(tenth)
    last = run(train, held, out)[-1]
    for name, aim in AIM.items() if not options.valid else ():
        print(f"{name}: {last[name]:.4f}, aim {aim} {'reached' if last[name] >= aim else 'missed'}")


if __name__ == "__main__":
    main()
