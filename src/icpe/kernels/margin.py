"""Softmax loss of cosines with a margin, and its gradient."""

import math

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def margin_softmax(users, items, positives, negatives, margin, temperature, user_grads, item_grads, least):  # type: ignore[no-untyped-def]
    """Mean cross-entropy of cos(θ + M) of positives against cos θ of negatives, on cosine / temperature.

    ``users`` and ``items`` are unit vectors, and ``positives`` and ``negatives`` are rows of ``items``. The gradients
    are added to two arrays of zeros. Where sin²θ is below ``least``, the sine counts as constant.
    """
    kind = users.dtype.type
    size, count = negatives.shape
    logits = np.empty(count, users.dtype)
    loss = 0.0
    for row in range(size):
        user, grad = users[row], user_grads[row]
        cosine = kind(0)
        item = items[positives[row]]
        for d in range(user.shape[0]):
            cosine += user[d] * item[d]
        angle = min(float(margin[row]), math.pi - math.acos(min(1.0, max(-1.0, float(cosine)))))
        squared = 1.0 - float(cosine) * float(cosine)
        sine = math.sqrt(max(squared, least))
        positive = (float(cosine) * math.cos(angle) - sine * math.sin(angle)) / temperature
        slope = math.cos(angle)
        if squared > least:
            slope += float(cosine) / sine * math.sin(angle)
        top = positive
        for draw in range(count):
            other, product = items[negatives[row, draw]], kind(0)
            for d in range(user.shape[0]):
                product += user[d] * other[d]
            logits[draw] = product / temperature
            top = max(top, float(logits[draw]))
        total = math.exp(positive - top)
        share = total
        for draw in range(count):
            logits[draw] = math.exp(logits[draw] - top)
            total += logits[draw]
        loss += top + math.log(total) - positive
        scale = 1.0 / (temperature * size)
        for draw in range(count):
            place = negatives[row, draw]
            other, other_grad = items[place], item_grads[place]
            pull = kind(scale * logits[draw] / total)
            for d in range(user.shape[0]):
                grad[d] += pull * other[d]
                other_grad[d] += pull * user[d]
        own_grad = item_grads[positives[row]]
        pull = kind(scale * (share / total - 1.0) * slope)
        for d in range(user.shape[0]):
            grad[d] += pull * item[d]
            own_grad[d] += pull * user[d]
    return loss / size
