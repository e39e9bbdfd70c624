"""The processes of a training on several, and what they tell each other.

Every function here except :meth:`Group.fail` is collective: all processes call it in the same order.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from icpe.errors import ConfigError
from icpe.types import FloatArray

if TYPE_CHECKING:  # torch takes a second to import, and commands ask whether torchrun has started them before that
    from torch import Tensor
    from torch.distributed import Store  # type: ignore[attr-defined]

_PATIENCE = timedelta(hours=2)  # the first process evaluates and writes large models while the others wait
_PIECE = 1 << 26  # bytes that are sent at a time where whole tables pass through one process
_ERRORS, _CODE = "icpe/errors", "icpe/code"
_current: "Group | None" = None


def current() -> "Group | None":
    """Return the group that this process belongs to, or None if it works alone."""
    return _current


def first() -> bool:
    """Return whether this process is the first of its group, or works alone. It alone writes to the run folder."""
    return _current is None or _current.rank == 0


def wait() -> None:
    """Wait until all processes of the group have come here. A process that works alone goes on."""
    if _current is not None:
        _current.wait()


def join() -> "Group":
    """Connect this process with the others that torchrun has started, and return their group.

    Raises:
        ConfigError: this build of torch cannot connect processes.
    """
    import torch
    from torch import distributed

    global _current
    if _current is not None:
        return _current
    if not distributed.is_available():
        raise ConfigError("this build of torch cannot connect processes; train without torchrun, or install another")
    store, rank, size = next(distributed.rendezvous("env://"))  # type: ignore[attr-defined]
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    _current = Group(rank, size, store)
    return _current


class Group:
    """Processes that train one model together.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        on_machine: number of them on this machine.
    """

    def __init__(self, rank: int, size: int, store: "Store") -> None:
        self.rank, self.size, self._store = rank, size, store
        self.on_machine = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def fail(self, code: int) -> tuple[bool, int]:
        """Report that this process fails. Return whether it is the first one, and the exit code of the first one.

        When one process fails, the others lose their connection to it and fail too; only the first has a reason.
        """
        if self._store.add(_ERRORS, 1) == 1:
            self._store.set(_CODE, str(code))
            return True, code
        self._store.wait([_CODE], timedelta(seconds=10))
        return False, int(self._store.get(_CODE))

    def agreed(self, value: Any) -> Any:
        """Return the value of the first process, a plain value that JSON can hold, in all processes."""
        import torch
        from torch import distributed

        text = json.dumps(value).encode() if self.rank == 0 else b""
        length = torch.tensor([len(text)])
        distributed.broadcast(length, 0)
        content = torch.empty(int(length), dtype=torch.uint8)
        if self.rank == 0:
            content.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        distributed.broadcast(content, 0)
        return json.loads(content.numpy().tobytes())

    def all_values(self, value: Any) -> list[Any]:
        """Return the plain values of all processes, in the order of their ranks."""
        import torch

        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = self.gathered(torch.tensor([len(text)]), [1] * self.size).tolist()
        parts = self.gathered(text, lengths).tensor_split(torch.tensor(lengths).cumsum(0)[:-1])
        return [json.loads(part.numpy().tobytes()) for part in parts]

    def largest(self, number: int) -> int:
        """Return the largest number of all processes."""
        import torch
        from torch import distributed

        found = torch.tensor([number])
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return int(found)

    def any_of(self, mask: "Tensor") -> "Tensor":
        """Return a mask that is true where that of any process is."""
        from torch import distributed

        found = mask.byte()
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
        return found.bool()

    def gathered(self, mine: "Tensor", counts: list[int]) -> "Tensor":
        """Return the rows of all processes, one process after the other; ``counts`` are their numbers."""
        from torch import distributed

        mine = mine.contiguous()
        whole = mine.new_empty(sum(counts), *mine.shape[1:])
        distributed.all_to_all_single(
            whole, mine.repeat(self.size, *[1] * (mine.dim() - 1)), counts, [len(mine)] * self.size
        )
        return whole

    def exchanged(self, rows: "Tensor", to: list[int]) -> tuple["Tensor", list[int]]:
        """Send some rows to each process, and return the rows that they send with the number from each process."""
        import torch
        from torch import distributed

        counts = torch.empty(self.size, dtype=torch.int64)
        distributed.all_to_all_single(counts, torch.tensor(to))
        arrived = rows.new_empty(int(counts.sum()), *rows.shape[1:])
        distributed.all_to_all_single(arrived, rows.contiguous(), counts.tolist(), to)
        return arrived, counts.tolist()

    def filled(self, whole: "Tensor", mine: "Tensor", places: list[slice]) -> "Tensor":
        """Return ``whole`` after writing the rows of each process to its place there, without any further memory."""
        from torch import distributed

        whole[places[self.rank]] = mine
        for rank, place in enumerate(places):
            if place.stop > place.start:
                distributed.broadcast(whole[place], rank)
        return whole

    def chained(self, step: Callable[[FloatArray], FloatArray], start: FloatArray) -> FloatArray:
        """Return what the processes make of an array, one after the other, each from the result of the one before.

        A sum that the processes continue in turn has the same bits as the sum of one process.
        """
        import torch
        from torch import distributed

        found = torch.from_numpy(np.ascontiguousarray(start).copy())
        if self.rank:
            distributed.recv(found, self.rank - 1)
        found = torch.from_numpy(np.ascontiguousarray(step(found.numpy())))
        if self.rank + 1 < self.size:
            distributed.send(found, self.rank + 1)
        distributed.broadcast(found, self.size - 1)
        array: FloatArray = found.numpy()
        return array

    def pieces(self, mine: "Tensor", counts: list[int]) -> "Iterator[Tensor]":
        """Yield the rows of all processes in pieces in the first process, and nothing in the others."""
        from torch import distributed

        mine = mine.detach().contiguous()
        at_once = max(1, _PIECE // max(1, mine.itemsize * mine.shape[1:].numel()))
        for rank in range(self.size):
            for begin in range(0, counts[rank], at_once):
                if self.rank == rank == 0:
                    yield mine[begin : begin + at_once]
                elif self.rank == 0:
                    piece = mine.new_empty(min(at_once, counts[rank] - begin), *mine.shape[1:])
                    distributed.recv(piece, rank)
                    yield piece
                elif self.rank == rank:
                    distributed.send(mine[begin : begin + at_once], 0)

    def same(self, tensors: "Iterable[Tensor]") -> None:
        """Give these tensors the values of the first process.

        Machines of different kinds round differently, and what every process computes for itself would drift apart.
        """
        from torch import distributed

        for tensor in tensors:
            distributed.broadcast(tensor.detach().view(-1), 0)

    def wait(self) -> None:
        """Wait until all processes have come here."""
        from torch import distributed

        distributed.barrier()
