"""Writing the vectors of a model, from which lists are made without torch.

Most vectors are a table of ``model.safetensors``, or its rows divided by their lengths. The file then names the table
and holds one number per row instead of the vectors.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor

from icpe.files.atomic import Writer
from icpe.ranking.tables import DotScores
from icpe.recommender.model import Model
from icpe.types import FloatArray

_LEAST_LENGTH = 1e-12  # as in torch.nn.functional.normalize


@dataclass(frozen=True, eq=False)
class VectorFile:
    """Content of a file of vectors.

    Attributes:
        arrays: ``direction``, ``bias`` if the scores have one, and ``user`` and ``item``: the vectors, or the lengths
            by which to divide the rows of a saved table. Vectors that are a saved table are missing.
        tables: the names of the saved tables, by ``user`` and ``item``.
    """

    arrays: dict[str, FloatArray]
    tables: dict[str, str]


def vectors_of(model: Model, tensors: dict[str, Tensor]) -> VectorFile | None:
    """Return the vectors of a model, or None if its scores are not inner products.

    Args:
        model: the trained model.
        tensors: the parameters that are saved beside the vectors.
    """
    table = model.ranker.scores(beta=0.0)
    if not isinstance(table, DotScores):
        return None
    found = VectorFile({"direction": model.ranker.direction}, {})
    if table.item_bias is not None:
        found.arrays["bias"] = table.item_bias
    for side, vectors in (("user", table.user_vectors), ("item", table.item_vectors)):
        _add(found, side, torch.from_numpy(vectors), tensors)
    return found


def _add(found: VectorFile, side: str, vectors: Tensor, tensors: dict[str, Tensor]) -> None:
    """Add the vectors of users or items in the shortest form that gives the same bits."""
    for name, saved in tensors.items():
        if saved.shape != vectors.shape or saved.dtype != vectors.dtype:
            continue
        if torch.equal(saved, vectors):
            found.tables[side] = name
            return
        lengths = saved.norm(dim=-1, keepdim=True).clamp_min(_LEAST_LENGTH)
        if torch.equal(saved / lengths, vectors):
            found.tables[side], found.arrays[side] = name, lengths.numpy()
            return
    found.arrays[side] = vectors.numpy()


def vectors_writer(found: VectorFile, identity: dict[str, str]) -> Writer:
    """Return a function that writes the file."""
    content = {name: np.ascontiguousarray(value) for name, value in found.arrays.items()}
    # One entry only: safetensors writes several entries in random order, so the file would not be reproducible.
    record = {"vectors": json.dumps({**identity, "tables": found.tables}, sort_keys=True)}
    return lambda path: save_file(content, path, record)
