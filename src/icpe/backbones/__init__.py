"""Backbones: models that score pairs of users and items."""

import inspect
from typing import Any

from icpe.backbones._checks import unknown
from icpe.backbones.base import Backbone
from icpe.backbones.lightgcn import LightGCN
from icpe.backbones.mf import MF
from icpe.backbones.neumf import NeuMF
from icpe.ranking.tables import DotScores, NeuMFScores, PairScores, ScoreTable

__all__ = [
    "BACKBONES",
    "MF",
    "Backbone",
    "DotScores",
    "LightGCN",
    "NeuMF",
    "NeuMFScores",
    "PairScores",
    "ScoreTable",
    "make_backbone",
]

BACKBONES: dict[str, type[Backbone]] = {backbone.name: backbone for backbone in (MF, NeuMF, LightGCN)}


def make_backbone(name: str, **settings: Any) -> Backbone:
    """The backbone of this name with these settings.

    Raises:
        ConfigError: there is no such backbone or setting, with the nearest that exists; or a value is out of range.

    Example:
        >>> make_backbone("mf", dim=8).settings()
        {'dim': 8, 'init_std': 0.01}
    """
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    known = inspect.signature(BACKBONES[name]).parameters
    for setting in settings:
        if setting not in known:
            raise unknown(f"setting of {name}", setting, known)
    return BACKBONES[name](**settings)
