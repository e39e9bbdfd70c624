"""Adam and RMSprop that update only the rows that a batch reads, with the same results as the dense optimisers.

A table with a row per user or item gets gradients for a few thousand rows in a step, while a dense optimiser updates
the whole table. Adam also moves rows without a gradient, by a geometric series that has a closed form; such a row is
brought up to date when it is read. RMSprop does not move such rows and only lets their average decay.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from icpe.backbones.rows import RowParameter
from icpe.errors import IcpeError
from icpe.kernels.rows import adam_settle, adam_step, adam_take, record, rmsprop_step, take
from icpe.shards import Share
from icpe.threads import run_parts, stretches
from icpe.types import FloatArray, IntArray

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
ALPHA = 0.99
_WINDOW = 400  # steps after which (β1/√β2)^k is below 1e-18 and adds nothing


class RowTable:
    """A parameter [rows, dim] that is trained row by row, with its moments and the rows read in the current step."""

    def __init__(self, parameter: RowParameter, optimizer: "RowOptimizer") -> None:
        self.parameter, self._optimizer = parameter, optimizer
        rows, dim = parameter.shape
        kind = parameter.detach().numpy().dtype
        # NumPy puts large arrays into huge pages. Moments of a row lie side by side, which is faster to read.
        self.moments = torch.from_numpy(np.zeros((rows, optimizer.moments, dim), kind))
        self.last = torch.zeros(rows, dtype=torch.int32)  # the step of the last gradient, or 0 before the first one
        self.latest = np.full(rows, -1, np.int32)
        self.earlier = np.empty(0, np.int32)
        self._taken: list[tuple[IntArray, Tensor]] = []
        self._places = 0

    @property
    def array(self) -> FloatArray:
        """The values of the parameter, as an array that shares its memory."""
        array: FloatArray = self.parameter.detach().numpy()
        return array

    def take(self, rows: Tensor) -> Tensor:
        """Return an up-to-date copy of rows, int [...] → [..., dim]. The next step uses its gradient."""
        return self._optimizer.take([(self, rows)])[0]

    def ask(self, codes: IntArray) -> tuple[Tensor, list[tuple[Any, ...]]]:
        """Record that rows were read, int [n].

        Returns:
            An empty copy of the rows [n, dim], and the arguments of the optimiser's kernel for each part of filling it.
        """
        copy = torch.empty(len(codes), self.parameter.shape[1], dtype=self.parameter.dtype)
        begin, self._places = self._places, self._places + len(codes)
        if self._places > len(self.earlier):
            self.earlier = np.concatenate([self.earlier[:begin], np.empty(2 * len(codes), np.int32)])
        record(codes, self.latest, self.earlier, begin)
        return copy, self._optimizer.parts_of_copy(self, codes, copy.numpy(), begin)

    def keep(self, codes: IntArray, copy: Tensor) -> Tensor:
        """Return a filled copy of rows whose gradient the next step uses."""
        copy.requires_grad_(torch.is_grad_enabled())
        self._taken.append((codes, copy))
        return copy

    def release(self) -> tuple[IntArray, FloatArray] | None:
        """Return the rows read since the last step, and their gradients, which are 0 where the loss gave none.

        They count as not read from then on. None means that no rows were read.
        """
        if not self._taken:
            return None
        rows = [codes for codes, _ in self._taken]
        grads = self._gradients()
        if len(rows) > 1:
            rows, grads = [np.concatenate(rows)], [np.concatenate(grads)]
        self._taken, self._places = [], 0
        return rows[0], grads[0]

    def _gradients(self) -> list[FloatArray]:
        """Return the gradients of the rows read since the last step."""
        return [_gradient(copy) for _, copy in self._taken]

    def add_to_dense_gradient(self) -> None:
        """Add the gradients of the rows read in this step to the dense gradient of the parameter."""
        for rows, copy in self._taken:
            if copy.grad is not None:
                if self.parameter.grad is None:
                    self.parameter.grad = torch.zeros_like(self.parameter)
                flat = copy.grad.reshape(-1, copy.shape[-1])
                self.parameter.grad.index_add_(0, torch.from_numpy(rows).to(torch.int64), flat)
        self._taken, self._places = [], 0


class SharedRowTable(RowTable):
    """The rows that this process holds of a table whose rows are divided among processes.

    All processes read the same rows and compute the same gradients, and each takes the steps of its own rows. The
    gradients of a row are summed in the same order as in one process, so that the numbers have the same bits.
    """

    def __init__(self, parameter: RowParameter, optimizer: "RowOptimizer", share: Share) -> None:
        super().__init__(parameter, optimizer)
        self._share = share
        self._mine: list[IntArray] = []

    def take(self, rows: Tensor) -> Tensor:
        """Return an up-to-date copy of rows of all processes, int [...] → [..., dim]."""
        codes: IntArray = rows.reshape(-1).numpy()
        mine = self._share.own(codes)
        own = codes[mine] - self._share.first
        self._optimizer.copies([(self, own)])
        distinct, place = np.unique(codes, return_inverse=True)
        wanted = distinct[self._share.own(distinct)] - self._share.first
        found = self._share.spread(torch.from_numpy(self.array[wanted]), distinct)
        self._mine.append(mine)
        return self.keep(own, found[torch.from_numpy(place)].view(*rows.shape, found.shape[1]))

    def _gradients(self) -> list[FloatArray]:
        """Return the gradients of the rows of this process."""
        found = [grads[mine] for grads, mine in zip(super()._gradients(), self._mine, strict=True)]
        self._mine = []
        return found

    def add_to_dense_gradient(self) -> None:
        """Refuse, because the loss has read only the rows of this process."""
        raise IcpeError("the loss reads a table as a whole, but processes share its rows; train without torchrun")


def row_table(parameter: RowParameter, optimizer: "RowOptimizer") -> RowTable:
    """Return the state of a table that is trained row by row."""
    share = parameter.share
    return RowTable(parameter, optimizer) if share is None else SharedRowTable(parameter, optimizer, share)


def _gradient(copy: Tensor) -> FloatArray:
    grad = torch.zeros_like(copy) if copy.grad is None else copy.grad.contiguous()
    found: FloatArray = grad.view(-1, copy.shape[-1]).detach().numpy()
    return found


class RowOptimizer(ABC):
    """Base class of both optimisers, with the learning rate and the number of steps taken."""

    moments: ClassVar[int]
    _kernel: ClassVar[Callable[..., None]]
    _copy_kernel: ClassVar[Callable[..., None]]

    def __init__(self, lr: float) -> None:
        self.lr, self.now = lr, 0

    def take(self, wanted: Sequence[tuple[RowTable, Tensor]]) -> list[Tensor]:
        """Return what :meth:`RowTable.take` returns, for rows of several different tables of this process."""
        codes: list[IntArray] = [rows.reshape(-1).numpy() for _, rows in wanted]
        copies = self.copies([(table, mine) for (table, _), mine in zip(wanted, codes, strict=True)])
        return [
            table.keep(mine, copy.view(*rows.shape, copy.shape[1]))
            for (table, rows), mine, copy in zip(wanted, codes, copies, strict=True)
        ]

    def copies(self, wanted: Sequence[tuple[RowTable, IntArray]]) -> list[Tensor]:
        """Return up-to-date copies of rows and record that they were read, int [n] → [n, dim] for each table."""
        asked = [table.ask(codes) for table, codes in wanted]
        # The parts of all tables together, so that threads wait for each other only once.
        run_parts(self._copy_kernel, [part for _, parts in asked for part in parts])
        return [copy for copy, _ in asked]

    def step(self, tables: Iterable[RowTable]) -> None:
        """Take one step on the rows that were read since the last step."""
        self._begin_step()
        read = [(table, found) for table in tables if (found := table.release()) is not None]
        run_parts(self._kernel, [part for table, (rows, grads) in read for part in self.parts(table, rows, grads)])

    def _begin_step(self) -> None:
        """Count a step."""
        self.now += 1

    @abstractmethod
    def parts_of_copy(self, table: RowTable, rows: IntArray, out: FloatArray, begin: int) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel for each part of copying up-to-date rows to ``out`` [n, dim].

        They were recorded as read at the positions from ``begin`` on.
        """

    @abstractmethod
    def parts(self, table: RowTable, rows: IntArray, grads: FloatArray) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel for each part of a step on rows with gradients [n, dim]."""

    @abstractmethod
    def settle(self, table: RowTable) -> None:
        """Bring all rows up to date, which is necessary before a validation."""

    def extra(self) -> dict[str, Tensor]:
        """Return the state that is not part of the tables."""
        return {"step": torch.tensor(self.now)}

    def restore(self, extra: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`extra` returned."""
        self.now = int(extra["step"])


