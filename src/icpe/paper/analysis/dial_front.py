"""What the dials that need no training do to the lists."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from icpe.errors import ConfigError
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.sampled_loss import SampledLoss
from icpe.metrics import evaluate_lists
from icpe.paper.analysis.fronts import dominated
from icpe.paper.analysis.logits import method_of
from icpe.ranking import top_n
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.recommender import Model
from icpe.split import Parts

METRICS = ("ndcg@20", "apt@20", "coverage@20")


def dial_front(model: Model, parts: Parts, values: Sequence[float], kind: Literal["beta", "penalty"]) -> pl.DataFrame:
    """Metrics on the test part for each value of a dial. Training and validation items are hidden.

    Args:
        model: trained model.
        parts: split of the model.
        values: values of β, or of c in score − c·log popularity, in the same unit as in the method ``penalty``.
        kind: which dial to turn.

    Returns:
        Frame ``value, ndcg@20, apt@20, coverage@20, dominated``. A row is dominated by its NDCG and APT.

    Raises:
        ConfigError: there is no such dial, or it does not have the value.
    """
    users = np.flatnonzero(parts.test.user_counts).astype(np.int32)
    depth = min(20, len(parts.train.items))
    rows = []
    for value in values:
        table = _adjusted_scores(model, value, kind)
        lists = top_n(table, users, depth, hide=[parts.train, parts.valid])
        found = evaluate_lists(lists, parts.test, parts.train, n=[depth]).values
        rows.append({"value": float(value), **{name: found[f"{name.split('@')[0]}@{depth}"] for name in METRICS}})
    frame = pl.DataFrame(rows)
    return frame.with_columns(pl.Series("dominated", dominated(frame.select("ndcg@20", "apt@20").to_numpy())))


def _adjusted_scores(model: Model, value: float, kind: Literal["beta", "penalty"]) -> ScoreTable:
    """Scores of the model with the dial at a value."""
    if kind == "beta":
        return model.adjusted(beta=float(value)).scores
    if kind != "penalty":
        raise ConfigError(f"kind is {kind!r}; expected 'beta' or 'penalty'")
    method = method_of(model)
    unit = method.score_unit if isinstance(method, SampledLoss) else 1.0
    return with_bias(model.scores, -np.float32(value * unit) * log_popularity(model.log).numpy())
