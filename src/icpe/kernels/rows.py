"""Steps of Adam and RMSprop on the rows of a table that a batch uses.

A batch can use a row several times. ``latest[row]`` is the last position at which it was used, or -1, and
``earlier[place]`` is the position before that one. Thus the gradients of a row are found and summed without sorting.

Several threads can share a table. In the kernels with ``owners``, each row belongs to one owner, who alone reads and
writes it; those with ``first`` and ``last`` work on a range of positions or rows. Neither changes a bit of the results.
"""

import math

import numba
import numpy as np

_LINE = 4  # log2 of the neighbouring rows with the same owner, whose entries of ``last`` share a line of the cache
_SPREAD, _HALF = np.uint64(0x9E3779B1), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@numba.njit(cache=True, nogil=True)
def record(rows, latest, earlier, begin):  # type: ignore[no-untyped-def]
    """Record that rows int64 [n] are used at the positions from ``begin`` on."""
    for place in range(rows.shape[0]):
        row = rows[place]
        earlier[begin + place] = latest[row]
        latest[row] = begin + place


@numba.njit(cache=True, nogil=True)
def take(table, rows, out, first, last):  # type: ignore[no-untyped-def]
    """Copy rows int64 [n] to ``out`` [n, dim]."""
    for place in range(first, last):
        out[place] = table[rows[place]]


@numba.njit(nogil=True, inline="always")
def _owner(row, owners):  # type: ignore[no-untyped-def]
    # A multiplication scatters the rows evenly, and another one replaces the slow remainder of a division.
    scattered = (np.uint64(row >> _LINE) * _SPREAD) & _LOW
    return np.int64((scattered * np.uint64(owners)) >> _HALF)


# `error_model="numpy"` and one-dimensional rows let the compiler use vector instructions, because it need not check
# for division by zero or negative indices.
@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_take(table, moments, last, rows, out, earlier, begin, step, sums, lr, eps, owner, owners):  # type: ignore[no-untyped-def]
    """:func:`take` of recorded rows after bringing them to their values in dense Adam after ``step``.

    Their moments stay at the values of step ``last``. The next step applies the decay, so that they are written once.
    """
    kind = table.dtype.type
    small = kind(eps)
    for place in range(rows.shape[0]):
        row = rows[place]
        if owners > 1 and _owner(row, owners) != owner:
            continue
        weights, taken = table[row], out[place]
        if earlier[begin + place] < 0 and 0 < last[row] < step:
            pull = kind(lr * sums[last[row]])
            mean, square = moments[row, 0], moments[row, 1]
            for d in range(weights.shape[0]):
                weights[d] -= pull * mean[d] / (np.sqrt(square[d]) + small)
        for d in range(weights.shape[0]):
            taken[d] = weights[d]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_settle(table, moments, last, step, sums, lr, log_beta1, log_beta2, eps, first, end):  # type: ignore[no-untyped-def]
    """Bring all rows and their moments to their values in dense Adam after ``step``. No row may be in use."""
    kind = table.dtype.type
    small = kind(eps)
    for row in range(first, end):
        since = step - last[row]
        if last[row] == 0 or since == 0:
            continue
        pull = kind(lr * sums[last[row]])
        decay1, decay2 = kind(math.exp(since * log_beta1)), kind(math.exp(since * log_beta2))
        weights, mean, square = table[row], moments[row, 0], moments[row, 1]
        for d in range(weights.shape[0]):
            weights[d] -= pull * mean[d] / (np.sqrt(square[d]) + small)
            mean[d] *= decay1
            square[d] *= decay2
        last[row] = step


@numba.njit(cache=True, nogil=True, inline="always")
def _sum_of(grads, place, earlier, total):  # type: ignore[no-untyped-def]
    # The sum of the gradients of a row, from its latest position backwards. A single gradient is returned as it is.
    before = earlier[place]
    if before < 0:
        return grads[place]
    total[:] = grads[place]
    while before >= 0:
        more = grads[before]
        for d in range(total.shape[0]):
            total[d] += more[d]
        before = earlier[before]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_step(table, moments, last, rows, grads, latest, earlier, step, lr, beta1, beta2, eps, first, end):  # type: ignore[no-untyped-def]
    """Step number ``step`` of Adam on the rows in use, with a gradient [n, dim] per position; it releases the rows."""
    kind = table.dtype.type
    size = kind(lr / (1.0 - beta1**step))
    scale = kind(1.0 / math.sqrt(1.0 - beta2**step))
    one1, one2, small = kind(1.0 - beta1), kind(1.0 - beta2), kind(eps)
    log_beta1, log_beta2 = math.log(beta1), math.log(beta2)
    total = np.empty(table.shape[1], table.dtype)
    for place in range(first, end):
        row = rows[place]
        if latest[row] != place:
            continue
        latest[row] = -1
        since = step - last[row]
        keep1, keep2 = kind(math.exp(since * log_beta1)), kind(math.exp(since * log_beta2))
        weights, mean, square = table[row], moments[row, 0], moments[row, 1]
        grad = _sum_of(grads, place, earlier, total)
        for d in range(weights.shape[0]):
            mean[d] = keep1 * mean[d] + one1 * grad[d]
            square[d] = keep2 * square[d] + one2 * grad[d] * grad[d]
            weights[d] -= size * mean[d] / (np.sqrt(square[d]) * scale + small)
        last[row] = step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def rmsprop_step(table, moments, last, rows, grads, latest, earlier, step, lr, alpha, eps, first, end):  # type: ignore[no-untyped-def]
    """Step number ``step`` of RMSprop on the rows in use. It first applies the decay of the skipped steps."""
    kind = table.dtype.type
    one, small, size, log_alpha = kind(1.0 - alpha), kind(eps), kind(lr), math.log(alpha)
    total = np.empty(table.shape[1], table.dtype)
    for place in range(first, end):
        row = rows[place]
        if latest[row] != place:
            continue
        latest[row] = -1
        keep = kind(math.exp((step - last[row]) * log_alpha))
        weights, square = table[row], moments[row, 0]
        grad = _sum_of(grads, place, earlier, total)
        for d in range(weights.shape[0]):
            square[d] = keep * square[d] + one * grad[d] * grad[d]
            weights[d] -= size * grad[d] / (np.sqrt(square[d]) + small)
        last[row] = step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_all(values, grads, mean, square, step, lr, beta1, beta2, eps):  # type: ignore[no-untyped-def]
    """Step number ``step`` of Adam on all numbers of a flat array."""
    kind = values.dtype.type
    size = kind(lr / (1.0 - beta1**step))
    scale = kind(1.0 / math.sqrt(1.0 - beta2**step))
    keep1, keep2, one1, one2, small = kind(beta1), kind(beta2), kind(1.0 - beta1), kind(1.0 - beta2), kind(eps)
    for d in range(values.shape[0]):
        mean[d] = keep1 * mean[d] + one1 * grads[d]
        square[d] = keep2 * square[d] + one2 * grads[d] * grads[d]
        values[d] -= size * mean[d] / (np.sqrt(square[d]) * scale + small)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def rmsprop_all(values, grads, square, lr, alpha, eps):  # type: ignore[no-untyped-def]
    """A step of RMSprop on all numbers of a flat array."""
    kind = values.dtype.type
    keep, one, small, size = kind(alpha), kind(1.0 - alpha), kind(eps), kind(lr)
    for d in range(values.shape[0]):
        square[d] = keep * square[d] + one * grads[d] * grads[d]
        values[d] -= size * grads[d] / (np.sqrt(square[d]) + small)
