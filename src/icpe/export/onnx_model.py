"""One ONNX graph that recommends: top-n inside, with the dial and the items to hide as inputs."""

from pathlib import Path

import polars as pl

from icpe.export.folder import Export, check_folder, write_export
from icpe.export.graph_check import check_graph
from icpe.export.onnx_file import ONE_FILE, onnx_writers
from icpe.export.onnx_graph import graph_of
from icpe.export.parts import Dial, item_table, parquet_writer, user_table
from icpe.export.vectors import ITEMS, USERS
from icpe.extras import require
from icpe.recommender.model import Model

MODEL, CODE = "model.onnx", "code"
RULE = "The input beta is the setting of the dial for each user. An item's score grows by beta times its offset."
INPUTS = {
    "user": "int64 [batch], codes of users: the column code of users.parquet",
    "beta": "float32 [batch], settings of the dial",
    "seen": "int64 [batch, any length], codes of items to hide, padded with -1",
    "n": "int64 scalar, length of the lists",
}
OUTPUTS = {
    "items": "int64 [batch, n], codes of items, the best first: the column code of items.parquet; -1 where a list is "
    "shorter",
    "scores": "float32 [batch, n]; -inf where a list is shorter",
}


def to_onnx(model: Model, folder: Path | str, *, force: bool = False, one_file: int = ONE_FILE) -> Export:
    """Write the model as one ONNX graph with tables of its users and items, and return what was written.

    The graph takes ``user``, ``beta``, ``seen`` and ``n`` and returns ``items`` and ``scores``. The length ``n`` is an
    input, so that one file serves lists of every length; the top-k of ONNX takes it as an input anyway.
    ``items.parquet`` has the columns ``code, id, offset, count, head`` and ``users.parquet`` has ``code, id, count,
    seen``, where ``seen`` lists the codes of the user's training items. Before the files get their names, ONNX Runtime
    runs the graph for some users, and its lists are compared with those of the model.

    Args:
        model: the trained model.
        folder: the folder to create.
        force: whether to replace an export in the folder.
        one_file: largest number of bytes for which ``model.onnx`` contains the arrays itself. If there are more, they
            go to ``model.onnx.data`` beside it.

    Raises:
        ConfigError: ONNX cannot express the scores, ONNX is missing, or the folder is not empty.
        IcpeError: the model has diverged, the graph disagrees with it, or a file cannot be written.
    """
    target = check_folder(folder, force)
    for library in ("onnx", "onnxruntime"):
        require(library, "onnx", "an ONNX graph")
    dial = Dial.of(model)
    graph = graph_of(dial.table, dial.direction)
    codes = pl.int_range(pl.len(), dtype=pl.Int64).alias(CODE)
    items = item_table(model, dial.direction).select(codes, pl.all())
    users = user_table(model, items[CODE]).select(codes, pl.all())
    writers = {
        **onnx_writers(graph, MODEL, one_file, check=lambda path: check_graph(model, path)),
        ITEMS: parquet_writer(items),
        USERS: parquet_writer(users),
    }
    details = {"inputs": INPUTS, "outputs": OUTPUTS, "dial": dial.described(RULE)}
    return write_export(model, target, "onnx", writers, details)
