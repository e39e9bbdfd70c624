"""How hard items pull at what all share, and whether they pull against each other (the paper's motivating figure)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.methods.icpe.gram import evaluating, inner_products
from icpe.methods.icpe.method import ICPE
from icpe.methods.normal import Normal
from icpe.recommender import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.train import Trainer
from icpe.train.method import Method
from icpe.types import FloatArray, IntArray

OnStep = Callable[[int, int], None]  # steps done, and steps in all
_PAIRS = 1 << 16  # pairs in one pass


@dataclass(frozen=True)
class Conflicts:
    """The gradient of one head item against those of niche items, on the shared parameters.

    Attributes:
        head_item: id of the head item.
        niche: frame ``item_id, popularity, cosine``, a row per niche item, smallest cosine first.
        arrows: frame ``name, item_id, length, x, y``: the head item, the niche item of the smallest and that of the
            median cosine, and the sum of the three, along their first two principal directions.
        explained: share of the squared lengths of the four along each of the two directions.
    """

    head_item: object
    niche: pl.DataFrame
    arrows: pl.DataFrame
    explained: tuple[float, float]

    @property
    def share_below_zero(self) -> float:
        """Of the niche items, those whose gradient points against the head item's."""
        return float((self.niche["cosine"] < 0).mean())  # type: ignore[arg-type]


def method_of(trained: Model | Method) -> Method:
    """The method itself."""
    return trained.method if isinstance(trained, Model) else trained


def own_logits(method: Method, users: Tensor, items: Tensor) -> Tensor:
    """S^n of pairs of representations [pairs, D], [pairs]: the backbone's logit, or cosine / τ after softmax."""
    vectors = method.backbone.vectors(users, items)
    if not isinstance(method, Normal) or method.loss_kind != "softmax":
        return method.backbone.score(users, items)
    if vectors is None:
        return method.backbone.score(users, items) / method.temperature
    return F.cosine_similarity(vectors[0], vectors[1], dim=-1) / method.temperature


def pair_logits(trained: Model | Method, users: IntArray, items: IntArray, factual: bool = False) -> FloatArray:
    """S^n of pairs given by codes, float64 [pairs]; with ``factual`` ICPE's score of training, Ŷ."""
    method, found = method_of(trained), []
    with evaluating(method), torch.no_grad():
        z_user, z_item = method.backbone.reps()
        for first in range(0, len(users), _PAIRS):
            user, item = (_codes(one[first : first + _PAIRS], z_user) for one in (users, items))
            logits = own_logits(method, z_user[user], z_item[item])
            if factual and isinstance(method, ICPE):
                logits = method.own_share * logits + method.offset(z_item[item], item)
            found.append(logits.cpu().double().numpy())
    return np.concatenate(found) if found else np.empty(0)


def first_epoch(config: RunConfig, train: Interactions, on_step: OnStep | None = None) -> Method:
    """The method of a configuration after one epoch."""
    method = config.updated("train", {"epochs": 1}).make_method()
    settings = config.updated("train", {"epochs": 1}).train_settings(method)
    trainer = Trainer(method, train, config.seed, settings)
    trainer.run(None if on_step is None else lambda position: on_step(position.step, trainer.steps))
    return method


class ItemGradients:
    """Gradients of the items' summed positive losses (L_i⁺, bce of S^n) on the shared parameters, one at a time.

    Representations are made once, so that an item costs one backward pass.

    Args:
        method: built; dropout is off.
        train: the training part.
    """

    def __init__(self, method: Method, train: Interactions) -> None:
        self._method, self.train = method, train
        self.shared = method.backbone.shared_parameters()
        with evaluating(method), torch.enable_grad():
            self._users, self._items = method.backbone.reps()
        order = np.argsort(train.item, kind="stable")
        self._by_item = np.split(train.user[order], np.cumsum(train.item_counts)[:-1])

    def of(self, item: int) -> list[Tensor]:
        """One tensor for each of :attr:`shared`."""
        users = _codes(self._by_item[item], self._users)
        with torch.enable_grad():
            mine, theirs = self._users[users], self._items[item].expand(len(users), -1)
            loss = F.softplus(-own_logits(self._method, mine, theirs)).sum()
        found = torch.autograd.grad(loss, self.shared, retain_graph=True, allow_unused=True)
        return [
            torch.zeros_like(one) if gradient is None else gradient
            for one, gradient in zip(self.shared, found, strict=True)
        ]


def norm(gradients: Sequence[Tensor]) -> float:
    """Length of a gradient given as several tensors, summed in float64."""
    return math.sqrt(sum(float(one.double().square().sum()) for one in gradients))


