"""Metrics of a model on the validation and the test part, in the form of ``result.json``."""

import math
from typing import Any

from icpe.data.interactions import Interactions
from icpe.metrics import Evaluation
from icpe.metrics.balanced import warn_if_few
from icpe.recommender.evaluation import evaluate_part
from icpe.recommender.front import Front
from icpe.recommender.hidden import Part
from icpe.recommender.model import Model
from icpe.split import Parts

SHARES = (0.1, 0.2, 0.3, 0.4)  # niche shares at which fronts are compared


def measure(model: Model, parts: Parts, depths: list[int]) -> dict[str, dict[str, float | None]]:
    """Return the metrics on the validation and the test part, without parts that are empty.

    A metric that has nothing to average is None, because JSON has no NaN.
    """
    return {name: without_nan(found.values) for name, found in evaluations(model, parts, depths).items()}


def measure_with_bias(model: Model, parts: Parts, depths: list[int]) -> dict[str, Any]:
    """Return the metrics of :func:`measure` and of an audit, and under ``intervals`` their bounds for each part."""
    found = evaluations(model, parts, depths, bias=True)
    intervals = {name: one.intervals for name, one in found.items()}
    return {**{name: without_nan(one.values) for name, one in found.items()}, "intervals": intervals}


def evaluations(
    model: Model, parts: Parts, depths: list[int], per_user: bool = False, bias: bool = False
) -> dict[str, Evaluation]:
    """Return the evaluation of each part that is not empty. Only the test part can have values of every user.

    With ``bias``, the evaluations also have the metrics of an audit and intervals.

    A warning says if the last of them has too few pairs for the balanced metrics.
    """
    held = {name: part for name, part in _held_out(parts).items() if len(part)}
    found: dict[str, Evaluation] = {
        name: evaluate_part(model, parts, name, depths, per_user and name == "test", bias) for name in held
    }
    for name, part in list(held.items())[-1:]:
        warn_if_few(found[name].values["balanced_pairs"], len(part))
    return found


def _held_out(parts: Parts) -> dict[Part, Interactions]:
    return {"valid": parts.valid, "test": parts.test}


def without_nan(values: dict[str, float]) -> dict[str, float | None]:
    """Return the values with None instead of NaN, which JSON does not have."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def front_summary(front: Front) -> dict[str, float | None]:
    """Return the numbers that summarise a front, by name. They do not depend on the setting of the dial.

    ``hypervolume@n`` is the area below the curve of niche share and NDCG, ``balanced_hypervolume@n`` that of coverage
    and balanced NDCG. ``ndcg_at_0.2@n`` is the best NDCG with a niche share of at least 0.2, or None out of reach.
    """
    areas = {"hypervolume": front.hypervolume, "balanced_hypervolume": front.balanced_hypervolume}
    accuracies = {f"ndcg_at_{share:g}": front.ndcg_at(share) for share in SHARES}
    return {f"{name}@{front.n}": value for name, value in {**areas, **accuracies}.items()}
