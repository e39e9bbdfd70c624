"""Inner products of the gradients that clusters of items send to the shared parameters (M of paper Eq. 9), by autograd.

Each cluster is differentiated with its own pairs only, so that all clusters together cost about one pass over the data.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.types import FloatArray, IntArray

# User codes and item codes → the rows of the users, and the loss of each pair.
PairLosses = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# What :func:`icpe.kernels.gram.gram_bce` begins with.
Pairs = tuple[IntArray, IntArray, IntArray, int, FloatArray, FloatArray, FloatArray]
_AT_ONCE = 1 << 16  # scores in one pass where each goes through layers
_PRODUCTS = 1 << 24  # scores in one pass where they are inner products
_AT_MOST = 1 << 16  # scores in all, where a pass is expensive


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
    """Inner products of the gradients of each cluster's summed loss, float64 [clusters, clusters].

    Args:
        backbone: whose shared parameters.
        losses: see there.
        user: int [pairs].
        item: int [pairs].
        labels: cluster of each item.
        clusters: how many there are.
        at_rows: take the users' gradient at the rows that ``losses`` returns, not at parameters.
        rng: draws pairs where there are more than are affordable; None: all pairs count.
        scores: how many scores the loss of a pair needs.
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
    """The same at the users' rows of inner products, without autograd.

    Args:
        loss: ``"bce"`` or ``"softmax"``.
        scale: factor of the product, or of the cosine for softmax.
        negatives: for softmax, places in the table of items that all positives stand against.
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
    """Gradient of the summed loss of some pairs: one tensor per shared parameter, or first a table of user rows."""
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
    """Gram matrix of gradients given as lists of tensors, float64 [K, K]; one without tensors is 0."""
    gram = np.zeros((len(gradients), len(gradients)))
    exact = [[one.cpu().double() for one in tensors] for tensors in gradients]  # not every device has float64
    for one, left in enumerate(exact):
        for other, right in enumerate(exact[: one + 1]):
            products = (float((a * b).sum()) for a, b in zip(left, right, strict=False))
            gram[one, other] = gram[other, one] = sum(products)
    return gram
