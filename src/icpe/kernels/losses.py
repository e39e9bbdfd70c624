"""Losses of inner products with their gradients, in one pass over the rows of a batch.

``both`` contains the item rows of the positives, followed by those of the negatives, K for each positive. The functions
return the loss and write the gradients of the user rows, of ``both`` and of the logits. ``user_weight`` scales the
gradient of the user rows and changes neither the loss nor any other gradient. With ``first`` and ``last`` they compute
the terms of these positives of the batch and of their negatives, so that several threads can share a batch.
"""

import math

import numba

# Reordering of sums is allowed so that they can use vector instructions. NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}
# numba inlines small functions. If LLVM decided, the result would depend on what is already in the cache, and with it
# the last bits of sums.


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _dot(one, two):  # type: ignore[no-untyped-def]
    total = one.dtype.type(0)
    for d in range(one.shape[0]):
        total += one[d] * two[d]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _softplus(x):  # type: ignore[no-untyped-def]
    # Returns the value and its derivative, the logistic function.
    small = math.exp(-abs(x))
    value = math.log1p(small) + (x if x > 0 else 0.0)
    return value, (1.0 if x > 0 else small) / (1.0 + small)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _spread(user, item, to_user, to_item, reg, user_grad, item_grad):  # type: ignore[no-untyped-def]
    # Adds the contribution of an item to the gradient of its user and writes the gradient of the item.
    for d in range(user.shape[0]):
        user_grad[d] += to_user * item[d]
        item_grad[d] = to_item * user[d] + reg * item[d]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def bce(  # type: ignore[no-untyped-def]
    users, both, offset, weight, user_weight, scale, neg_weight, reg, user_grads, both_grads, logit_grads, first, last
):
    """Mean of weight · softplus(−s⁺) + neg_weight/K · Σ softplus(s⁻) plus L2; s = scale · (user · item) + offset."""
    kind = users.dtype.type
    size = users.shape[0]
    count = (both.shape[0] - size) // size
    one, each = 1.0 / size, 1.0 / (size * count)
    loss, norms = 0.0, 0.0
    for row in range(first, last):
        user, grad = users[row], user_grads[row]
        norms += one * _dot(user, user)
        for d in range(user.shape[0]):
            grad[d] = kind(reg * one) * user[d]
        for draw in range(-1, count):
            place = row if draw < 0 else size + row * count + draw
            share, sign = (one * weight[row], -1.0) if draw < 0 else (each * neg_weight, 1.0)
            pull = one if draw < 0 else each
            item = both[place]
            value, slope = _softplus(sign * (scale * _dot(user, item) + offset[place]))
            slope *= share * sign
            loss += share * value
            norms += pull * _dot(item, item)
            logit_grads[place] = slope
            to_item = scale * slope
            to_user = to_item * user_weight[row] if draw < 0 else to_item
            _spread(user, item, kind(to_user), kind(to_item), kind(reg * pull), grad, both_grads[place])
    return loss + 0.5 * reg * norms


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def bpr(users, both, offset, weight, user_weight, scale, reg, user_grads, both_grads, logit_grads, first, last):  # type: ignore[no-untyped-def]
    """Mean of weight/K · Σ softplus(s⁻ − s⁺) plus L2; s = scale · (user · item) + offset."""
    kind = users.dtype.type
    size = users.shape[0]
    count = (both.shape[0] - size) // size
    one, each = 1.0 / size, 1.0 / (size * count)
    loss, norms = 0.0, 0.0
    for row in range(first, last):
        user, item, grad = users[row], both[row], user_grads[row]
        norms += one * (_dot(user, user) + _dot(item, item))
        for d in range(user.shape[0]):
            grad[d] = kind(reg * one) * user[d]
        positive = scale * _dot(user, item) + offset[row]
        total = 0.0
        for place in range(size + row * count, size + (row + 1) * count):
            negative = both[place]
            value, slope = _softplus(scale * _dot(user, negative) + offset[place] - positive)
            slope *= each * weight[row]
            loss += each * weight[row] * value
            norms += each * _dot(negative, negative)
            total += slope
            logit_grads[place] = slope
            to_item = scale * slope
            to_user = to_item * user_weight[row]
            _spread(user, negative, kind(to_user), kind(to_item), kind(reg * each), grad, both_grads[place])
        logit_grads[row] = -total
        to_item = -scale * total
        to_user = to_item * user_weight[row]
        _spread(user, item, kind(to_user), kind(to_item), kind(reg * one), grad, both_grads[row])
    return loss + 0.5 * reg * norms


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def normalise(rows, units, norms, eps):  # type: ignore[no-untyped-def]
    """Write rows [n, dim] divided by their norms to ``units``, and the norms, at least ``eps``, to ``norms``."""
    kind = rows.dtype.type
    for place in range(rows.shape[0]):
        row, unit = rows[place], units[place]
        norms[place] = kind(max(math.sqrt(_dot(row, row)), eps))
        factor = kind(1.0) / norms[place]
        for d in range(row.shape[0]):
            unit[d] = factor * row[d]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def through_norm(grads, units, norms, rows, reg):  # type: ignore[no-untyped-def]
    """Convert gradients of unit vectors, in place, to gradients of the original rows, and add ``reg`` · row."""
    kind = rows.dtype.type
    pull = kind(reg)
    for place in range(grads.shape[0]):
        grad, unit, row = grads[place], units[place], rows[place]
        along = _dot(grad, unit)
        factor = kind(1.0) / norms[place]
        for d in range(grad.shape[0]):
            grad[d] = factor * (grad[d] - along * unit[d]) + pull * row[d]
