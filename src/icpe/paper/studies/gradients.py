"""Figure 2: gradients of head and niche items after one epoch."""

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.paper.analysis.gradients import conflicts, first_epoch, item_gradients
from icpe.paper.analysis.influence import power_fit
from icpe.paper.finding import Claim, Finding
from icpe.paper.reproduction import BACKBONES, Reproduction
from icpe.paper.studies._configs import normal_config

_CONFLICT = -0.05  # cosines above this value are practically orthogonal
_CONFLICTING_SHARE = 0.05  # share of the niche items that must conflict for the claim to hold
_MUCH_LARGER = 1.5


def gradients(reproduction: Reproduction) -> Finding:
    """Figure 2: gradient norms by popularity, and how often niche gradients conflict with a head gradient."""
    backbone, train = reproduction.main_backbone, reproduction.parts.train
    reproduction.stage(f"one epoch of {BACKBONES[backbone]}")
    method = first_epoch(normal_config(reproduction, backbone), train)
    reproduction.stage("gradients of items")
    norms = item_gradients(method, train, most=200 if reproduction.quick else 2000)
    found = conflicts(method, train, niche=50 if reproduction.quick else 300, rng=reproduction.seeds[0])
    positive = norms.filter(pl.col("gradient_norm") > 0)
    fit = power_fit(positive["popularity"].to_numpy(), positive["gradient_norm"].to_numpy())
    head, niche = (np.median(norms.filter(head=head)["gradient_norm"].to_numpy()) for head in (True, False))
    ratio = float(head / niche) if niche else float("inf")
    cosine = found.niche["cosine"].to_numpy()
    conflicting = float((cosine < _CONFLICT).mean())
    claims = [
        Claim(
            "gradients of head items are much larger than those of niche items.",
            f"the median norm of head items is {ratio:.1f} times that of niche items; the norm grows as popularity to "
            f"the power {fit.slope:.2f} ({fit.low:.2f} to {fit.high:.2f}).",
            ratio > _MUCH_LARGER and fit.low > 0,
        ),
        Claim(
            "gradients of niche items conflict with those of head items.",
            f"{found.share_below_zero:.0%} of {len(cosine)} niche items have a negative cosine with item "
            f"{found.head_item}, {conflicting:.0%} have one below {_CONFLICT}; the smallest is {cosine.min():.3f}, the "
            f"median {float(np.median(cosine)):.3f}.",
            conflicting >= _CONFLICTING_SHARE,
        ),
    ]
    frames = {
        "gradients": norms,
        "conflicts": found.niche,
        "arrows": found.arrows.with_columns(pl.col(col.ITEM).cast(pl.String)),
    }
    title = f"Gradients of items after one epoch of {BACKBONES[backbone]} (paper Fig. 2)"
    notes = [f"The two directions of the arrows contain {sum(found.explained):.0%} of the squared lengths."]
    objects = {"conflicts": found}
    return Finding("gradients", title, claims, reproduction.caption(), frames, notes=notes, objects=objects)
