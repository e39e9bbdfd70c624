"""Backbones: models that score pairs of users and items."""

import inspect
from typing import Any

from icpe.models._checks import unknown
from icpe.models.base import Backbone
from icpe.models.lightgcn import LightGCN
from icpe.models.mf import MF
from icpe.models.neumf import NeuMF
from icpe.models.scores import DotScores, NeuMFScores, PairScores, ScoreTable

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
