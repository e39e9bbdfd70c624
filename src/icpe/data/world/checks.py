"""Validation of whole numbers."""

from numbers import Integral
from typing import Any

from icpe.errors import ConfigError


def check_whole(name: str, value: Any, least: int, most: int | None = 2**31 - 1) -> int:
    """The value as an int.

    Args:
        name: of the argument, for the message.
        value: what the caller passed.
        least: smallest value allowed.
        most: largest value allowed, by default the largest code, which is an int32; None for no limit.

    Raises:
        ConfigError: the value is not a whole number in the range.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        too_large = whole and int(value) >= least
        upper = f"to {most:,}" if too_large else "up"
        raise ConfigError(f"{name} is {value!r}; expected a whole number from {least} {upper}")
    return int(value)
