"""Names of settings that version 0.1 used, so that its folders still load and resume."""

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


def renamed(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a method under their present names.

    Example:
        >>> renamed("penalty", {"c": 0.7, "loss": "bce"})
        {'strength': 0.7, 'loss': 'bce'}
    """
    names = _RENAMED.get(method, {})
    return {names.get(name, name): value for name, value in settings.items()}
