"""Groups of items that differ in popularity. All functions take plain arrays."""

from icpe.cluster.bisecting import plain_clusters, popularity_clusters
from icpe.cluster.features import gaussian_rank, popularity_quantiles, propensity_features

__all__ = ["gaussian_rank", "plain_clusters", "popularity_clusters", "popularity_quantiles", "propensity_features"]
