"""Settings that do not fit are refused where they are given, with the value and what was expected."""

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from icpe.errors import ConfigError


def whole(name: str, value: Any, at_least: int) -> int:
    """The value as an integer; ConfigError unless it is a whole number from ``at_least`` up."""
    try:
        number = value if isinstance(value, int) and not isinstance(value, bool) else value.__index__()
    except AttributeError:
        number = None
    if number is None or isinstance(value, bool) or number < at_least:
        raise ConfigError(f"{name} is {value!r}; expected a whole number from {at_least} up")
    return int(number)


def widths(name: str, value: Any) -> tuple[int, ...]:
    """The value as a tuple of layer widths; ConfigError unless it is a non-empty sequence of whole numbers."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ConfigError(f"{name} is {value!r}; expected the widths of at least one layer, such as (64, 32, 16)")
    return tuple(whole(f"{name}[{position}]", width, at_least=1) for position, width in enumerate(value))


def positive(name: str, value: Any) -> float:
    """The value as a float; ConfigError unless it is a finite number above 0."""
    number = _number(value)
    if not 0 < number < math.inf:
        raise ConfigError(f"{name} is {value!r}; expected a number above 0")
    return number


def share(name: str, value: Any) -> float:
    """The value as a float; ConfigError unless it is in [0, 1)."""
    number = _number(value)
    if not 0 <= number < 1:
        raise ConfigError(f"{name} is {value!r}; expected a number from 0 up and below 1")
    return number


def unknown(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest that does and all of them."""
    names = sorted(known)
    near = get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ConfigError(f"there is no {kind} {name!r}{hint} Known: {', '.join(names)}")


def _number(value: Any) -> float:
    # bool is an int in Python, and dropout=True would pass as 1.
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
