"""The optimiser of a method. It updates tables with sparse gradients row by row and all other parameters densely."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from icpe.backbones.rows import RowParameter, read_through, share_of
from icpe.errors import IcpeError
from icpe.shards import current
from icpe.train.method import TrainingMethod
from icpe.train.pieces import Piece
from icpe.train.row_optimizer import RowAdam, RowOptimizer, RowRMSprop, row_table
from icpe.train.small_optimizer import SmallOptimizer

_MOMENTS = ("exp_avg", "exp_avg_sq", "square_avg")  # what the optimisers of torch keep for each number


class Optimizer:
    """Adam or RMSprop (smoothing 0.99) on all parameters of a method.

    On the CPU, tables that the method reads row by row (:meth:`TrainingMethod.row_tables`) are updated row by
    row, and small parameters are updated without the overhead of torch. On other devices, and for all other parameters,
    the optimisers of torch are used. Adam has its fused form, which is three times faster than the default.

    A table whose first gradient is dense, because the loss read it by plain indexing, is trained as a whole.
    """

    def __init__(self, name: str, method: TrainingMethod, lr: float, device: torch.device) -> None:
        self._name, self._lr = name, lr
        self._rows: RowOptimizer = RowRMSprop(lr) if name == "rmsprop" else RowAdam(lr)
        by_row = [table for side in method.row_tables() for table in side] if device.type == "cpu" else []
        self._tables = {number: row_table(table, self._rows) for number, table in enumerate(by_row)}
        self._names = {id(parameter): name for name, parameter in method.named_parameters()}
        mine = {id(table) for table in by_row}
        rest = [parameter for parameter in method.parameters() if id(parameter) not in mine]
        small = [parameter for parameter in rest if SmallOptimizer.suits(parameter)]
        large = [parameter for parameter in rest if not SmallOptimizer.suits(parameter)]
        self._small = SmallOptimizer(name, small, lr)
        self._dense = self._dense_optimizer(large) if large else None

    def reading_rows(self) -> AbstractContextManager[None]:
        """Return a context in which ``take_rows`` reads up-to-date rows and this optimiser gets their gradients."""
        tables = {id(one.parameter): one for one in self._tables.values() if one.parameter.requires_grad}

        def read_all(wanted: Sequence[tuple[RowParameter, Tensor]]) -> list[Tensor]:
            return self._rows.take([(tables[id(parameter)], rows) for parameter, rows in wanted])

        readers = [(table.parameter, table.take) for table in tables.values()]
        return read_through(readers, None if current() else read_all)  # processes ask each other table by table

    def step(self) -> None:
        """Take one step along the gradients of the last backward pass and clear them."""
        for number in [number for number, table in self._tables.items() if table.parameter.grad is not None]:
            self._train_whole(number)
        self._rows.step(self._tables.values())
        self._small.step()
        if self._dense is not None:
            self._dense.step()
            self._dense.zero_grad(set_to_none=True)

    def settle(self) -> None:
        """Bring all rows up to date, which is necessary before a validation."""
        for table in self._tables.values():
            self._rows.settle(table)

    def tensors(self) -> dict[str, Tensor]:
        """Return the complete state by name."""
        state = {f"rows.{name}": value for name, value in self._rows.extra().items()} if self._tables else {}
        for number, table in self._tables.items():
            state |= {f"table.{number}.last": table.last, f"table.{number}.moments": table.moments}
        state |= {f"small.{name}": value for name, value in self._small.tensors().items()}
        if self._dense is not None:
            for number, entry in self._dense.state_dict()["state"].items():
                state |= {f"dense.{number}.{key}": value for key, value in entry.items()}
        return state

    def pieces(self) -> dict[str, Piece]:
        """Return which part of each tensor this process holds, for tables whose rows are divided among processes."""
        found: dict[str, Piece] = {f"small.{name}": piece for name, piece in self._small.pieces().items()}
        for number, table in self._tables.items():
            if (share := share_of(table.parameter)) is not None:
                found |= {f"table.{number}.{name}": Piece.of(share) for name in ("last", "moments")}
        groups = [] if self._dense is None else self._dense.param_groups
        for number, parameter in enumerate(one for group in groups for one in group["params"]):
            if (share := share_of(parameter)) is not None:
                found |= {f"dense.{number}.{name}": Piece.of(share) for name in _MOMENTS}
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`tensors` returned."""
        for number in [number for number in self._tables if f"table.{number}.last" not in tensors]:
            self._train_whole(number)
        if self._tables:
            self._rows.restore(_under("rows", tensors))
        for number, table in self._tables.items():
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

    def _train_whole(self, number: int) -> None:
        """Hand a table over to the dense optimiser.

        Before the first step all rows are up to date, so the loss has read correct values. Later this is not certain.
        """
        table = self._tables[number]
        if self._rows.now:
            name = self._names[id(table.parameter)]
            raise IcpeError(
                f"step {self._rows.now + 1}: the loss reads {name} as a whole, but earlier steps read it by rows, so "
                "some rows were out of date. Read it with icpe.backbones.take_rows in every step, or in none"
            )
        del self._tables[number]
        table.add_to_dense_gradient()
        if self._dense is None:
            self._dense = self._dense_optimizer([table.parameter])
        else:
            self._dense.add_param_group({"params": [table.parameter]})

    def _dense_optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        if self._name == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=self._lr)
        return torch.optim.Adam(parameters, lr=self._lr, fused=True)


def _under(kind: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``kind.``, by the rest of their names."""
    return {name.removeprefix(f"{kind}."): value for name, value in tensors.items() if name.startswith(f"{kind}.")}
