"""Checks of arguments."""

from icpe.errors import ConfigError


def require_positive(name: str, value: int) -> None:
    """Raise ``ConfigError`` unless the value is an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} is {value!r}; expected an integer of at least 1")
