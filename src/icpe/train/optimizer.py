"""One optimiser for a method: rows where a table's gradients are sparse, dense elsewhere."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from icpe.backbones.base import rows_from
from icpe.train.method import Method
from icpe.train.row_optimizer import RowAdam, RowOptimizer, RowRMSprop, RowTable
from icpe.train.small_optimizer import SmallOptimizer


class Optimizer:
    """Adam or RMSprop (smoothing 0.99) on all parameters of a method.

    On the CPU, tables that the backbone hands out row by row (:meth:`Backbone.row_tables`) are updated by row, and
    small parameters without torch's overhead. On other devices, and for all other parameters, torch's own optimisers
    serve: Adam in its fused form, three times faster than the default.
    """

    def __init__(self, name: str, method: Method, lr: float, device: torch.device) -> None:
        self._rows: RowOptimizer = RowRMSprop(lr) if name == "rmsprop" else RowAdam(lr)
        by_row = [table for side in method.row_tables() for table in side] if device.type == "cpu" else []
        self._tables = [RowTable(table, self._rows) for table in by_row]
        mine = {id(table) for table in by_row}
        rest = [parameter for parameter in method.parameters() if id(parameter) not in mine]
        small = [parameter for parameter in rest if SmallOptimizer.suits(parameter)]
        large = [parameter for parameter in rest if not SmallOptimizer.suits(parameter)]
        self._small = SmallOptimizer(name, small, lr)
        self._dense = _dense(name, large, lr) if large else None

    def watching(self) -> AbstractContextManager[None]:
        """While it lasts, rows that are taken from the tables are up to date and leave their gradients here."""
        return rows_from([(table.parameter, table.take) for table in self._tables if table.parameter.requires_grad])

    def step(self) -> None:
        """Go one step down the gradients that are there, and forget them."""
        self._rows.begin_step()
        for table in self._tables:
            table.step()
        self._small.step()
        if self._dense is not None:
            self._dense.step()
            self._dense.zero_grad(set_to_none=True)

    def settle(self) -> None:
        """Bring every row up to date, as before a validation."""
        for table in self._tables:
            self._rows.settle(table)

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, by name."""
        state = {f"rows.{name}": value for name, value in self._rows.extra().items()} if self._tables else {}
        for number, table in enumerate(self._tables):
            state |= {f"table.{number}.last": table.last, f"table.{number}.moments": table.moments}
        state |= {f"small.{name}": value for name, value in self._small.tensors().items()}
        if self._dense is not None:
            for number, entry in self._dense.state_dict()["state"].items():
                state |= {f"dense.{number}.{key}": value for key, value in entry.items()}
        return state

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave."""
        if self._tables:
            self._rows.restore(_under("rows", tensors))
        for number, table in enumerate(self._tables):
            table.last.copy_(tensors[f"table.{number}.last"])
            table.moments.copy_(tensors[f"table.{number}.moments"])
        self._small.restore(_under("small", tensors))
        if self._dense is not None:
            state: dict[int, dict[str, Tensor]] = {}
            for name, value in _under("dense", tensors).items():
                place, key = name.split(".", 1)
                state.setdefault(int(place), {})[key] = value
            groups = self._dense.state_dict()["param_groups"]
            self._dense.load_state_dict({"state": state, "param_groups": groups})


def _under(kind: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with ``kind.``, by the rest of their names."""
    return {name.removeprefix(f"{kind}."): value for name, value in tensors.items() if name.startswith(f"{kind}.")}


def _dense(name: str, parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=lr)
    return torch.optim.Adam(parameters, lr=lr, fused=True)
