"""Gradients of single items on the shared parameters, and conflicts between them (the paper's Figure 2)."""

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
from icpe.methods.icpe.gram import inner_products
from icpe.paper.analysis.logits import code_tensor, method_of, own_logits
from icpe.recommender import Model
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.train import Trainer
from icpe.train.method import TrainingMethod, evaluation_mode
from icpe.types import FloatArray

OnStep = Callable[[int, int], None]  # called with the number of finished steps and of all steps


@dataclass(frozen=True)
class Conflicts:
    """Angles between the gradient of a head item and those of niche items, on the shared parameters.

    Attributes:
        head_item: id of the head item.
        niche: frame ``item_id, popularity, cosine`` with a row per niche item, smallest cosine first.
        arrows: frame ``name, item_id, length, x, y`` of four gradients along their first two principal directions: the
            head item, the niche items with the smallest and the median cosine, and the sum of the three.
        explained: share of the squared lengths of the four gradients along each of the two directions.
    """

    head_item: object
    niche: pl.DataFrame
    arrows: pl.DataFrame
    explained: tuple[float, float]

    @property
    def share_below_zero(self) -> float:
        """Share of the niche items whose gradient has a negative cosine with that of the head item."""
        return float((self.niche["cosine"] < 0).mean())  # type: ignore[arg-type]


def first_epoch(config: RunConfig, train: Interactions, on_step: OnStep | None = None) -> TrainingMethod:
    """Method of a configuration, trained for one epoch."""
    method = config.updated("train", {"epochs": 1}).make_method()
    settings = config.updated("train", {"epochs": 1}).train_settings(method)
    trainer = Trainer(method, train, config.seed, settings)
    trainer.run(None if on_step is None else lambda position: on_step(position.step, trainer.steps))
    return method


class ItemGradients:
    """Gradients of the summed positive loss of single items (L_i⁺, bce of S^n) on the shared parameters.

    Representations are computed once, so that each item costs one backward pass. Dropout is off.

    Args:
        method: built method.
        train: training part.
    """

    def __init__(self, method: TrainingMethod, train: Interactions) -> None:
        self._method, self.train = method, train
        self.shared = method.backbone.shared_parameters()
        with evaluation_mode(method), torch.enable_grad():
            self._users, self._items = method.backbone.reps()
        order = np.argsort(train.item, kind="stable")
        self._by_item = np.split(train.user[order], np.cumsum(train.item_counts)[:-1])

    def of(self, item: int) -> list[Tensor]:
        """Gradient of an item, one tensor for each of :attr:`shared`."""
        users = code_tensor(self._by_item[item], self._users)
        with torch.enable_grad():
            mine, theirs = self._users[users], self._items[item].expand(len(users), -1)
            loss = F.softplus(-own_logits(self._method, mine, theirs)).sum()
        found = torch.autograd.grad(loss, self.shared, retain_graph=True, allow_unused=True)
        return [
            torch.zeros_like(one) if gradient is None else gradient
            for one, gradient in zip(self.shared, found, strict=True)
        ]


def norm(gradients: Sequence[Tensor]) -> float:
    """Euclidean norm of a gradient given as several tensors, summed in float64."""
    return math.sqrt(sum(float(one.double().square().sum()) for one in gradients))


def item_gradients(
    trained: Model | TrainingMethod, train: Interactions, most: int = 2000, on_step: OnStep | None = None
) -> pl.DataFrame:
    """Norm of the gradient of each item's summed positive loss on the shared parameters.

    As in ICPE, the rows of users and common layers are shared. For LightGCN these are the trainable rows before
    propagation.

    Args:
        trained: a model or method, for example LightGCN after :func:`first_epoch`.
        train: training part.
        most: largest number of items. If the log has more, they are spread evenly over the ranks of popularity.
        on_step: called after each item.

    Returns:
        Frame ``item_id, popularity, head, gradient_norm``, the most popular item first. Items without training pairs
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
    trained: Model | TrainingMethod, train: Interactions, niche: int = 300, rng: int = 0, head_item: int | None = None
) -> Conflicts:
    """Cosines between the gradients of one head item and of niche items.

    Args:
        trained: a model or method, as in :func:`item_gradients`.
        train: training part.
        niche: number of niche items to sample.
        rng: seed of the sample.
        head_item: code of the head item, or None for the most popular item.

    Raises:
        DataError: fewer than two niche items have training pairs.
    """
    counts = train.item_counts
    eligible = np.flatnonzero(~head_mask(counts) & (counts > 0))
    if len(eligible) < 2:
        raise DataError(f"{len(eligible)} niche items have training pairs; expected at least two. Use a larger log")
    drawn = stream(rng, "studies/conflicts").choice(eligible, min(niche, len(eligible)), replace=False)
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
    """Coordinates of vectors along their first two principal directions, computed from their inner products.

    Args:
        gram: inner products [n, n].

    Returns:
        Coordinates float64 [n, 2], such that the first vector points right and the second upwards, and the share of
        the squared lengths along each direction.

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
