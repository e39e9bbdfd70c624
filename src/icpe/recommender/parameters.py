"""The file of a model's parameters, written in pieces if several processes have trained it.

No process then holds a whole table: the first one writes the rows of each in turn. The file has the same bytes as one
that ``safetensors.torch.save_file`` writes.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from icpe.backbones.rows import share_of
from icpe.shards import current
from icpe.train.method import TrainingMethod

# In the order in which safetensors sorts types: it puts those with long numbers first, so that all are aligned.
_TYPES = {torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.bool: "BOOL"}


def parameters_of(method: TrainingMethod) -> dict[str, Tensor]:
    """Return the parameters and buffers of a method by name; in a group, the rows of this process."""
    return {name: value.detach().cpu().contiguous() for name, value in method.state_dict().items()}


def identity_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return what two files of one model have in common: a hash of the parameters."""
    return _identity({name: hashlib.sha256(_bytes(value)).digest() for name, value in tensors.items()})


def write_parameters(method: TrainingMethod, path: Path | None = None) -> None:
    """Write the parameters and buffers of a method. In a group all processes call this, the first one with the path."""
    group, tensors = current(), parameters_of(method)
    if group is None:
        assert path is not None
        save_file(tensors, path, identity_of(tensors))
        return
    shares = {name: share_of(parameter) for name, parameter in method.named_parameters()}
    order = sorted(tensors, key=lambda name: (list(_TYPES).index(tensors[name].dtype), name))
    shapes = {
        name: list(tensors[name].shape)
        if (share := shares.get(name)) is None
        else [share.rows, *tensors[name].shape[1:]]
        for name in order
    }

    def pieces(name: str) -> Iterator[Tensor]:
        share = shares.get(name)
        return iter([tensors[name]]) if share is None else group.pieces(tensors[name], share.counts)

    if path is None:
        for name in order:
            for _ in pieces(name):
                pass
        return
    described = {name: (tensors[name].dtype, shapes[name]) for name in order}
    digests = {}
    with path.open("wb") as file:
        file.write(_header(described, _identity({})))
        for name in order:
            digest = hashlib.sha256()
            for piece in pieces(name):
                content = _bytes(piece)
                digest.update(content)
                file.write(content)
            digests[name] = digest.digest()
        file.seek(0)  # the hash is known only now; it has the same length
        file.write(_header(described, _identity(digests)))


def _identity(digests: Mapping[str, bytes]) -> dict[str, str]:
    """Return one hash of the hashes of all tensors."""
    digest = hashlib.sha256()
    for name, one in sorted(digests.items()):
        digest.update(name.encode())
        digest.update(one)
    return {"parameters": digest.hexdigest()}


def _bytes(tensor: Tensor) -> bytes | memoryview:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data if tensor.numel() else b""


def _header(tensors: dict[str, tuple[torch.dtype, list[int]]], identity: dict[str, str]) -> bytes:
    """Return the beginning of the file: the length of the description, and the description of the tensors."""
    entries: dict[str, object] = {"__metadata__": identity}
    end = 0
    for name, (kind, shape) in tensors.items():
        begin, end = end, end + torch.Size(shape).numel() * kind.itemsize
        entries[name] = {"dtype": _TYPES[kind], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
