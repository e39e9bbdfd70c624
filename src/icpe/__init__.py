"""Train recommenders on implicit feedback so that niche items are not drowned by head items.

The names below load on first use, so that ``import icpe`` and ``icpe --help`` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from icpe import export as export
    from icpe import simulate as simulate
    from icpe import split as split
    from icpe.backbones import MF as MF
    from icpe.backbones import Backbone as Backbone
    from icpe.backbones import LightGCN as LightGCN
    from icpe.backbones import NeuMF as NeuMF
    from icpe.data import Interactions as Interactions
    from icpe.data import World as World
    from icpe.data import describe as describe
    from icpe.data import make_world as make_world
    from icpe.data import open_log as open_log
    from icpe.errors import ConfigError as ConfigError
    from icpe.errors import DataError as DataError
    from icpe.errors import IcpeError as IcpeError
    from icpe.errors import NotFittedError as NotFittedError
    from icpe.methods import ICPE as ICPE
    from icpe.methods import Method as Method
    from icpe.methods import Normal as Normal
    from icpe.recommender import Model as Model
    from icpe.recommender import evaluate as evaluate
    from icpe.runs.load import load as load
    from icpe.settings import Settings as Settings
    from icpe.settings import setting as setting
    from icpe.train.batch import Batch as Batch
    from icpe.train.batch import Negatives as Negatives

_HOME = {
    "Backbone": "icpe.backbones",
    "Batch": "icpe.train.batch",
    "ICPE": "icpe.methods",
    "Method": "icpe.methods",
    "Negatives": "icpe.train.batch",
    "Settings": "icpe.settings",
    "setting": "icpe.settings",
    "LightGCN": "icpe.backbones",
    "MF": "icpe.backbones",
    "Model": "icpe.recommender",
    "NeuMF": "icpe.backbones",
    "Normal": "icpe.methods",
    "evaluate": "icpe.recommender",
    "load": "icpe.runs.load",
    "Interactions": "icpe.data",
    "World": "icpe.data",
    "describe": "icpe.data",
    "make_world": "icpe.data",
    "open_log": "icpe.data",
    "ConfigError": "icpe.errors",
    "DataError": "icpe.errors",
    "IcpeError": "icpe.errors",
    "NotFittedError": "icpe.errors",
}

__all__ = [*_HOME, "export", "simulate", "split"]


def __getattr__(name: str) -> Any:
    if name in ("export", "simulate", "split"):
        return import_module(f"icpe.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'icpe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
