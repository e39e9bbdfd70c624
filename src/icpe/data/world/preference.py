"""True preferences of a generated world, computed so that every machine gives the same bits."""

import numpy as np

from icpe.types import FloatArray, IntArray


def products(left: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """``left @ right.T + start``, summed column by column.

    A matrix product would be faster, but its last bits depend on the machine and on the number of rows.
    """
    total = np.repeat(start[None, :], len(left), axis=0)
    part = np.empty_like(total)
    for one, other in zip(left.T, np.ascontiguousarray(right.T), strict=True):
        total += np.multiply(one[:, None], other[None, :], out=part)
    return total


def top_columns(values: FloatArray, n: int) -> IntArray:
    """Columns of the ``n`` largest float32 values of each row, largest first; equal values in order of the columns."""
    columns = values.shape[1]
    bits = values.view(np.int32)
    # Flipping the lower bits of negative floats makes their integers sort like the floats. With the column in the
    # lower half no two keys are equal, so the choice among equal values does not depend on the algorithm.
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    keys |= np.arange(columns - 1, -1, -1)
    keys.partition(columns - n, axis=1)
    best = np.sort(keys[:, columns - n :], axis=1)[:, ::-1]
    return np.asarray(columns - 1 - (best & 0x7FFFFFFF))
