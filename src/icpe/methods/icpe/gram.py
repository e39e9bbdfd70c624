"""Inner products of the gradients of item clusters with respect to the shared parameters (M of paper Eq. 9).

Each cluster is differentiated with its own pairs only, so that all clusters together cost about one pass over the data.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.types import FloatArray, IntArray

# A function from user codes and item codes to the rows of the users and the loss of each pair.
PairLosses = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# The first arguments of :func:`icpe.kernels.gram.gram_bce`.
Pairs = tuple[IntArray, IntArray, IntArray, int, FloatArray, FloatArray, FloatArray]
_AT_ONCE = 1 << 16  # scores in one pass if each goes through layers
_PRODUCTS = 1 << 24  # scores in one pass if they are inner products
_AT_MOST = 1 << 16  # total number of scores if a pass is expensive


def gram_by_autograd(
    backbone: Backbone,
    losses: PairLosses,
    user: IntArray,
    item: IntArray,
    labels: IntArray,
    clusters: int,
    at_rows: bool,
    rng: np.random.Generator | None = None,
    scores: int = 1,
) -> FloatArray:
    """Return the inner products of the gradients of the summed losses of clusters, float64 [clusters, clusters].

    Args:
        backbone: backbone with the shared parameters.
        losses: function that returns the losses of pairs, see :data:`PairLosses`.
        user: user codes, int [pairs].
        item: item codes, int [pairs].
        labels: cluster of each item, int [items].
        clusters: number of clusters.
        at_rows: whether to take the gradient of users at the rows that ``losses`` returns instead of at parameters.
        rng: generator that samples pairs if there are too many; with None all pairs are used.
        scores: number of scores that the loss of a pair needs.
    """
    of_pair = labels[item]
    pairs = np.arange(len(item))
    affordable = max(_AT_MOST // scores, 1024)
    if rng is not None and at_rows and len(pairs) > affordable:
        pairs = rng.choice(len(pairs), affordable, replace=False)
    at_once = max((_PRODUCTS if backbone.inner_product else _AT_ONCE) // scores, 256)
    found = [
        _gradient(backbone, losses, user, item, pairs[of_pair[pairs] == cluster], at_rows, at_once)
        for cluster in range(clusters)
    ]
    return inner_products(found) * (len(item) / len(pairs)) ** 2


def gram_by_kernel(loss: str, scale: float, negatives: IntArray, pairs: Pairs) -> FloatArray:
    """Return the same inner products without autograd, at the rows of users, for scores that are inner products.

    Args:
        loss: ``"bce"`` or ``"softmax"``.
        scale: factor of the inner product, or of the cosine for softmax.
        negatives: for softmax, rows of the item table that are the negatives of all positives.
        pairs: starts, items, labels, clusters, users, table and offset, see :func:`icpe.kernels.gram.gram_bce`.
    """
    from icpe.kernels.gram import gram_bce, gram_softmax  # late: numba takes a while to import

    return gram_bce(*pairs, scale) if loss == "bce" else gram_softmax(*pairs, scale, negatives)


def _gradient(
    backbone: Backbone,
    losses: PairLosses,
    user: IntArray,
    item: IntArray,
    pairs: IntArray,
    at_rows: bool,
    at_once: int,
) -> list[Tensor]:
    """Return the gradient of the summed loss of some pairs, one tensor for each shared parameter.

    With ``at_rows`` the first tensor is the gradient of the user rows, [users, D].
    """
    tables = {id(table) for table in backbone.row_tables()[0]}
    shared = [parameter for parameter in backbone.shared_parameters() if id(parameter) not in tables]
    device = next(backbone.parameters()).device
    totals: list[Tensor] = []
    for first in range(0, len(pairs), at_once):
        part = pairs[first : first + at_once]
        codes = [torch.from_numpy(one[part].astype(np.int64)).to(device) for one in (user, item)]
        with torch.enable_grad():
            rows, each = losses(*codes)
            wanted = [rows, *shared] if at_rows else shared
            got = torch.autograd.grad(each.sum(), wanted, allow_unused=True)
        filled = [
            torch.zeros_like(one) if gradient is None else gradient for one, gradient in zip(wanted, got, strict=True)
        ]
        if at_rows:
            filled[0] = rows.new_zeros(backbone.users, rows.shape[1]).index_add_(0, codes[0], filled[0])
        totals = [total + one for total, one in zip(totals, filled, strict=True)] if totals else filled
    return totals


def inner_products(gradients: Sequence[Sequence[Tensor]]) -> FloatArray:
    """Return the Gram matrix of gradients, float64 [K, K]. A gradient without tensors counts as 0."""
    gram = np.zeros((len(gradients), len(gradients)))
    exact = [[one.cpu().double() for one in tensors] for tensors in gradients]  # not every device has float64
    for one, left in enumerate(exact):
        for other, right in enumerate(exact[: one + 1]):
            products = (float((a * b).sum()) for a, b in zip(left, right, strict=False))
            gram[one, other] = gram[other, one] = sum(products)
    return gram
