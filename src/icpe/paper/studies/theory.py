"""Section 4: the exponent of gradient influence, and the terms of the generalisation bound."""

from functools import partial

import polars as pl

from icpe.paper.analysis.bound import bound_terms, trajectory
from icpe.paper.analysis.influence import Influence, influence_exponent
from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, PAPER, Reproduction
from icpe.paper.studies._configs import normal_config, shortened
from icpe.runs.config import RunConfig

_PLACES = {"rows": "on the users' rows", "common": "on what all users share", "shared": "on both together"}


def theory(reproduction: Reproduction) -> Finding:
    """Section 4: exponents of influence on each backbone, and the bound against the number of clusters."""
    points, influence = [], {}
    for backbone in reproduction.backbones:
        found = _influence(reproduction, backbone)
        influence[BACKBONES[backbone]] = found
        points.append(found.points.with_columns(pl.lit(backbone).alias("backbone")))
    terms = _bound(reproduction)
    fits = pl.concat(found.fits for found in influence.values())
    claims = [_exponent_claim(fits, backbone) for backbone in reproduction.backbones]
    bounds = terms["bound"].to_list()
    claims.append(
        Claim(
            "the bound becomes tighter with more clusters.",
            f"the sum of the three estimated terms goes from {bounds[0]:.3g} at K = {terms['clusters'][0]} to "
            f"{bounds[-1]:.3g} at K = {terms['clusters'][-1]}.",
            bounds[-1] < bounds[0],
        )
    )
    notes = ["The terms are estimates over the states of one run. docs/theory.md explains how they are computed."]
    frames = {"theory": fits, "points": pl.concat(points), "bound": terms}
    title = "Influence of popularity on gradients, and the bound (paper Section 4)"
    objects = {"influence": influence}
    return Finding("theory", title, claims, reproduction.caption(), frames, notes=notes, objects=objects)


def _influence(reproduction: Reproduction, backbone: str) -> Influence:
    times, items = (2, 60) if reproduction.quick else (10, 200)
    config = normal_config(reproduction, backbone)

    def make() -> dict[str, pl.DataFrame]:
        reproduction.stage(f"gradient influence on {BACKBONES[backbone]}")
        found = influence_exponent(config.expanded().backbone, reproduction.parts.train, times, items)
        return {"points": found.points, "fits": found.fits}

    return Influence(**reproduction.cached(f"influence-{backbone}", config, make, initialisations=times, items=items))


def _bound(reproduction: Reproduction) -> pl.DataFrame:
    backbone = "mf" if "mf" in reproduction.backbones else reproduction.main_backbone
    config = shortened(reproduction, reproduction.paper_cell(PAPER, backbone).config)
    checkpoints, most = (3, 3) if reproduction.quick else (10, 8)
    make = partial(_compute_bound, reproduction, config, checkpoints, most)
    return reproduction.cached("bound", config, make, checkpoints=checkpoints, clusters=most)["bound"]


def _compute_bound(
    reproduction: Reproduction, config: RunConfig, checkpoints: int, most: int
) -> dict[str, pl.DataFrame]:
    reproduction.stage("terms of the bound")
    run = trajectory(config, reproduction.parts.train, checkpoints=checkpoints)
    return {"bound": bound_terms(run, range(1, most + 1))}


def _exponent_claim(fits: pl.DataFrame, backbone: str) -> Claim:
    rows = {row["place"]: row for row in fits.filter(backbone=backbone).iter_rows(named=True)}
    seen = "; ".join(
        f"{row['slope']:.2f} ({row['low']:.2f} to {row['high']:.2f}) {_PLACES[place]}" for place, row in rows.items()
    )
    shared = rows["shared"]
    if backbone == "lightgcn":
        said, held = "at least 1.5 with message passing", shared["high"] >= 1.5
    else:
        said = "1 without message passing"
        held = shared["low"] <= 1.0 <= shared["high"] or abs(shared["slope"] - 1) < 0.1
    return Claim(
        f"influence grows as a power of popularity, {said} ({BACKBONES[backbone]}).", f"exponents {seen}.", bool(held)
    )
