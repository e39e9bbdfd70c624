"""A Faiss index of the items, with the dial as a coordinate of the query."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from icpe.errors import ConfigError
from icpe.export.dial_vectors import DialVectors
from icpe.export.folder import Export, check_folder, write_export
from icpe.export.parts import COUNT, ID, SEEN, VECTOR, item_table, parquet_writer, user_table
from icpe.export.recall import measure_recall
from icpe.export.vectors import ITEMS, USERS, with_vectors
from icpe.extras import require
from icpe.recommender.model import Model

Index = Literal["flat", "hnsw"]
Progress = Callable[[int, int], None]

INDEX, LABEL = "index.faiss", "label"
FLAT_UP_TO = 200_000  # items; comparing a query with all of them takes about 2 ms on one core
_LINKS, _BUILD_DEPTH, _SEARCH_DEPTH = 32, 200, 128  # of HNSW
_AT_ONCE = 10_000  # items added between two reports of progress


def to_faiss(
    model: Model,
    folder: Path | str,
    *,
    index: Index | None = None,
    n: int = 20,
    force: bool = False,
    progress: Progress | None = None,
) -> Export:
    """Write a Faiss index of the items and the query vectors of the users, and return what was written.

    ``index.faiss`` is an ``IndexIDMap2`` for inner products. The labels that a search returns are the ids of the items
    if these are integers, and otherwise the column ``label`` of ``items.parquet``. ``users.parquet`` has the columns
    ``id, vector, count, seen``, where ``seen`` lists the labels of the user's training items.

    Args:
        model: the trained model.
        folder: the folder to create.
        index: ``"flat"`` compares a query with all items and is exact; ``"hnsw"`` searches a graph and misses a few.
            None takes ``"flat"`` up to 200,000 items.
        n: length of the lists for which the recall of ``"hnsw"`` is measured.
        force: whether to replace an export in the folder.
        progress: called with the number of items in the index and the number of all items.

    Raises:
        ConfigError: the model has no vectors, an argument is wrong, Faiss is missing, or the folder is not empty.
        IcpeError: the model has diverged, or a file cannot be written.
    """
    if index is not None and index not in get_args(Index):
        raise ConfigError(f"index is {index!r}; expected one of {', '.join(get_args(Index))}")
    target = check_folder(folder, force)
    faiss = require("faiss", "faiss", "a Faiss index")
    vectors = DialVectors.of(model)
    chosen = index or choose_index(len(vectors.items))
    labels = item_labels(model.log.items)
    built = _build(faiss, chosen, vectors, labels, progress)
    details: dict[str, Any] = {"index": chosen, "labels": "ids" if labels is model.log.items else "codes"}
    if chosen == "hnsw":
        details["recall"] = measure_recall(model, vectors, built, labels.to_numpy(), n)
    items = item_table(model, vectors.dial.direction)
    users = with_vectors(user_table(model, labels), vectors.users)
    writers = {
        INDEX: lambda path: faiss.write_index(built, str(path)),
        ITEMS: parquet_writer(items.select(labels.alias(LABEL), pl.all())),
        USERS: parquet_writer(users.select(ID, VECTOR, COUNT, SEEN)),
    }
    return write_export(model, target, "faiss", writers, {**vectors.described(), **details})


def choose_index(items: int) -> Index:
    """Return the kind of index for a number of items: exact search while it is fast.

    Example:
        >>> choose_index(200_000), choose_index(200_001)
        ('flat', 'hnsw')
    """
    return "flat" if items <= FLAT_UP_TO else "hnsw"


def item_labels(ids: pl.Series) -> pl.Series:
    """Return the labels of the items: the ids themselves if Faiss can hold them, and otherwise the codes.

    Faiss labels are integers, and it returns -1 where a list is too short.

    Example:
        >>> item_labels(pl.Series([7, 9])).to_list(), item_labels(pl.Series(["a", "b"])).to_list()
        ([7, 9], [0, 1])
    """
    if ids.dtype == pl.Int64 and ids.min() >= 0:  # type: ignore[operator]
        return ids
    return pl.Series(LABEL, np.arange(len(ids), dtype=np.int64))


def _build(faiss: Any, kind: Index, vectors: DialVectors, labels: pl.Series, progress: Progress | None) -> Any:
    """Return the index with all items."""
    if kind == "flat":
        inner = faiss.IndexFlatIP(vectors.width)
    else:
        inner = faiss.IndexHNSWFlat(vectors.width, _LINKS, faiss.METRIC_INNER_PRODUCT)
        inner.hnsw.efConstruction, inner.hnsw.efSearch = _BUILD_DEPTH, _SEARCH_DEPTH
    index, numbers = faiss.IndexIDMap2(inner), labels.to_numpy()
    for start in range(0, len(numbers), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        index.add_with_ids(vectors.items[part], numbers[part])
        if progress is not None:
            progress(min(start + _AT_ONCE, len(numbers)), len(numbers))
    return index
