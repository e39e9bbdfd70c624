"""The item clusters of a training run: labels, inner products of their gradients, and weights."""

from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from icpe.cluster import gaussian_rank, plain_clusters, popularity_clusters, popularity_quantiles, propensity_features
from icpe.methods.icpe.propensity import Autoencoder
from icpe.methods.icpe.settings import ICPESettings
from icpe.pareto import pareto_weights
from icpe.types import BoolArray, FloatArray, IntArray


class ItemClusters(nn.Module):
    """Labels, Gram matrix and weights of the clusters. All are buffers, so that checkpoints contain them.

    Args:
        settings: settings of ICPE.
        counts: number of training pairs of each item, [items].
        width: length of an item's representation.
        rng: generator of the initial values of the autoencoder.
    """

    labels: Tensor
    gram: Tensor
    weights: Tensor
    item_weight: Tensor

    def __init__(self, settings: ICPESettings, counts: IntArray, width: int, rng: np.random.Generator) -> None:
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
        """Number of clusters found. It can be smaller than requested when items are indistinguishable."""
        return int(self.labels.max()) + 1

    def label_array(self) -> IntArray:
        """Return the cluster of each item, int64 [items]."""
        array: IntArray = self.labels.cpu().numpy()
        return array

    def assign(self, items: Tensor, propensity: FloatArray, rng: np.random.Generator) -> None:
        """Cluster the items again.

        Args:
            items: representations, [items, D].
            propensity: S^g, [items].
            rng: generator of the initial centres of k-means.
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
        """Compute the weights of the clusters from their gradients.

        Args:
            gram: inner products of the summed gradients, float64 [number, number].
            rng: generator of the lower bounds.
            keep: share of the previous matrix in a moving average.
        """
        number = self.number
        if self._settings.per_item:
            sizes = np.bincount(self.label_array(), minlength=number)
            gram = gram / np.outer(sizes, sizes)
        fresh = torch.zeros_like(self.gram)
        fresh[:number, :number] = torch.from_numpy(gram).to(fresh)
        self.gram.copy_(keep * self.gram + (1 - keep) * fresh if keep and bool(self.gram.any()) else fresh)
        matrix = self.gram[:number, :number].cpu().double().numpy()
        solved = pareto_weights(matrix, rng, *self._settings.bounds, self._settings.runs)
        # The mean over training pairs is 1. With a sum of 1 the positives would weigh less than the negatives.
        labels = self.label_array()
        solved = solved / np.average(solved[labels], weights=np.maximum(self._counts, 1e-9))
        self.weights.zero_()
        self.weights[:number] = torch.from_numpy(solved).to(self.weights)
        self.item_weight.copy_(self.weights[self.labels])

    def diagnostics(self, propensity: FloatArray, niche: BoolArray) -> dict[str, Any]:
        """Return sizes, gradients and weights, by cluster from the most to the least popular.

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


def _means(values: FloatArray | IntArray, labels: IntArray, sizes: IntArray) -> list[float]:
    means: list[float] = (np.bincount(labels, values, len(sizes)) / sizes).tolist()
    return means


def _spearman(one: FloatArray, other: FloatArray | IntArray) -> float | None:
    """Return the rank correlation, or None if one of the arrays is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(spearmanr(one, other).statistic)
