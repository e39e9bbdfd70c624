"""What earlier versions did differently, so that their folders still load and resume.

Version 0.1 had other names for some settings and no dial. Its models were trained, stopped and ranked without one.
"""

from collections.abc import Mapping
from typing import Any

_RENAMED: dict[str, dict[str, str]] = {
    "normal": {"length": "norm_power"},
    "icpe": {"in_batch": "batch_negatives", "kappa": "strength"},
    "bc_loss": {"in_batch": "batch_negatives", "score": "rank_by", "weight": "bias_weight"},
    "causpref": {
        "ranking": "ranking_weight",
        "reconstruction": "reconstruction_weight",
        "eta": "acyclicity_weight",
        "sparsity": "item_sparsity",
        "map_sparsity": "user_sparsity",
        "dense_lr": "map_lr",
        "width": "encoder_width",
    },
    "cpr": {"k_max": "max_pairs", "k_only": "only_max_pairs", "rate": "oversampling"},
    "dice": {
        "a": "interest_weight",
        "b": "conformity_weight",
        "kappa": "discrepancy_weight",
        "infer": "rank_by",
        "pool": "min_candidates",
        "dcor_rows": "discrepancy_rows",
    },
    "in_batch": {"correction": "strength"},
    "invpref": {
        "every": "reassign_every",
        "alpha": "reversal",
        "invariant": "invariant_weight",
        "aware": "environment_weight",
        "adversary": "classifier_weight",
        "weighs": "weights_on",
        "squares": "square_weight",
        "sizes": "absolute_weight",
    },
    "ips": {"gamma": "propensity_power", "clip_pct": "clip_percentile", "norm": "divide_by"},
    "logit_adjustment": {"kappa": "strength"},
    "macr": {"alpha": "item_weight", "beta": "user_weight", "c": "strength"},
    "pd": {"gamma": "popularity_power", "inject": "ranking_power"},
    "penalty": {"c": "strength"},
    "relmf": {"gamma": "propensity_power", "eps": "min_propensity"},
    "ubpr": {"gamma": "propensity_power", "beta": "negative_loss_limit"},
}


# What applied in earlier versions where a setting was not given and the default has changed since.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "icpe": {
        "loss": "softmax",
        "strength": 0.85,
        "shrink": 0.0,
        "temperature": 0.2,
        "cooling": 1.0,
        "peers": 0,
        "beta": 0.0,
    }
}
_ALWAYS_WRITTEN = {"epochs", "batch_size", "lr", "patience", "device"}  # in the section [train] of every run


def renamed(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a method under their present names.

    Some methods had another setting with the name ``beta``, which is the dial today. It is taken for the old one only
    next to another old name. Version 0.1 wrote all settings into its files, so this is the case in each of them.

    Example:
        >>> renamed("penalty", {"c": 0.7, "loss": "bce"})
        {'strength': 0.7, 'loss': 'bce'}
        >>> renamed("ubpr", {"gamma": 0.5, "beta": 0.1})
        {'propensity_power': 0.5, 'negative_loss_limit': 0.1}
        >>> renamed("ubpr", {"propensity_power": 0.5, "beta": 0.1})
        {'propensity_power': 0.5, 'beta': 0.1}
    """
    names = _RENAMED.get(method, {})
    if not any(name in settings for name in names if name != "beta"):
        return dict(settings)
    return {names.get(name, name): value for name, value in settings.items()}


def is_earlier(train: Any) -> bool:
    """Return whether a version without the dial wrote this section ``train`` of a run.

    A run writes all settings of the loop, and the present version always writes a goal. A file that somebody has
    written by hand rarely has all of them, and a missing goal then means the present default.

    Example:
        >>> is_earlier({"epochs": 4, "batch_size": 512, "lr": 0.004, "patience": 5, "device": "cpu"})
        True
        >>> is_earlier({"epochs": 4})
        False
    """
    return isinstance(train, dict) and "goal" not in train and train.keys() >= _ALWAYS_WRITTEN


def with_earlier_defaults(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a run with the values that applied in earlier versions where nothing is given.

    The dial is at rest. A learned propensity of ICPE had no part that is proportional to log popularity, whatever its
    strength was.

    Args:
        sections: sections by name. Only ``method`` and ``train`` change; settings have their present names.

    Example:
        >>> found = with_earlier_defaults({"method": {"name": "icpe", "strength": 0.85}, "train": {"epochs": 4}})
        >>> found["method"]["strength"], found["method"]["cooling"], found["train"]
        (0.0, 1.0, {'goal': 'none', 'epochs': 4})
    """
    given = sections.get("method", {})
    method = {**_DEFAULTS.get(given.get("name"), {}), **given}
    if method.get("name") == "icpe" and method.get("propensity", "learned") == "learned":
        method["strength"] = 0.0
    return {**sections, "method": method, "train": {"goal": "none", **sections.get("train", {})}}


def upgraded(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a run, which any version wrote, as the present version would have written them.

    Args:
        sections: the content of ``config.toml``, or the identity of a checkpoint.
    """
    found = dict(sections)
    method = found.get("method")
    if isinstance(method, dict) and "name" in method:
        found["method"] = renamed(method["name"], method)
    return with_earlier_defaults(found) if is_earlier(found.get("train")) else found
