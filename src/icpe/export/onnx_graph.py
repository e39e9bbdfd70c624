"""The scores of a model as an ONNX graph in its text form, with the arrays that it uses.

The text form keeps the graph readable. Tracing the PyTorch code instead would unroll its loops over users and items,
which bound the memory.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from icpe.errors import ConfigError
from icpe.export.parts import check_finite
from icpe.methods.pd import LogMatchScores
from icpe.ranking.tables import ITEMS_AT_ONCE, BiasedScores, DotScores, NeuMFScores, ScaledScores, ScoreTable, SumScores
from icpe.types import FloatArray

# A code of -1 would mean the last user to Gather; beyond the last one it is an error, as it should be.
# ScatterElements has had the reduction since opset 18, which ONNX Runtime reads from version 1.14 on.
_MODEL = """
<ir_version: 8, opset_import: ["" : 18], producer_name: "icpe">
recommend (int64[users] user, float[users] beta, int64[users, hidden] seen, int64 n)
  => (int64[users, places] items, float[users, places] scores)
{{
  is_unknown = Less (user, zero)
  code = Where (is_unknown, beyond, user)
{lines}
  setting = Unsqueeze (beta, one)
  pull = MatMul (setting, direction)
  dialled = Add ({scores}, pull)
  place = Max (seen, zero)
  is_seen = GreaterOrEqual (seen, zero)
  limit = Where (is_seen, lowest, highest)
  open = ScatterElements <axis = 1, reduction = "min"> (dialled, place, limit)
  all_items = Shape <start = 1> (open)
  asked = Reshape (n, one)
  length = Min (asked, all_items)
  scores, best = TopK <axis = 1> (open, length)
  is_missing = IsInf (scores)
  items = Where (is_missing, nothing, best)
}}
"""


class Graph:
    """Lines of a graph that ranks items, and the arrays that its lines refer to by name.

    Args:
        direction: numbers of which the graph adds ``beta`` times to the scores of the items, float32 [items].
        users: number of users.
    """

    def __init__(self, direction: FloatArray, users: int) -> None:
        self.arrays: dict[str, NDArray[np.generic]] = {
            "direction": np.ascontiguousarray(direction[None]),
            "lowest": np.array(-np.inf, np.float32),
            "highest": np.array(np.inf, np.float32),
            "one": np.array([1], np.int64),
            "zero": np.array(0, np.int64),
            "nothing": np.array(-1, np.int64),
            "beyond": np.array(users, np.int64),
        }
        self.scores = ""
        self._lines: list[str] = []
        self._names = 0

    def array(self, values: FloatArray) -> str:
        """Keep an array of the model and return its name in the graph.

        Raises:
            IcpeError: the model has diverged.
        """
        check_finite(values)
        name = self._name("array")
        self.arrays[name] = np.ascontiguousarray(values)
        return name

    def numbers(self, *values: int) -> str:
        """Keep a list of whole numbers, such as a shape, and return its name."""
        name = self._name("numbers")
        self.arrays[name] = np.array(values, np.int64)
        return name

    def line(self, call: str) -> str:
        """Append a call such as ``Add (a, b)`` and return the name of its result."""
        name = self._name("step")
        self._lines.append(f"  {name} = {call}")
        return name

    @property
    def text(self) -> str:
        """The whole model that ranks by ``scores``, in the text form of ONNX."""
        return _MODEL.format(lines="\n".join(self._lines), scores=self.scores)

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}_{self._names}"


def graph_of(table: ScoreTable, direction: FloatArray) -> Graph:
    """Return a graph that ranks items by ``table + beta · direction``.

    Its inputs are user codes [B], settings of the dial [B], item codes to hide [B, S], padded with -1, and the length
    n of the lists. Its outputs are item codes and scores [B, n], the best first; the item is -1 and the score is -inf
    where a list is shorter.

    Raises:
        ConfigError: the scores are computed by code that has no counterpart in ONNX.
        IcpeError: the model has diverged.
    """
    graph = Graph(direction, table.users)
    graph.scores = add_scores(table, graph)
    return graph


@singledispatch
def add_scores(table: ScoreTable, graph: Graph) -> str:
    """Append the scores of the users in ``code`` for all items, and return the name of the result.

    Raises:
        ConfigError: there is no counterpart in ONNX.
    """
    raise ConfigError(
        f"the scores of this model are computed pair by pair in Python ({type(table).__name__}), which ONNX cannot "
        "express; expected inner products or the layers of NeuMF. Use icpe recommend --all for lists of all users"
    )


@add_scores.register
def _(table: DotScores, graph: Graph) -> str:
    users = graph.line(f"Gather ({graph.array(table.user_vectors)}, code)")
    scores = graph.line(f"MatMul ({users}, {graph.array(table.item_vectors.T)})")
    return scores if table.item_bias is None else graph.line(f"Add ({scores}, {graph.array(table.item_bias)})")


@add_scores.register
def _(table: BiasedScores, graph: Graph) -> str:
    return graph.line(f"Add ({add_scores(table.table, graph)}, {graph.array(table.item_bias)})")


@add_scores.register
def _(table: ScaledScores, graph: Graph) -> str:
    return graph.line(f"Mul ({add_scores(table.table, graph)}, {graph.array(table.item_factor)})")


@add_scores.register
def _(table: SumScores, graph: Graph) -> str:
    return graph.line(f"Add ({add_scores(table.first, graph)}, {add_scores(table.second, graph)})")


@add_scores.register
def _(table: LogMatchScores, graph: Graph) -> str:
    scores = add_scores(table.table, graph)
    none = graph.array(np.zeros(1, np.float32))
    one_more = graph.line(f"Add ({graph.line(f'Max ({scores}, {none})')}, {graph.array(np.ones(1, np.float32))})")
    return graph.line(f"Where ({graph.line(f'Less ({scores}, {none})')}, {scores}, {graph.line(f'Log ({one_more})')})")


@add_scores.register
def _(table: NeuMFScores, graph: Graph) -> str:
    linear = add_scores(table.linear, graph)
    users = graph.line(f"Gather ({graph.array(table.user_hidden)}, code)")
    tiles = graph.array(_tiles(table.item_hidden))
    of_tile = [f"hidden_0 = Add (of_items, of_user_{users})", "active_0 = Relu (hidden_0)"]
    for place, (weight, bias) in enumerate(table.layers, start=1):
        arrays = f"{graph.array(weight)}, {graph.array(bias)}"
        of_tile.append(f"hidden_{place} = Gemm (active_{place - 1}, {arrays})")
        of_tile.append(f"active_{place} = Relu (hidden_{place})")
    of_tile.append(f"of_tile = MatMul (active_{len(table.layers)}, {graph.array(table.output)})")
    # An inner loop over tiles of items within a loop over users: the layers of one tile stay in the cache, and memory
    # does not grow with users × items × width.
    inner = _scan("of_items", "[tile, width]", "of_tile", "[tile]", of_tile, tiles)
    outer = [f"of_tiles = {inner}", f"of_all = Reshape (of_tiles, {graph.numbers(-1)})"]
    ends = graph.numbers(0), graph.numbers(table.items)
    outer.append(f"tower = Slice (of_all, {', '.join(ends)})")
    tower = graph.line(_scan(f"of_user_{users}", "[width]", "tower", "[items]", outer, users))
    return graph.line(f"Add ({linear}, {tower})")


def _tiles(rows: FloatArray, size: int = ITEMS_AT_ONCE) -> FloatArray:
    """Return rows [items, width] as [tiles, size, width], with rows of zeros at the end."""
    tile = min(size, len(rows))
    tiles = np.zeros((-(-len(rows) // tile), tile, rows.shape[1]), np.float32)
    tiles.reshape(-1, rows.shape[1])[: len(rows)] = rows
    return tiles


def _scan(name: str, shape: str, result: str, result_shape: str, lines: list[str], over: str) -> str:
    """Return a loop over the first dimension of ``over`` that stacks the results of the lines."""
    body = "\n".join(lines)
    signature = f"(float{shape} {name}) => (float{result_shape} {result})"
    return f"Scan <num_scan_inputs = 1, body = loop {signature} {{\n{body}\n}}> ({over})"
