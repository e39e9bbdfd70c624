"""Inner products in a fixed order of summation, which return the same bits on every machine and in every batch.

Products of two float32 numbers are exact in float64, so only the order of the additions matters: four partial sums over
the positions d with d mod 4 = 0, 1, 2, 3 are added as (0 + 1) + (2 + 3). Then the bias is added, and the result is
rounded to float32 once.
"""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, inline="always")
def _product(user, item):  # type: ignore[no-untyped-def]
    size = user.shape[0]
    a = b = c = d = 0.0
    for place in range(0, size - 3, 4):
        a += np.float64(user[place]) * item[place]
        b += np.float64(user[place + 1]) * item[place + 1]
        c += np.float64(user[place + 2]) * item[place + 2]
        d += np.float64(user[place + 3]) * item[place + 3]
    rest = size - size % 4
    if rest < size:
        a += np.float64(user[rest]) * item[rest]
    if rest + 1 < size:
        b += np.float64(user[rest + 1]) * item[rest + 1]
    if rest + 2 < size:
        c += np.float64(user[rest + 2]) * item[rest + 2]
    return (a + b) + (c + d)


@numba.njit(cache=True, nogil=True)
def products(users, items, bias, codes, out):  # type: ignore[no-untyped-def]
    """Write scores of users [rows, dim] for items ``codes`` [rows, m] to ``out`` [rows, m]; -inf where a code is -1."""
    for row in range(codes.shape[0]):
        for place in range(codes.shape[1]):
            code = codes[row, place]
            if code < 0:
                out[row, place] = -np.inf
            else:
                out[row, place] = np.float32(_product(users[row], items[code]) + bias[code])
