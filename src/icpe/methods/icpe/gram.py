"""Inner products of the gradients of item clusters with respect to the shared parameters (M of paper Eq. 9).

Each cluster is differentiated with its own pairs only, so that all clusters together cost about one pass over the data.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.base import Backbone
from icpe.backbones.rows import share_of
from icpe.data.interactions import Interactions
from icpe.shards import Share, current
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
    divided = [*([True] if at_rows else []), *(share_of(one) is not None for one in _shared(backbone))]
    return _products_of_all(found, divided) * (len(item) / len(pairs)) ** 2


def gram_by_kernel(
    loss: str, scale: float, negatives: IntArray, pairs: Pairs, before: FloatArray | None = None
) -> FloatArray:
    """Return the same inner products without autograd, at the rows of users, for scores that are inner products.

    Args:
        loss: ``"bce"`` or ``"softmax"``.
        scale: factor of the inner product, or of the cosine for softmax.
        negatives: for softmax, rows of the item table that are the negatives of all positives.
        pairs: starts, items, labels, clusters, users, table and offset, see :func:`icpe.kernels.gram.gram_bce`.
        before: the result for earlier users, to which these are added.
    """
    from icpe.kernels.gram import gram_bce, gram_softmax  # late: numba takes a while to import

    if loss == "bce":
        return gram_bce(*pairs, scale, before)
    return gram_softmax(*pairs, scale, negatives, before)


def gram_of_log(loss: str, scale: float, negatives: IntArray, train: Interactions, rest: tuple[Any, ...]) -> FloatArray:
    """Return the result of :func:`gram_by_kernel` for all pairs of a log.

    Processes that share the users continue the sum of each other, so that it has the same bits as in one process.

    Args:
        loss: ``"bce"`` or ``"softmax"``.
        scale: factor of the inner product, or of the cosine for softmax.
        negatives: for softmax, rows of the item table that are the negatives of all positives.
        train: the training part.
        rest: labels, clusters, users of this process, table and offset.
    """
    starts, group = np.concatenate([[0], np.cumsum(train.user_counts)]), current()
    if group is None:
        return gram_by_kernel(loss, scale, negatives, (starts, train.item, *rest))
    share = Share.of(len(train.users), group)
    mine = starts[share.first : share.last + 1]
    pairs = (mine - mine[0], train.item[mine[0] : mine[-1]], *rest)
    clusters = rest[1]
    return group.chained(
        lambda before: gram_by_kernel(loss, scale, negatives, pairs, before), np.zeros((clusters, clusters))
    )


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
    shared = _shared(backbone)
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
            filled[0] = _by_user(filled[0], codes[0], backbone.users)
        totals = [total + one for total, one in zip(totals, filled, strict=True)] if totals else filled
    return totals


def _products_of_all(gradients: Sequence[Sequence[Tensor]], divided: Sequence[bool]) -> FloatArray:
    """Return the inner products of gradients. If processes share tables, ``divided`` says which tensors are parts.

    Such sums differ in the last bits from those of one process, because their order differs.
    """
    group = current()
    if group is None:
        return inner_products(gradients)
    # Tensors that are not divided are the same in all processes, so the first one alone counts them.
    mine = [[one for one, part in zip(every, divided, strict=False) if part or group.rank == 0] for every in gradients]
    return np.asarray(np.sum(group.all_values(inner_products(mine).tolist()), axis=0))


def _shared(backbone: Backbone) -> list[nn.Parameter]:
    """Return the shared parameters whose gradients are not taken at the rows of users."""
    tables = {id(table) for table in backbone.row_tables()[0]}
    return [parameter for parameter in backbone.shared_parameters() if id(parameter) not in tables]


def _by_user(gradients: Tensor, user: Tensor, users: int) -> Tensor:
    """Return the sum of the gradients of each user of this process, [pairs, D] → [users, D]."""
    group = current()
    if group is None:
        return gradients.new_zeros(users, gradients.shape[1]).index_add_(0, user, gradients)
    share = Share.of(users, group)
    mine = (user >= share.first) & (user < share.last)
    table = gradients.new_zeros(share.last - share.first, gradients.shape[1])
    return table.index_add_(0, user[mine] - share.first, gradients[mine])


def inner_products(gradients: Sequence[Sequence[Tensor]]) -> FloatArray:
    """Return the Gram matrix of gradients, float64 [K, K]. A gradient without tensors counts as 0."""
    gram = np.zeros((len(gradients), len(gradients)))
    exact = [[one.cpu().double() for one in tensors] for tensors in gradients]  # not every device has float64
    for one, left in enumerate(exact):
        for other, right in enumerate(exact[: one + 1]):
            products = (float((a * b).sum()) for a, b in zip(left, right, strict=False))
            gram[one, other] = gram[other, one] = sum(products)
    return gram
