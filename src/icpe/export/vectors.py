"""Vectors of users and items as Parquet and safetensors, for vector databases and SQL."""

from pathlib import Path

import numpy as np
import polars as pl
from safetensors.numpy import save_file

from icpe.export.dial_vectors import DialVectors
from icpe.export.folder import Export, check_folder, write_export
from icpe.export.parts import COUNT, HEAD, ID, OFFSET, SEEN, VECTOR, item_table, parquet_writer, user_table
from icpe.recommender.model import Model
from icpe.types import FloatArray

USERS, ITEMS, TENSORS = "users.parquet", "items.parquet", "vectors.safetensors"


def to_vectors(model: Model, folder: Path | str, *, force: bool = False) -> Export:
    """Write the vectors of users and items into a folder, and return what was written.

    ``items.parquet`` has the columns ``id, vector, offset, count, head`` and ``users.parquet`` has ``id, vector, count,
    seen``, where ``seen`` lists the ids of the user's training items. ``vectors.safetensors`` holds the same numbers
    with rows in the same order. The dial is the last coordinate, see :class:`~icpe.export.dial_vectors.DialVectors`.

    Args:
        model: the trained model.
        folder: the folder to create.
        force: whether to replace an export in the folder.

    Raises:
        ConfigError: the model has no vectors, or the folder is not empty.
        IcpeError: the model has diverged, or a file cannot be written.
    """
    target = check_folder(folder, force)
    vectors = DialVectors.of(model)
    items = with_vectors(item_table(model, vectors.dial.direction), vectors.items)
    users = with_vectors(user_table(model, model.log.items), vectors.users)
    arrays = {
        "users": vectors.users,
        "items": vectors.items,
        OFFSET: vectors.dial.direction,
        COUNT: items[COUNT].to_numpy(),
        HEAD: items[HEAD].to_numpy(),
    }
    writers = {
        USERS: parquet_writer(users.select(ID, VECTOR, COUNT, SEEN)),
        ITEMS: parquet_writer(items.select(ID, VECTOR, OFFSET, COUNT, HEAD)),
        TENSORS: lambda path: save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, path),
    }
    return write_export(model, target, "vectors", writers, vectors.described())


def with_vectors(frame: pl.DataFrame, vectors: FloatArray) -> pl.DataFrame:
    """Return a table of users or items with their vectors, float32 [rows, width]."""
    return frame.with_columns(pl.Series(VECTOR, vectors))
