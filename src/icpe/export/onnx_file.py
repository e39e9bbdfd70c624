"""Files of an ONNX graph: the graph with its arrays inside, or with large arrays in a file beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icpe.export.onnx_graph import Graph
from icpe.extras import require

ONE_FILE = 1 << 30  # bytes; protobuf cannot hold 2 GB
_PAGE = 1 << 16  # arrays begin at multiples of this, so that every operating system can map them into memory
_LARGE = 1 << 10  # bytes; smaller arrays stay in the graph, where shape inference sees them
Writers = dict[str, Callable[[Path], object]]


def onnx_writers(graph: Graph, name: str, one_file: int, check: Callable[[Path], None]) -> Writers:
    """Return the functions that write the files of a graph, by file name; the graph itself comes last.

    Args:
        graph: the graph and its arrays.
        name: name of the file of the graph. Large arrays go to the file ``name + ".data"`` if they do not fit in it.
        one_file: largest size of the arrays that fit, in bytes.
        check: called with the path of the graph as soon as it is written; it raises an error if something is wrong.
    """
    onnx = require("onnx", "onnx", "an ONNX graph")
    model = require("onnx.parser", "onnx", "an ONNX graph").parse_model(graph.text)
    total, beside = sum(one.nbytes for one in graph.arrays.values()), f"{name}.data"
    outside: list[NDArray[np.generic]] = []
    place = 0
    for array_name, values in graph.arrays.items():
        if total <= one_file or values.nbytes < _LARGE:
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, array_name))
        else:
            model.graph.initializer.append(_elsewhere(onnx, array_name, values, beside, place))
            outside.append(values)
            place += _padded(values.nbytes)
    writers: Writers = {beside: lambda path: _write_arrays(outside, path)} if outside else {}

    def write_graph(path: Path) -> None:
        path.write_bytes(model.SerializeToString())
        check(path)

    return {**writers, name: write_graph}


def _elsewhere(onnx: Any, name: str, values: NDArray[np.generic], file: str, offset: int) -> Any:
    """Return a tensor whose numbers are in another file, from ``offset`` on."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
    tensor = onnx.TensorProto(name=name, dims=values.shape, data_type=kind, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", offset), ("length", values.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _padded(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _write_arrays(arrays: list[NDArray[np.generic]], path: Path) -> None:
    """Write little-endian arrays one after the other, each at a multiple of the page size."""
    with path.open("wb") as file:
        for values in arrays:
            file.write(values.astype(values.dtype.newbyteorder("<"), copy=False).data)
            file.write(bytes(_padded(values.nbytes) - values.nbytes))
