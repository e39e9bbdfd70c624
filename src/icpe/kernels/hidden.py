"""Element-wise steps of a network with one hidden layer, each in one pass over the rows."""

import numba

# Reordering of sums is allowed so that they can use vector instructions. NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def activate(hidden, bias, outer, outer_bias, leak, factor, out):  # type: ignore[no-untyped-def]
    """Set ``hidden`` [n, h] to LeakyReLU(hidden + bias) and write factor · (hidden · outer + outer_bias) to ``out``.

    Args:
        hidden: product with the weights of the inner layer, changed in place.
        bias: bias of the inner layer, [h].
        outer: weights of the outer layer, [1, h].
        outer_bias: bias of the outer layer, [1].
        leak: slope of LeakyReLU below 0.
        factor: factor of the output.
        out: output [n], written.
    """
    kind = hidden.dtype.type
    slope, scale = kind(leak), kind(factor)
    for place in range(hidden.shape[0]):
        row = hidden[place]
        total = outer_bias[0]
        for unit in range(row.shape[0]):
            value = row[unit] + bias[unit]
            value = max(value, slope * value)
            row[unit] = value
            total += value * outer[0, unit]
        out[place] = scale * total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def activate_back(hidden, outer, grads, leak, factor, hidden_grads, bias_grad, outer_grad, end_grad):  # type: ignore[no-untyped-def]
    """Backward pass of :func:`activate`, from the gradients ``grads`` [n] of its output.

    It writes the gradients of the hidden layer before activation [n, h], of its bias [h], of ``outer`` [1, h] and of
    ``outer_bias`` [1].
    """
    kind = hidden.dtype.type
    slope, scale = kind(leak), kind(factor)
    whole = kind(0)
    bias_grad[:] = 0
    outer_grad[:] = 0
    for place in range(hidden.shape[0]):
        row, to_row = hidden[place], hidden_grads[place]
        grad = scale * grads[place]
        whole += grad
        for unit in range(row.shape[0]):
            value = row[unit]
            outer_grad[0, unit] += grad * value
            back = grad * outer[0, unit] * (kind(1) if value > 0 else slope)
            to_row[unit] = back
            bias_grad[unit] += back
    end_grad[0] = whole
