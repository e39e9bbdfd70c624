"""Tensors of which each process holds a part, in checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from icpe.shards import Share


@dataclass(frozen=True)
class Piece:
    """The part of a tensor that a process holds: ``first`` to ``last`` of ``size`` along an axis.

    Attributes:
        axis: the axis that is divided.
        first: first position of this process.
        last: last position of this process + 1.
        size: length of the axis in the whole tensor.
    """

    axis: int
    first: int
    last: int
    size: int

    @classmethod
    def of(cls, share: Share, axis: int = 0, width: int = 1) -> "Piece":
        """Return the part that belongs to a share of rows, each of which takes ``width`` positions of the axis."""
        return cls(axis, share.first * width, share.last * width, share.rows * width)


def read_pieces(
    folder: Path, sources: Mapping[str, Mapping[str, Piece]], wanted: Mapping[str, Piece]
) -> dict[str, Tensor]:
    """Return the tensors in some files, each of which may contain parts of them, in the order of the files.

    Args:
        folder: folder of the files.
        sources: names of the files, and the parts of tensors that each contains; all others are whole.
        wanted: the part of a tensor to return; all others are returned as a whole.
    """
    found: dict[str, list[Tensor]] = {}
    axes: dict[str, int] = {}
    for file, held in sources.items():
        with safe_open(folder / file, "pt") as content:
            for name in content.keys():  # noqa: SIM118  # the file is no mapping
                here, part = held.get(name), wanted.get(name)
                known = here or part
                if known is None:
                    found[name] = [content.get_tensor(name)]
                else:
                    axes[name] = known.axis
                    found.setdefault(name, []).append(_cut(content.get_slice(name), known, here, part))
    return {name: torch.cat(parts, axes[name]) if len(parts) > 1 else parts[0] for name, parts in found.items()}


def _cut(stored: Any, known: Piece, here: Piece | None, wanted: Piece | None) -> Tensor:
    """Return what a stored part of a tensor has of the wanted part. None stands for the whole tensor."""
    begin, end = (0, known.size) if here is None else (here.first, here.last)
    first, last = (0, known.size) if wanted is None else (wanted.first, wanted.last)
    low, high = max(first, begin), min(last, end)
    cut = slice(low - begin, high - begin) if low < high else slice(0, 0)
    part: Tensor = stored[cut] if known.axis == 0 else stored[:, cut]
    return part
