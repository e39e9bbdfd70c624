"""Comparison of an ONNX graph with the model that it was made from."""

from pathlib import Path

import numpy as np

from icpe.errors import IcpeError
from icpe.extras import require
from icpe.ranking import top_n
from icpe.ranking.chunk import hidden_items
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.types import IntArray

_USERS, _N = 16, 20
_TOLERANCE = 1e-4  # relative to the largest score


def check_graph(model: Model, path: Path) -> None:
    """Run the graph in a file for some users and compare the scores of its lists with those of the model.

    Items with practically equal scores may change places, because sums are rounded in another order. The scores at
    each place of a list are the same.

    Raises:
        IcpeError: the scores differ.
    """
    runtime = require("onnxruntime", "onnx", "an ONNX graph")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only; warnings about the hardware do not concern this check
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = len(model.log.users)
    users = np.sort(stream(0, "graph").choice(known, min(_USERS, known), replace=False)).astype(np.int32)
    n = min(_N, len(model.log.items))
    inputs = {
        "user": users.astype(np.int64),
        "beta": np.full(len(users), model.beta, np.float32),
        "seen": seen_items(model, users),
        "n": np.array(n, np.int64),
    }
    _, found = session.run(["items", "scores"], inputs)
    expected = top_n(model.scores, users, n, hide=[model.log]).scores
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    if not np.allclose(found, expected, rtol=0, atol=_TOLERANCE * largest):
        raise IcpeError(
            "the exported graph gives other scores than the model, so nothing was exported. Please report this with "
            f"the versions of onnx and onnxruntime ({runtime.__version__})"
        )


def seen_items(model: Model, users: IntArray) -> IntArray:
    """Return the codes of the training items of users, int64 [users, most items], padded with -1."""
    starts, items = hidden_items([model.log], users)
    counts = np.diff(starts)
    seen = np.full((len(users), counts.max(initial=0)), -1, np.int64)
    seen[np.arange(seen.shape[1]) < counts[:, None]] = items
    return seen
