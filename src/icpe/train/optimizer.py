"""One optimiser for a method: rows where a table's gradients are sparse, dense elsewhere."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from icpe.methods.base import Batch, Method
from icpe.train.row_optimizer import RowAdam, RowRMSprop, RowTable
from icpe.types import IntArray


class Optimizer:
    """Adam or RMSprop (smoothing 0.99) on all parameters of a method.

    On the CPU, tables that the backbone hands out row by row (:meth:`Backbone.row_tables`) are updated by row; on other
    devices, and for all other parameters, torch's own optimisers serve: Adam in its fused form, three times faster
    than the default.
    """

    def __init__(self, name: str, method: Method, lr: float, device: torch.device) -> None:
        by_user, by_item = method.row_tables() if device.type == "cpu" else ([], [])
        self._rows = RowRMSprop(lr) if name == "rmsprop" else RowAdam(lr)
        self._by_user = [RowTable(table, self._rows.moments) for table in by_user]
        self._by_item = [RowTable(table, self._rows.moments) for table in by_item]
        mine = {id(table) for table in (*by_user, *by_item)}
        rest = [parameter for parameter in method.parameters() if id(parameter) not in mine]
        self._dense = _dense(name, rest, lr) if rest else None

    @property
    def _tables(self) -> list[RowTable]:
        return [*self._by_user, *self._by_item]

    def prepare(self, batch: Batch) -> None:
        """Bring the rows of a batch up to date and forget old gradients."""
        if self._tables:
            users = batch.users.numpy()
            items = np.concatenate([batch.items.numpy(), batch.negatives.reshape(-1).numpy()])
            self._catch_up(self._by_user, users)
            self._catch_up(self._by_item, items)
        for table in self._tables:
            table.parameter.grad = None
        if self._dense is not None:
            self._dense.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Go one step down the gradients that are there."""
        self._rows.begin_step()
        for table in self._tables:
            if table.parameter.grad is not None:
                self._rows.apply(table)
        if self._dense is not None:
            self._dense.step()

    def settle(self) -> None:
        """Bring every row up to date, as before a validation."""
        for table in self._tables:
            self._catch_up([table], np.arange(len(table.parameter)))

    def _catch_up(self, tables: Sequence[RowTable], rows: IntArray) -> None:
        for table in tables:
            self._rows.catch_up(table, rows)

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, by name."""
        state = {f"rows.{name}": value for name, value in self._rows.extra().items()} if self._tables else {}
        for number, table in enumerate(self._tables):
            state[f"table.{number}.last"] = table.last
            state |= {f"table.{number}.{order}": moment for order, moment in enumerate(table.moments)}
        if self._dense is not None:
            for number, entry in self._dense.state_dict()["state"].items():
                state |= {f"dense.{number}.{key}": value for key, value in entry.items()}
        return state

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave."""
        if self._tables:
            self._rows.restore({name: tensors[f"rows.{name}"] for name in self._rows.extra()})
        for number, table in enumerate(self._tables):
            table.last.copy_(tensors[f"table.{number}.last"])
            for order, moment in enumerate(table.moments):
                moment.copy_(tensors[f"table.{number}.{order}"])
        if self._dense is not None:
            state: dict[int, dict[str, Tensor]] = {}
            for name, value in tensors.items():
                kind, *rest = name.split(".", 2)
                if kind == "dense":
                    state.setdefault(int(rest[0]), {})[rest[1]] = value
            groups = self._dense.state_dict()["param_groups"]
            self._dense.load_state_dict({"state": state, "param_groups": groups})


def _dense(name: str, parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=lr)
    return torch.optim.Adam(parameters, lr=lr, fused=True)
