"""Training methods: each wraps any backbone."""

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from icpe.backbones.base import Backbone
from icpe.errors import ConfigError
from icpe.methods.baselines import Popularity, Random
from icpe.methods.bc_loss import BCLoss
from icpe.methods.causpref import CausPref
from icpe.methods.cpr import CPR
from icpe.methods.dice import DICE
from icpe.methods.icpe.method import ICPE
from icpe.methods.in_batch import InBatch
from icpe.methods.invpref import InvPref
from icpe.methods.ips import IPS
from icpe.methods.logit_adjustment import LogitAdjustment
from icpe.methods.macr import MACR
from icpe.methods.normal import Normal
from icpe.methods.pd import PD
from icpe.methods.penalty import PopularityPenalty
from icpe.methods.relmf import RelMF
from icpe.methods.ubpr import UBPR
from icpe.train.method import Batch, Method, Negatives, make_from_settings

_PAPER: tuple[type[Method], ...] = (Normal, DICE, MACR, CPR, CausPref, BCLoss, InvPref, ICPE)
_FURTHER: tuple[type[Method], ...] = (IPS, UBPR, RelMF, PD, PopularityPenalty, LogitAdjustment, InBatch)
_FLOORS: tuple[type[Method], ...] = (Popularity, Random)
METHODS: dict[str, type[Method]] = {kind.name: kind for kind in (*_PAPER, *_FURTHER, *_FLOORS)}


def find_method(name: str) -> type[Method]:
    """A kind of method by its name; others may be added through the entry point group ``icpe.methods``.

    Raises:
        ConfigError: no such method; the message names the nearest.
    """
    found = METHODS.get(name)
    if found is None:
        added = {entry.name: entry for entry in entry_points(group="icpe.methods")}
        if name not in added:
            near = get_close_matches(name, [*METHODS, *added], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ConfigError(f"unknown method {name!r}{hint} There are {', '.join([*METHODS, *added])}")
        found = added[name].load()
    kind: type[Method] = found
    return kind


def make_method(name: str, backbone: Backbone, **settings: Any) -> Method:
    """A method by its name.

    Raises:
        ConfigError: no such method or setting; the message names the nearest.
    """
    made: Method = make_from_settings(find_method(name), settings, f"method {name!r}", backbone)
    return made


__all__ = [
    "CPR",
    "DICE",
    "ICPE",
    "IPS",
    "MACR",
    "METHODS",
    "PD",
    "UBPR",
    "BCLoss",
    "Batch",
    "CausPref",
    "InBatch",
    "InvPref",
    "LogitAdjustment",
    "Method",
    "Negatives",
    "Normal",
    "Popularity",
    "PopularityPenalty",
    "Random",
    "RelMF",
    "find_method",
    "make_method",
]
