"""Training methods: each one wraps any backbone."""

from typing import Any

from icpe.backbones.base import Backbone
from icpe.methods.base import Method
from icpe.methods.baselines import Popularity, Random
from icpe.methods.bc_loss import BCLoss
from icpe.methods.bsl import BSL
from icpe.methods.causpref import CausPref
from icpe.methods.cpr import CPR
from icpe.methods.dice import DICE
from icpe.methods.icpe import ICPE
from icpe.methods.in_batch import InBatch
from icpe.methods.invpref import InvPref
from icpe.methods.ips import IPS
from icpe.methods.logit_adjustment import LogitAdjustment
from icpe.methods.macr import MACR
from icpe.methods.normal import Normal
from icpe.methods.paac import PAAC
from icpe.methods.pd import PD
from icpe.methods.penalty import PopularityPenalty
from icpe.methods.popdcl import PopDCL
from icpe.methods.popgo import PopGo
from icpe.methods.psl import PSL
from icpe.methods.relmf import RelMF
from icpe.methods.resn import ReSN
from icpe.methods.ubpr import UBPR
from icpe.registry import Registry
from icpe.train.batch import Batch, Negatives

# The methods that the paper compares, in its order; further ones; those of 2023 to 2025; and baselines, which learn
# nothing.
_PAPER: tuple[type[Method], ...] = (Normal, DICE, MACR, CPR, CausPref, BCLoss, InvPref, ICPE)
_FURTHER: tuple[type[Method], ...] = (IPS, UBPR, RelMF, PD, PopularityPenalty, LogitAdjustment, InBatch)
_RECENT: tuple[type[Method], ...] = (PSL, BSL, ReSN, PAAC, PopDCL, PopGo)
_BASELINES: tuple[type[Method], ...] = (Popularity, Random)

METHODS: Registry[type[Method]] = Registry("method", "icpe.methods", (*_PAPER, *_FURTHER, *_RECENT, *_BASELINES))


def make_method(name: str, backbone: Backbone, **settings: Any) -> Method:
    """Return the method of this name on a backbone.

    Raises:
        ConfigError: the name or a setting is unknown, with the nearest one, or a value is out of range.
    """
    return METHODS.find(name)(backbone, **settings)


__all__ = [
    "BSL",
    "CPR",
    "DICE",
    "ICPE",
    "IPS",
    "MACR",
    "METHODS",
    "PAAC",
    "PD",
    "PSL",
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
    "PopDCL",
    "PopGo",
    "Popularity",
    "PopularityPenalty",
    "Random",
    "ReSN",
    "RelMF",
    "make_method",
]
