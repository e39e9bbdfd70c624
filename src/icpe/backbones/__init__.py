"""Backbones: models that score pairs of users and items."""

from typing import Any

from icpe.backbones.base import Backbone, DotBackbone, TableSettings, normal_table, uniform_matrix
from icpe.backbones.lightgcn import LightGCN
from icpe.backbones.mf import MF
from icpe.backbones.neumf import NeuMF
from icpe.backbones.rows import RowParameter, take_rows
from icpe.registry import Registry

BACKBONES: Registry[type[Backbone]] = Registry("backbone", "icpe.backbones", (MF, NeuMF, LightGCN))


def make_backbone(name: str, **settings: Any) -> Backbone:
    """Return the backbone of this name with these settings.

    Raises:
        ConfigError: the name or a setting is unknown, with the nearest one, or a value is out of range.

    Example:
        >>> make_backbone("mf", dim=8).settings.as_dict()
        {'dim': 8, 'init_std': 0.01}
    """
    return BACKBONES.find(name)(**settings)


__all__ = [
    "BACKBONES",
    "MF",
    "Backbone",
    "DotBackbone",
    "LightGCN",
    "NeuMF",
    "RowParameter",
    "TableSettings",
    "make_backbone",
    "normal_table",
    "take_rows",
    "uniform_matrix",
]
