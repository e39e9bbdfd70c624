"""The catalogue of public data sets, where they are found and how they are downloaded."""

from icpe.data.datasets.catalogue import CATALOGUE, Dataset, RemoteFile, find_dataset
from icpe.data.datasets.download import fetch
from icpe.data.datasets.items import item_names, item_tags
from icpe.data.datasets.places import cache_dir, locate

__all__ = [
    "CATALOGUE",
    "Dataset",
    "RemoteFile",
    "cache_dir",
    "fetch",
    "find_dataset",
    "item_names",
    "item_tags",
    "locate",
]
