"""Prefetching of memory, for kernels that read rows in an order that the processor cannot predict."""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 64  # bytes in a cache line


@numba.njit(inline="always")
def prefetch_row(table, row):  # type: ignore[no-untyped-def]
    """Start loading a row of a contiguous table into the cache."""
    for column in range(0, table.shape[1], LINE // table.itemsize):
        _prefetch(table, row, column)  # type: ignore[call-arg]  # numba provides the first argument


@intrinsic
def _prefetch(_: Any, table: Any, row: Any, column: Any) -> Any:
    """LLVM's prefetch of one address for reading, into all cache levels."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, arguments[0])
        index = [
            context.cast(builder, value, given, types.intp)
            for value, given in zip(arguments[1:], signature.args[1:], strict=True)
        ]
        place = cgutils.get_item_pointer(context, builder, kind, array, index, wraparound=False)  # type: ignore[no-untyped-call]
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        what = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, what, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        builder.call(function, [builder.bitcast(place, pointer), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(table, row, column), generate
