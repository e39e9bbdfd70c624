"""Splits by name, as configurations and command lines choose them."""

from collections.abc import Callable
from typing import Any

from icpe.data.interactions import Interactions
from icpe.split.chronological_split import chronological
from icpe.split.parts import Parts
from icpe.split.random_split import random
from icpe.split.settings import KINDS, owner
from icpe.split.unbiased_split import unbiased
from icpe.suggest import unknown_name

_FUNCTIONS: dict[str, Callable[..., Parts]] = {
    "unbiased": unbiased,
    "chronological": chronological,
    "random": random,
}


def cut(log: Interactions, kind: str, **settings: Any) -> Parts:
    """The parts of a log.

    Args:
        log: the complete, filtered log.
        kind: a name in ``KINDS``.
        settings: of this kind of split; ``KINDS[kind]`` declares them.

    Raises:
        ConfigError: the kind is unknown, or a setting is unknown or wrong.
        DataError: the log has no timestamps although the split needs them, or a part would be empty.

    Example:
        >>> pairs = {"user_id": [one // 5 for one in range(100)], "item_id": list(range(10)) * 10}
        >>> parts = cut(Interactions.read(pairs), "random", seed=1, train=0.6, valid=0.2)
        >>> len(parts.train), len(parts.valid), len(parts.test)
        (60, 20, 20)
    """
    if kind not in KINDS:
        raise unknown_name("split", kind, KINDS)
    return _FUNCTIONS[kind](log, **KINDS[kind].parse(settings, owner(kind)).as_dict())