class RowAdam(RowOptimizer):
    """Adam on row tables, equal to dense Adam up to rounding and ε.

    The exact series would have to be summed again for every ε/√v. Instead, the current ε is used for the whole series.
    If gradients are much larger than ε, the difference is far below the learning rate.
    """

    moments = 2
    _kernel = staticmethod(adam_step)
    _copy_kernel = staticmethod(adam_take)

    def __init__(self, lr: float) -> None:
        super().__init__(lr)
        self._series = np.zeros(1 << 16)  # Σ_{s=t+1..now} (β1/√β2)^(s−t) · √(1−β2^s)/(1−β1^s), by t
        self._powers = (BETA1 / math.sqrt(BETA2)) ** np.arange(_WINDOW, 0, -1)

    def _begin_step(self) -> None:
        """Count a step and extend the series by which rows without a gradient move."""
        super()._begin_step()
        if self.now >= len(self._series):
            self._series = np.concatenate([self._series, np.zeros(len(self._series))])
        correction = math.sqrt(1 - BETA2**self.now) / (1 - BETA1**self.now)
        self._series[max(0, self.now - _WINDOW) : self.now] += self._powers[-self.now :] * correction

    def parts_of_copy(self, table: RowTable, rows: IntArray, out: FloatArray, begin: int) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel for each part of copying up-to-date rows to ``out`` [n, dim]."""
        state = (table.array, table.moments.numpy(), table.last.numpy())
        shared = (*state, rows, out, table.earlier, begin, self.now, self._series, self.lr, self._eps)
        owners = (len(stretches(len(rows))) + 1) // 2  # few, because each of them looks through all rows
        return [(*shared, owner, owners) for owner in range(owners)]

    def parts(self, table: RowTable, rows: IntArray, grads: FloatArray) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel for each part of a step on rows with gradients [n, dim]."""
        state = (table.array, table.moments.numpy(), table.last.numpy())
        shared = (*state, rows, grads, table.latest, table.earlier, self.now, self.lr, BETA1, BETA2, EPS)
        return [(*shared, *part) for part in stretches(len(rows))]

    def settle(self, table: RowTable) -> None:
        """Bring all rows up to date, which is necessary before a validation."""
        state = (table.array, table.moments.numpy(), table.last.numpy())
        logs = math.log(BETA1), math.log(BETA2)
        shared = (*state, self.now, self._series, self.lr, *logs, self._eps)
        run_parts(adam_settle, [(*shared, *part) for part in stretches(len(table.array))])

    @property
    def _eps(self) -> float:
        return EPS * math.sqrt(1 - BETA2 ** max(self.now, 1))

    def extra(self) -> dict[str, Tensor]:
        """Return the state that is not part of the tables."""
        return {**super().extra(), "series": torch.from_numpy(self._series[: self.now + 1].copy())}

    def restore(self, extra: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`extra` returned."""
        super().restore(extra)
        self._series = np.zeros(1 << max(16, (self.now + 1).bit_length()))
        self._series[: self.now + 1] = extra["series"].numpy()


class RowRMSprop(RowOptimizer):
    """RMSprop on row tables, equal to dense RMSprop up to rounding."""

    moments = 1
    _kernel = staticmethod(rmsprop_step)
    _copy_kernel = staticmethod(take)

    def parts_of_copy(self, table: RowTable, rows: IntArray, out: FloatArray, begin: int) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel; all rows are up to date, because those without a gradient do not move."""
        return [(table.array, rows, out, *part) for part in stretches(len(rows))]

    def parts(self, table: RowTable, rows: IntArray, grads: FloatArray) -> list[tuple[Any, ...]]:
        """Return the arguments of the kernel for each part of a step on rows with gradients [n, dim]."""
        state = (table.array, table.moments.numpy(), table.last.numpy())
        shared = (*state, rows, grads, table.latest, table.earlier, self.now, self.lr, ALPHA, EPS)
        return [(*shared, *part) for part in stretches(len(rows))]

    def settle(self, table: RowTable) -> None:
        """Do nothing, because all rows are always up to date."""
