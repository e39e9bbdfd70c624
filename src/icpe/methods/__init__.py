"""Training methods: each wraps any backbone."""

from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from icpe.errors import ConfigError
from icpe.methods.base import Batch, Method, Negatives, make_from_settings
from icpe.methods.icpe import ICPE
from icpe.methods.in_batch import InBatch
from icpe.methods.logit_adjustment import LogitAdjustment
from icpe.methods.normal import Normal
from icpe.methods.penalty import PopularityPenalty
from icpe.models.base import Backbone

METHODS: dict[str, type[Method]] = {
    kind.name: kind for kind in (Normal, ICPE, PopularityPenalty, LogitAdjustment, InBatch)
}


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
    "ICPE",
    "METHODS",
    "Batch",
    "InBatch",
    "LogitAdjustment",
    "Method",
    "Negatives",
    "Normal",
    "PopularityPenalty",
    "find_method",
    "make_method",
]
