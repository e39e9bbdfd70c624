"""Figure 9a, Figure 2 and Section 4: computations of their own, on the split of the first seed."""

from functools import partial

import numpy as np
import polars as pl

from icpe.paper.finding import Claim, Finding
from icpe.paper.frontier import dial_front, hypervolumes, loss_front, reference_points
from icpe.paper.gradients import conflicts, first_epoch, item_gradients
from icpe.paper.setting import BACKBONES, PAPER, Setting
from icpe.paper.theory import Influence, bound_terms, influence_exponent, power_fit, trajectory
from icpe.runs.config import RunConfig

_BETAS = (-0.2, -0.1, 0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
_PENALTIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_CONFLICT = -0.05  # cosines above it are at right angles for all that matters
_EPOCHS = 30  # of each training of the front, which has no early stopping


def frontier(setting: Setting) -> Finding:
    """Figure 9a: the front of head and niche loss, ICPE's point, and the fronts of the dials."""
    fronts, points = [], []
    preferences, backbones = (3, setting.backbones[:1]) if setting.quick else (8, setting.backbones)
    for backbone in backbones:
        config = _normal(setting, backbone)
        make = partial(_fronts, setting, config, preferences)
        found = setting.kept(f"front-{backbone}", config, make, preferences=preferences)
        name = pl.lit(backbone).alias("backbone")
        fronts.append(found["front"].with_columns(name))
        points.append(found["points"].with_columns(name))
    front, others = pl.concat(fronts), pl.concat(points)
    dials, volumes = _dials(setting)
    claims = [claim for backbone in backbones for claim in _front_claims(front, others, backbone)]
    notes = (
        [
            "Fronts of the dials in (NDCG, APT), larger is better; hypervolume over the worst value of either axis: "
            + ", ".join(f"{name} {volume:.4f}" for name, volume in volumes.items())
            + "."
        ]
        if volumes
        else []
    )
    frames = {"frontier": front, "points": others, **({"dials": dials} if dials is not None else {})}
    trained = f"after {_epochs(setting)} epochs without early stopping"
    caption = f"{setting.caption()} Losses are means over training pairs, {trained}."
    return Finding(
        "frontier", "Pareto front of head and niche loss (paper Fig. 9a)", claims, caption, frames, notes=notes
    )


def gradients(setting: Setting) -> Finding:
    """Figure 2: how hard items pull, and how often niche items pull against a head item."""
    backbone = setting.graph
    setting.stage(f"one epoch of {BACKBONES[backbone]}")
    train = setting.parts.train
    method = first_epoch(_normal(setting, backbone), train)
    setting.stage("gradients of items")
    pulls = item_gradients(method, train, most=200 if setting.quick else 2000)
    found = conflicts(method, train, niche=50 if setting.quick else 300, rng=setting.seeds[0])
    cosine = found.niche["cosine"].to_numpy()
    known = pulls.filter(pl.col("gradient_norm") > 0)
    fit = power_fit(known["popularity"].to_numpy(), known["gradient_norm"].to_numpy())
    of_head, of_niche = (np.median(pulls.filter(head=head)["gradient_norm"].to_numpy()) for head in (True, False))
    ratio = float(of_head / of_niche) if of_niche else float("inf")
    claims = [
        Claim(
            "gradients of head items are much larger than those of niche items.",
            f"the median norm of head items is {ratio:.1f} times that of niche items; it grows as popularity to the "
            f"power {fit.slope:.2f} ({fit.low:.2f} to {fit.high:.2f}).",
            ratio > 1.5 and fit.low > 0,
        ),
        Claim(
            "gradients of niche items conflict with those of head items.",
            f"{found.share_below_zero:.0%} of {len(cosine)} niche items have a negative cosine with item "
            f"{found.head_item}, {float((cosine < _CONFLICT).mean()):.0%} one below {_CONFLICT}; the smallest is "
            f"{cosine.min():.3f}, the median {float(np.median(cosine)):.3f}.",
            bool((cosine < _CONFLICT).mean() >= 0.05),
        ),
    ]
    title = f"Gradients of items after one epoch of {BACKBONES[backbone]} (paper Fig. 2)"
    frames = {
        "gradients": pulls,
        "conflicts": found.niche,
        "arrows": found.arrows.with_columns(pl.col("item_id").cast(pl.String)),
    }
    notes = [f"The two directions of the arrows hold {sum(found.explained):.0%} of the four vectors."]
    return Finding("gradients", title, claims, setting.caption(), frames, notes=notes, objects={"conflicts": found})


def theory(setting: Setting) -> Finding:
    """Section 4: the exponent of gradient influence, and the terms of the generalisation bound."""
    fits, points, influence = [], [], {}
    for backbone in setting.backbones:
        times, items = (2, 60) if setting.quick else (10, 200)
        config = _normal(setting, backbone)
        make = partial(_influence, setting, config, times, items)
        found = Influence(**setting.kept(f"influence-{backbone}", config, make, initialisations=times, items=items))
        influence[BACKBONES[backbone]] = found
        fits.append(found.fits)
        points.append(found.points.with_columns(pl.lit(backbone).alias("backbone")))
    config = _first(setting, setting.paper_cell(PAPER, "mf" if "mf" in setting.backbones else setting.graph).config)
    config, checkpoints, most = _short(setting, config), *((3, 3) if setting.quick else (10, 8))
    make = partial(_bound, setting, config, checkpoints, most)
    terms = setting.kept("bound", config, make, checkpoints=checkpoints, clusters=most)["bound"]
    table = pl.concat(fits)
    claims = [_exponent_claim(table, backbone) for backbone in setting.backbones]
    bounds = terms["bound"].to_list()
    claims.append(
        Claim(
            "the bound becomes tighter with more clusters.",
            f"the sum of the three estimated terms goes from {bounds[0]:.3g} at K = {terms['clusters'][0]} to "
            f"{bounds[-1]:.3g} at K = {terms['clusters'][-1]}.",
            bounds[-1] < bounds[0],
        )
    )
    notes = ["The terms are estimates over the states of one run; docs/theory.md says how they are made."]
    tables = {"theory": table, "points": pl.concat(points), "bound": terms}
    title = "Influence of popularity on gradients, and the bound (paper Section 4)"
    return Finding("theory", title, claims, setting.caption(), tables, notes=notes, objects={"influence": influence})


def _fronts(setting: Setting, config: RunConfig, preferences: int) -> dict[str, pl.DataFrame]:
    setting.stage(f"Pareto MTL on {BACKBONES[config.backbone['name']]}")
    methods = {"Normal": {"name": "normal"}, PAPER: {"name": "icpe", "preset": "paper"}}
    return {
        "front": loss_front(config, setting.parts, preferences),
        "points": reference_points(config, setting.parts, methods),
    }


def _influence(setting: Setting, config: RunConfig, times: int, items: int) -> dict[str, pl.DataFrame]:
    backbone = config.expanded().backbone
    setting.stage(f"gradient influence on {BACKBONES[backbone['name']]}")
    found = influence_exponent(backbone, setting.parts.train, times, items)
    return {"points": found.points, "fits": found.fits}


def _bound(setting: Setting, config: RunConfig, checkpoints: int, most: int) -> dict[str, pl.DataFrame]:
    setting.stage("terms of the bound")
    run = trajectory(config, setting.parts.train, checkpoints=checkpoints)
    return {"bound": bound_terms(run, range(1, most + 1))}


def _dials(setting: Setting) -> tuple[pl.DataFrame | None, dict[str, float]]:
    """Fronts of β and of the penalty, on the first backbone."""
    backbone = setting.backbones[0]
    cells = {"normal": setting.cell("Normal", "normal", backbone), "icpe": setting.cell("ICPE", "icpe", backbone)}
    grid = setting.run(list(cells.values()))
    setting.stage("fronts of the dials")
    every = 2 if setting.quick else 1
    frames, fronts = [], {}
    for name, kind, values in (("icpe", "beta", _BETAS), ("normal", "penalty", _PENALTIES)):
        model = setting.model(grid, cells[name], setting.seeds[0])
        if model is None:
            continue
        front = dial_front(model, setting.parts, values[::every], kind)  # type: ignore[arg-type]
        label = {"beta": "ICPE, β", "penalty": "Normal, penalty c"}[kind]
        frames.append(front.with_columns(pl.lit(label).alias("dial")))
        fronts[label] = front.select("ndcg@20", "apt@20").to_numpy()
    return (pl.concat(frames) if frames else None), hypervolumes(fronts) if fronts else {}


def _front_claims(front: pl.DataFrame, points: pl.DataFrame, backbone: str) -> list[Claim]:
    """Losses are compared after the shift of all scores that is best for Normal's loss: a shift changes no list."""
    ends = front.filter(backbone=backbone)
    ours = points.filter(backbone=backbone, label=PAPER)
    if ours.is_empty():
        return []
    head, niche = ours["head_levelled"].item(), ours["niche_levelled"].item()
    across, up = pl.col("head_levelled"), pl.col("niche_levelled")
    below, beaten = ends.filter((across <= head) & (up <= niche)), ends.filter((across > head) & (up > niche))
    low, high = (float(edge) for edge in np.quantile(ends["head_levelled"].to_numpy(), (0, 1)))
    return [
        Claim(
            "no point of the front is better than another in both losses.",
            f"{BACKBONES[backbone]}: {ends.height - int(ends['dominated'].sum())} of {ends.height} end points of "
            f"Pareto MTL are not dominated; {int(ends['feasible'].sum())} lie where their preference asks.",
            not ends["dominated"].any(),
        ),
        Claim(
            "ICPE's point lies in the middle of the front and has less of both losses.",
            f"{BACKBONES[backbone]}, scores levelled: head loss {head:.3f} (front {low:.3f} to {high:.3f}), niche loss "
            f"{niche:.3f}; better in both than {beaten.height} of {ends.height} end points, worse in both than "
            f"{below.height}.",
            below.is_empty() and beaten.height > 0 and low < head < high,
        ),
    ]


def _exponent_claim(fits: pl.DataFrame, backbone: str) -> Claim:
    rows = {row["place"]: row for row in fits.filter(backbone=backbone).iter_rows(named=True)}
    graph = backbone == "lightgcn"
    seen = "; ".join(
        f"{row['slope']:.2f} ({row['low']:.2f} to {row['high']:.2f}) {_PLACES[place]}" for place, row in rows.items()
    )
    common = rows["shared"]
    held = common["high"] >= 1.5 if graph else common["low"] <= 1.0 <= common["high"] or abs(common["slope"] - 1) < 0.1
    said = "at least 1.5 with message passing" if graph else "1 without message passing"
    return Claim(
        f"influence grows as a power of popularity, {said} ({BACKBONES[backbone]}).", f"exponents {seen}.", bool(held)
    )


_PLACES = {"rows": "on the users' rows", "common": "on what all users share", "shared": "on both together"}


def _normal(setting: Setting, backbone: str) -> RunConfig:
    """Normal as it is tuned, with one negative by bce, and no longer than the front is trained."""
    cell = setting.paper_cell("", backbone)
    config = cell.config.updated("method", {"name": "normal"})
    plain = {key: value for key, value in config.method.items() if key == "name"}
    return _short(setting, _first(setting, RunConfig(config.data, config.split, config.backbone, plain, config.train)))


def _first(setting: Setting, config: RunConfig) -> RunConfig:
    return config.updated("train", {"seed": setting.seeds[0]})


def _epochs(setting: Setting) -> int:
    return min(_EPOCHS, int(setting.base.train.get("epochs", _EPOCHS)))


def _short(setting: Setting, config: RunConfig) -> RunConfig:
    return config.updated("train", {"epochs": _epochs(setting)})
