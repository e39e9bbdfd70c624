"""The clusters of items during training: who is where, how their gradients lie, what they weigh."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from icpe.cluster import gaussian_rank, plain_clusters, popularity_clusters, popularity_quantiles, propensity_features
from icpe.errors import ConfigError
from icpe.methods.icpe.propensity import Autoencoder
from icpe.pareto import pareto_weights
from icpe.types import BoolArray, FloatArray, IntArray

Features = Literal["propensity", "paper", "popularity", "plain"]


@dataclass(frozen=True)
class ClusterSettings:
    """See :class:`icpe.methods.ICPE`.

    Attributes:
        clusters: at most (K).
        features: what they are made of.
        low: least lower bound of a weight, as a share of 1/K.
        high: greatest lower bound of a weight, as a share of 1/K.
        runs: solutions among which the least misery chooses (T).
        per_item: whether a cluster's gradient is divided by its number of items.
    """

    clusters: int
    features: Features
    low: float
    high: float
    runs: int
    per_item: bool


class ItemClusters(nn.Module):
    """Labels, Gram matrix and weights; all of it buffers, so that checkpoints hold it.

    Args:
        settings: see there.
        counts: training pairs of each item, [items].
        width: length of an item's representation.
        rng: start values of the autoencoder.
    """

    labels: Tensor
    gram: Tensor
    weights: Tensor
    item_weight: Tensor

    def __init__(self, settings: ClusterSettings, counts: IntArray, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self._settings, self._counts = settings, counts
        most = settings.clusters
        self.register_buffer("labels", torch.zeros(len(counts), dtype=torch.int64))
        self.register_buffer("gram", torch.zeros(most, most))
        self.register_buffer("weights", torch.ones(most))
        self.register_buffer("item_weight", torch.ones(len(counts)))
        if settings.features != "popularity":
            self.autoencoder = Autoencoder(width, rng)

    @property
    def number(self) -> int:
        """Of clusters there are; fewer than asked for where items cannot be told apart."""
        return int(self.labels.max()) + 1

    def label_array(self) -> IntArray:
        """Cluster of each item, int64 [items]."""
        array: IntArray = self.labels.cpu().numpy()
        return array

    def regroup(self, items: Tensor, propensity: FloatArray, rng: np.random.Generator) -> None:
        """Cluster the items anew.

        Args:
            items: representations, [items, D].
            propensity: S^g, [items].
            rng: for the starts of k-means.
        """
        kind, most = self._settings.features, self._settings.clusters
        if kind == "popularity":
            labels = popularity_quantiles(self._counts, most)
        else:
            codes = self.autoencoder.fit_codes(items, rng).cpu().double().numpy()
            rank = gaussian_rank(propensity)
            if kind == "propensity":
                labels = popularity_clusters(propensity_features(codes, propensity), rank, most, rng)
            elif kind == "paper":
                labels = popularity_clusters(codes, propensity, most, rng)
            else:
                labels = plain_clusters(codes, most, rng, order_by=propensity)
        self.labels.copy_(torch.from_numpy(labels.astype(np.int64)))
        self.item_weight.fill_(1.0)

    def weigh(self, gram: FloatArray, rng: np.random.Generator, keep: float = 0.0) -> None:
        """Take over the clusters' gradients and set the weights.

        Args:
            gram: inner products of the summed gradients, float64 [number, number].
            rng: for the lower bounds.
            keep: share of the former matrix that stays, for a moving average.
        """
        number = self.number
        if self._settings.per_item:
            sizes = np.bincount(self.label_array(), minlength=number)
            gram = gram / np.outer(sizes, sizes)
        fresh = torch.zeros_like(self.gram)
        fresh[:number, :number] = torch.from_numpy(gram).to(fresh)
        self.gram.copy_(keep * self.gram + (1 - keep) * fresh if keep and bool(self.gram.any()) else fresh)
        matrix = self.gram[:number, :number].cpu().double().numpy()
        solved = pareto_weights(matrix, rng, self._settings.low, self._settings.high, self._settings.runs)
        # The mean over training pairs is 1: with a sum of 1 the positives would lose against the negatives.
        labels = self.label_array()
        solved = solved / np.average(solved[labels], weights=np.maximum(self._counts, 1e-9))
        self.weights.zero_()
        self.weights[:number] = torch.from_numpy(solved).to(self.weights)
        self.item_weight.copy_(self.weights[self.labels])

    def diagnostics(self, propensity: FloatArray, niche: BoolArray) -> dict[str, Any]:
        """What there is to see, by cluster from the most to the least popular.

        Args:
            propensity: S^g, [items].
            niche: mask of niche items.
        """
        number, labels = self.number, self.label_array()
        sizes = np.bincount(labels, minlength=number)
        gram = self.gram[:number, :number].cpu().double().numpy()
        norms = np.sqrt(np.maximum(np.diag(gram), 0))
        lengths = np.outer(norms, norms)
        cosine = np.divide(gram, lengths, out=np.zeros_like(gram), where=lengths > 0)
        item_weight = self.item_weight.cpu().numpy()
        return {
            "size": sizes.tolist(),
            "popularity": _means(self._counts, labels, sizes),
            "propensity": _means(propensity, labels, sizes),
            "gradient_norm": norms.tolist(),
            "cosine": cosine.tolist(),
            "weight": self.weights[:number].tolist(),
            "niche_weight": float(item_weight[niche].mean()) if niche.any() else None,
            "spearman": _spearman(propensity, self._counts),
        }


def read_bounds(bounds: Any) -> tuple[float, float]:
    """One lower bound of weights or two, as the two ends of a range; shares of 1/K.

    Raises:
        ConfigError: out of range.
    """
    ends = list(bounds) if isinstance(bounds, list | tuple) else [bounds, bounds]
    if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends) or not 0 <= ends[0] <= ends[1] <= 1:
        raise ConfigError(
            f"bounds is {bounds!r}; expected a share of 1/clusters from 0 to 1, such as 0.9, or two in ascending order"
        )
    return float(ends[0]), float(ends[1])


def _means(values: FloatArray | IntArray, labels: IntArray, sizes: IntArray) -> list[float]:
    means: list[float] = (np.bincount(labels, values, len(sizes)) / sizes).tolist()
    return means


def _spearman(one: FloatArray, other: FloatArray | IntArray) -> float | None:
    """Rank correlation; None where one of them is constant."""
    left, right = (_ranks(values) for values in (one, other))
    if left.std() == 0 or right.std() == 0:
        return None
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: FloatArray | IntArray) -> FloatArray:
    """Ranks with ties averaged."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: FloatArray = (last - (count - 1) / 2)[place]
    return ranks
