"""Steps of Adam and RMSprop on the rows of a table that a batch touches."""

import math

import numba
import numpy as np

from icpe.types import FloatArray, IntArray


@numba.njit(cache=True, nogil=True)
def _add_up(indices, values, slots, rows, sums):  # type: ignore[no-untyped-def]
    distinct = 0
    for place in range(indices.shape[0]):
        row = indices[place]
        slot = slots[row]
        value = values[place]
        if slot < 0:
            slots[row] = distinct
            rows[distinct] = row
            sums[distinct] = value
            distinct += 1
        else:
            total = sums[slot]
            for d in range(total.shape[0]):
                total[d] += value[d]
    for slot in range(distinct):
        slots[rows[slot]] = -1
    return distinct


def add_up(indices: IntArray, values: FloatArray, slots: IntArray) -> tuple[IntArray, FloatArray]:
    """Distinct rows in order of appearance and the sum of the values of each.

    Args:
        indices: int64 [n], rows with repetition.
        values: [n, dim].
        slots: int32 [rows of the table], all -1 before and after.
    """
    rows, sums = np.empty(len(indices), np.int64), np.empty_like(values)
    distinct = _add_up(indices, values, slots, rows, sums)
    return rows[:distinct], sums[:distinct]


# `error_model="numpy"` and one-dimensional rows let the compiler use vector instructions: nothing is checked for
# division by zero or negative indices.
@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_catch_up(table, first, second, last, rows, step, sums, lr, log_beta1, log_beta2, eps):  # type: ignore[no-untyped-def]
    """Bring rows to where dense Adam would have them after ``step``, without gradients since ``last``."""
    kind = table.dtype.type
    small = kind(eps)
    for place in range(rows.shape[0]):
        row = rows[place]
        since = step - last[row]
        if last[row] == 0 or since == 0:
            continue
        pull = kind(lr * sums[last[row]])
        decay1, decay2 = kind(math.exp(since * log_beta1)), kind(math.exp(since * log_beta2))
        weights, mean, square = table[row], first[row], second[row]
        for d in range(weights.shape[0]):
            weights[d] -= pull * mean[d] / (np.sqrt(square[d]) + small)
            mean[d] *= decay1
            square[d] *= decay2
        last[row] = step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam_step(table, first, second, last, rows, grads, step, lr, beta1, beta2, eps):  # type: ignore[no-untyped-def]
    """One step of Adam on rows that are up to date."""
    kind = table.dtype.type
    size = kind(lr / (1.0 - beta1**step))
    scale = kind(1.0 / math.sqrt(1.0 - beta2**step))
    one1, one2 = kind(1.0 - beta1), kind(1.0 - beta2)
    keep1, keep2, small = kind(beta1), kind(beta2), kind(eps)
    for place in range(rows.shape[0]):
        row = rows[place]
        weights, mean, square, grad = table[row], first[row], second[row], grads[place]
        for d in range(weights.shape[0]):
            mean[d] = keep1 * mean[d] + one1 * grad[d]
            square[d] = keep2 * square[d] + one2 * grad[d] * grad[d]
            weights[d] -= size * mean[d] / (np.sqrt(square[d]) * scale + small)
        last[row] = step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def rmsprop_step(table, second, last, rows, grads, step, lr, log_alpha, alpha, eps):  # type: ignore[no-untyped-def]
    """One step of RMSprop on rows; what decayed since they were last touched is made good first."""
    kind = table.dtype.type
    one, small, size = kind(1.0 - alpha), kind(eps), kind(lr)
    for place in range(rows.shape[0]):
        row = rows[place]
        keep = kind(math.exp((step - last[row]) * log_alpha))
        weights, square, grad = table[row], second[row], grads[place]
        for d in range(weights.shape[0]):
            square[d] = keep * square[d] + one * grad[d] * grad[d]
            weights[d] -= size * grad[d] / (np.sqrt(square[d]) + small)
        last[row] = step
