"""The recall of an approximate index: the share of the exact lists that it finds."""

from typing import Any

import numpy as np

from icpe.export.dial_vectors import DialVectors
from icpe.extras import require
from icpe.ranking import top_n
from icpe.recommender.front import SETTING
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.types import IntArray

_USERS = 500  # sampled users; the standard error of a recall of 0.95 is then at most 0.01


def measure_recall(
    model: Model, vectors: DialVectors, index: Any, labels: IntArray, n: int, users: int = _USERS
) -> dict[str, Any]:
    """Return the recall of an index at several settings of the dial, with the seen items of each user hidden.

    Args:
        model: the trained model, whose exact lists are the reference.
        vectors: its vectors.
        index: a Faiss index of the items.
        labels: labels of the items in the index, by code.
        n: length of the lists.
        users: number of users to sample.

    Returns:
        The size of the sample, and the recall at the setting of the model, at rest, and at the ends of the front.
    """
    known = len(model.log.users)
    sample = np.sort(stream(0, "recall").choice(known, min(users, known), replace=False)).astype(np.int32)
    found = [
        {SETTING: beta, f"recall@{n}": _recall(model.dial(beta=beta), vectors, index, labels, n, sample)}
        for beta in _settings(model)
    ]
    return {"users": len(sample), "at": found}


def _settings(model: Model) -> list[float]:
    """Return the setting of the model, and the others at which to measure."""
    others = {0.0}
    if model.has_front:
        settings = model.front()[SETTING]
        others |= {float(settings.min()), float(settings.max())}
    return [model.beta, *sorted(others - {model.beta})]


def _recall(model: Model, vectors: DialVectors, index: Any, labels: IntArray, n: int, sample: IntArray) -> float:
    faiss = require("faiss", "faiss", "a Faiss index")
    exact = top_n(model.scores, sample, n, hide=[model.log]).items
    inner = faiss.downcast_index(index.index)
    depth = inner.hnsw.efSearch
    shares = []
    for query, user, wanted in zip(vectors.at(model.beta, sample), sample, exact, strict=True):
        first, last = np.searchsorted(model.log.user, [user, user + 1])
        hidden = faiss.IDSelectorNot(faiss.IDSelectorBatch(labels[model.log.item[first:last]]))
        _, found = index.search(query[None], n, params=faiss.SearchParametersHNSW(sel=hidden, efSearch=depth))
        wanted = labels[wanted[wanted >= 0]]
        if len(wanted):
            shares.append(np.isin(wanted, found[0]).mean())
    return round(float(np.mean(shares)), 4) if shares else 1.0
