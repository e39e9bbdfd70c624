"""Adam and RMSprop that touch only the rows a batch uses, and end where the dense ones end.

A table with a row per user or item gets gradients for a few thousand rows a step, while a dense optimiser walks over
all of it. Rows without gradient move nevertheless in Adam, by a geometric series that has a closed form: a row is
brought up to date just before it is used. RMSprop leaves such rows in place and only lets their average decay.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from icpe.kernels.rows import adam_catch_up, adam_step, add_up, rmsprop_step
from icpe.types import FloatArray, IntArray

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8
_ALPHA = 0.99
_WINDOW = 400  # steps after which (β1/√β2)^k is below 1e-18 and adds nothing


class RowTable:
    """A parameter [rows, dim] whose gradients are sparse, with its state."""

    def __init__(self, parameter: nn.Parameter, moments: int) -> None:
        self.parameter = parameter
        rows = parameter.shape[0]
        # NumPy's own large arrays lie in huge pages, which makes random access faster.
        kind = parameter.detach().numpy().dtype
        self.moments = [torch.from_numpy(np.zeros(parameter.shape, kind)) for _ in range(moments)]
        self.last = torch.zeros(rows, dtype=torch.int64)
        self._slots = np.full(rows, -1, np.int32)

    @property
    def array(self) -> FloatArray:
        """The numbers of the parameter, in place."""
        array: FloatArray = self.parameter.detach().numpy()
        return array

    def gradient(self) -> tuple[IntArray, FloatArray]:
        """Distinct rows and their summed gradients."""
        grad = self.parameter.grad
        assert grad is not None
        return add_up(grad._indices()[0].numpy(), grad._values().contiguous().numpy(), self._slots)


class RowAdam:
    """Adam on row tables, equal to the dense one up to rounding and ε.

    The series would have to be summed anew for every ε/√v, so ε is taken as it is now; where gradients are much
    larger than ε the difference is far below the learning rate.
    """

    moments = 2

    def __init__(self, lr: float) -> None:
        self.lr, self.step = lr, 0
        self._series = np.zeros(1 << 16)  # Σ_{s=t+1..now} (β1/√β2)^(s−t) · √(1−β2^s)/(1−β1^s), by t

    def catch_up(self, table: RowTable, rows: IntArray) -> None:
        """Bring rows up to date with the steps since they were last touched."""
        first, second = (moment.numpy() for moment in table.moments)
        eps = _EPS * math.sqrt(1 - _BETA2 ** max(self.step, 1))
        logs = math.log(_BETA1), math.log(_BETA2)
        adam_catch_up(
            table.array, first, second, table.last.numpy(), rows, self.step, self._series, self.lr, *logs, eps
        )

    def begin_step(self) -> None:
        """Count a step; rows without gradient move in it too."""
        self.step += 1
        if self.step >= len(self._series):
            self._series = np.concatenate([self._series, np.zeros(len(self._series))])
        correction = math.sqrt(1 - _BETA2**self.step) / (1 - _BETA1**self.step)
        since = np.arange(max(0, self.step - _WINDOW), self.step)
        self._series[since] += (_BETA1 / math.sqrt(_BETA2)) ** (self.step - since) * correction

    def apply(self, table: RowTable) -> None:
        """One step on the rows that have gradients."""
        rows, grads = table.gradient()
        first, second = (moment.numpy() for moment in table.moments)
        last = table.last.numpy()
        adam_step(table.array, first, second, last, rows, grads, self.step, self.lr, _BETA1, _BETA2, _EPS)

    def extra(self) -> dict[str, Tensor]:
        """What the tables do not hold."""
        return {"step": torch.tensor(self.step), "series": torch.from_numpy(self._series[: self.step + 1].copy())}

    def restore(self, extra: dict[str, Tensor]) -> None:
        """Put back what :meth:`extra` gave."""
        self.step = int(extra["step"])
        size = 1 << max(16, (self.step + 1).bit_length())
        self._series = np.zeros(size)
        self._series[: self.step + 1] = extra["series"].numpy()


class RowRMSprop:
    """RMSprop on row tables, equal to the dense one up to rounding."""

    moments = 1

    def __init__(self, lr: float) -> None:
        self.lr, self.step = lr, 0

    def catch_up(self, table: RowTable, rows: IntArray) -> None:
        """Nothing: rows without gradient stay in place."""

    def begin_step(self) -> None:
        """Count a step."""
        self.step += 1

    def apply(self, table: RowTable) -> None:
        """One step on the rows that have gradients."""
        rows, grads = table.gradient()
        second, last = table.moments[0].numpy(), table.last.numpy()
        rmsprop_step(table.array, second, last, rows, grads, self.step, self.lr, math.log(_ALPHA), _ALPHA, _EPS)

    def extra(self) -> dict[str, Tensor]:
        """What the tables do not hold."""
        return {"step": torch.tensor(self.step)}

    def restore(self, extra: dict[str, Tensor]) -> None:
        """Put back what :meth:`extra` gave."""
        self.step = int(extra["step"])
