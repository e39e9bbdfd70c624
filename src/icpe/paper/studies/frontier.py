"""Figure 9a: the Pareto front of head and niche loss, and fronts that need no training."""

from functools import partial

import numpy as np
import polars as pl

from icpe.paper.analysis.dial_front import dial_front
from icpe.paper.analysis.fronts import hypervolumes
from icpe.paper.analysis.loss_front import loss_front, reference_points
from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction
from icpe.paper.studies._configs import epochs, normal_config
from icpe.runs.config import RunConfig

_BETAS = (-0.2, -0.1, 0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_PENALTIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def frontier(reproduction: Reproduction) -> Finding:
    """Figure 9a: the front of head and niche loss, ICPE's point, and the fronts of two dials."""
    fronts, points = [], []
    preferences, backbones = (3, reproduction.backbones[:1]) if reproduction.quick else (8, reproduction.backbones)
    for backbone in backbones:
        config = normal_config(reproduction, backbone)
        make = partial(_train_fronts, reproduction, config, preferences)
        found = reproduction.cached(f"front-{backbone}", config, make, preferences=preferences)
        name = pl.lit(backbone).alias("backbone")
        fronts.append(found["front"].with_columns(name))
        points.append(found["points"].with_columns(name))
    front, others = pl.concat(fronts), pl.concat(points)
    frames, notes = {"frontier": front, "points": others}, []
    dials = _dial_fronts(reproduction)
    if dials:
        frames["dials"] = pl.concat(frame.with_columns(pl.lit(label).alias("dial")) for label, frame in dials.items())
        volumes = hypervolumes({label: one.select("ndcg@20", "apt@20").to_numpy() for label, one in dials.items()})
        listed = ", ".join(f"{name} {volume:.4f}" for name, volume in volumes.items())
        notes.append(
            "Hypervolume of the fronts of the dials in (NDCG, APT), above the worst value of each axis; larger is "
            f"better: {listed}."
        )
    caption = (
        f"{reproduction.caption()} Losses are means over training pairs after {epochs(reproduction)} epochs without "
        "early stopping."
    )
    claims = [claim for backbone in backbones for claim in _claims(front, others, backbone)]
    title = "Pareto front of head and niche loss (paper Fig. 9a)"
    return Finding("frontier", title, claims, caption, frames, notes=notes)


def _train_fronts(reproduction: Reproduction, config: RunConfig, preferences: int) -> dict[str, pl.DataFrame]:
    reproduction.stage(f"Pareto MTL on {BACKBONES[config.backbone['name']]}")
    methods = {"Normal": {"name": "normal"}, PAPER: {"name": "icpe", "preset": "paper"}}
    return {
        "front": loss_front(config, reproduction.parts, preferences),
        "points": reference_points(config, reproduction.parts, methods),
    }


def _dial_fronts(reproduction: Reproduction) -> dict[str, pl.DataFrame]:
    """Fronts of β and of the popularity penalty on the first backbone, by label."""
    backbone = reproduction.backbones[0]
    icpe = reproduction.cell("ICPE", "icpe", backbone)
    normal = reproduction.cell("Normal", "normal", backbone)
    grid = reproduction.run([normal, icpe])
    reproduction.stage("fronts of the dials")
    every, found = 2 if reproduction.quick else 1, {}
    model = reproduction.model(grid, icpe, reproduction.seeds[0])
    if model is not None:
        found["ICPE, β"] = dial_front(model, reproduction.parts, _BETAS[::every], "beta")
    model = reproduction.model(grid, normal, reproduction.seeds[0])
    if model is not None:
        found["Normal, penalty c"] = dial_front(model, reproduction.parts, _PENALTIES[::every], "penalty")
    return found


def _claims(front: pl.DataFrame, points: pl.DataFrame, backbone: str) -> list[Claim]:
    """Claims on the front of a backbone. Losses are compared after the shift of scores that is best for Normal."""
    ends = front.filter(backbone=backbone)
    ours = points.filter(backbone=backbone, label=PAPER)
    if ours.is_empty():
        return []
    head, niche = ours["head_levelled"].item(), ours["niche_levelled"].item()
    across, up = pl.col("head_levelled"), pl.col("niche_levelled")
    better, worse = ends.filter((across <= head) & (up <= niche)), ends.filter((across > head) & (up > niche))
    low, high = (float(edge) for edge in np.quantile(ends["head_levelled"].to_numpy(), (0, 1)))
    return [
        Claim(
            "no point of the front is better than another in both losses.",
            f"{BACKBONES[backbone]}: {ends.height - int(ends['dominated'].sum())} of {ends.height} end points of "
            f"Pareto MTL are not dominated; {int(ends['feasible'].sum())} satisfy their preference.",
            not ends["dominated"].any(),
        ),
        Claim(
            "ICPE's point lies in the middle of the front and has lower values of both losses.",
            f"{BACKBONES[backbone]}, after shifting scores: head loss {head:.3f} (front {low:.3f} to {high:.3f}), "
            f"niche loss {niche:.3f}; better in both losses than {worse.height} of {ends.height} end points, worse in "
            f"both than {better.height}.",
            better.is_empty() and worse.height > 0 and low < head < high,
        ),
    ]