def item_gradients(
    trained: Model | Method, train: Interactions, most: int = 2000, on_step: OnStep | None = None
) -> pl.DataFrame:
    """How hard each item pulls: the norm of the gradient of its summed positive loss on the shared parameters.

    Shared are the users' rows and common layers, as in ICPE; for LightGCN the trainable rows, behind the propagation.

    Args:
        trained: e.g. LightGCN after :func:`first_epoch`.
        train: the training part.
        most: items; where there are more, these are spread evenly over the ranks of popularity.
        on_step: called after each item.

    Returns:
        A frame ``item_id, popularity, head, gradient_norm``, the most popular first; items without training pairs
        are left out.
    """
    counts = train.item_counts
    ranked = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    if len(ranked) > most:
        ranked = ranked[np.linspace(0, len(ranked) - 1, most).round().astype(int)]
    gradients, norms = ItemGradients(method_of(trained), train), []
    for place, item in enumerate(ranked, 1):
        norms.append(norm(gradients.of(int(item))))
        if on_step is not None:
            on_step(place, len(ranked))
    return pl.DataFrame(
        {
            col.ITEM: train.items.gather(ranked),
            "popularity": counts[ranked],
            "head": head_mask(counts)[ranked],
            "gradient_norm": np.array(norms),
        }
    )


def conflicts(
    trained: Model | Method, train: Interactions, niche: int = 300, rng: int = 0, head_item: int | None = None
) -> Conflicts:
    """Cosines between the gradients of one head item and of niche items.

    Args:
        trained: as of :func:`item_gradients`.
        train: the training part.
        niche: how many niche items to draw.
        rng: seed of the draw.
        head_item: code of the head item; None: the most popular.

    Raises:
        DataError: fewer than two niche items have training pairs.
    """
    counts = train.item_counts
    known = np.flatnonzero(~head_mask(counts) & (counts > 0))
    if len(known) < 2:
        raise DataError(f"{len(known)} niche items have training pairs; conflicts need two: take a larger log")
    drawn = stream(rng, "studies/conflicts").choice(known, min(niche, len(known)), replace=False)
    head = int(counts.argmax()) if head_item is None else head_item
    gradients = ItemGradients(method_of(trained), train)
    of_head, cosines = gradients.of(head), []
    for item in drawn:
        gram = inner_products([of_head, gradients.of(int(item))])
        lengths = float(np.sqrt(gram[0, 0] * gram[1, 1]))
        cosines.append(gram[0, 1] / lengths if lengths > 0 else 0.0)
    order = np.argsort(cosines, kind="stable")
    ranked = drawn[order]
    arrows, explained = _arrows(gradients, head, int(ranked[0]), int(ranked[len(ranked) // 2]))
    frame = pl.DataFrame(
        {
            col.ITEM: train.items.gather(ranked),
            "popularity": counts[ranked],
            "cosine": np.array(cosines)[order],
        }
    )
    return Conflicts(train.items[head], frame, arrows, explained)


def _arrows(gradients: ItemGradients, head: int, one: int, other: int) -> tuple[pl.DataFrame, tuple[float, float]]:
    of_items = [gradients.of(item) for item in (head, one, other)]
    total = [torch.stack(parts).sum(0) for parts in zip(*of_items, strict=True)]
    gram = inner_products([*of_items, total])
    places, explained = principal_arrows(gram)
    ids = gradients.train.items.gather([head, one, other])
    arrows = pl.DataFrame(
        {
            "name": ["head", "niche, most against", "niche, median", "sum"],
            col.ITEM: pl.concat([ids, pl.Series(ids.name, [None], ids.dtype)]),
            "length": np.sqrt(np.diagonal(gram)),
            "x": places[:, 0],
            "y": places[:, 1],
        }
    )
    return arrows, explained


def principal_arrows(gram: FloatArray) -> tuple[FloatArray, tuple[float, float]]:
    """Vectors along their first two principal directions through the origin, from their inner products alone.

    Args:
        gram: [n, n].

    Returns:
        float64 [n, 2], the first vector pointing right and the second upwards; and the share of the squared lengths
        along each direction.

    Example:
        >>> places, explained = principal_arrows(np.array([[4.0, 0.0], [0.0, 1.0]]))
        >>> places.tolist(), explained
        ([[2.0, 0.0], [0.0, 1.0]], (0.8, 0.2))
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values[::-1], 0)
    places = (vectors[:, ::-1] * np.sqrt(values))[:, :2]
    for axis, leading in enumerate((0, 1)):
        if places[leading, axis] < 0:
            places[:, axis] *= -1
    shares = values / max(values.sum(), 1e-300)
    return places + 0.0, (float(shares[0]), float(shares[1]))


def _codes(codes: IntArray, like: Tensor) -> Tensor:
    return torch.from_numpy(codes.astype(np.int64)).to(like.device)
