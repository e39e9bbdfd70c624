"""A trained model in formats that other systems read: vectors, a Faiss index, or one ONNX graph.

All three keep the dial. With vectors and Faiss, β is a coordinate of the query; the graph takes it as an input.
"""

from icpe.export.faiss_index import to_faiss
from icpe.export.folder import Export, read_export
from icpe.export.onnx_model import to_onnx
from icpe.export.vectors import to_vectors

__all__ = ["Export", "read_export", "to_faiss", "to_onnx", "to_vectors"]
