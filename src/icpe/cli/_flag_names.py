"""Flags in place of the names that the library uses in its messages, and flags whose value is a share."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import click


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Return a message of the library in which a flag stands for every name that is said to have a value.

    Example:
        >>> with_flags("n is 0 and k is 2; expected more", {"n": "-n", "k": "--k-core"})
        '-n is 0 and --k-core is 2; expected more'
    """
    for name, flag in flags.items():
        message = re.sub(rf"(^|\b(?:and|but) ){re.escape(name)} is ", rf"\g<1>{flag} is ", message, flags=re.MULTILINE)
    return message


@contextmanager
def naming_flags(**flags: str) -> Iterator[None]:
    """Name flags in the message of a ConfigError: ``naming_flags(n="-n")``."""
    from icpe.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        raise ConfigError(with_flags(str(error), flags)) from error


class Share(click.ParamType[float]):
    """A share from 0 to 1.

    Args:
        example: a value for the message about a wrong one.
    """

    name = "share"

    def __init__(self, example: float) -> None:
        self._example = example

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return how a help page calls the value."""
        return "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            share = float(value)
        except ValueError:
            self._refuse(value, param, ctx)
        if not 0 <= share <= 1:
            self._refuse(value, param, ctx)
        return share

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        flag = param.opts[0] if param is not None else "the share"
        raise click.UsageError(f"{flag} is {value}; expected a share from 0 to 1, such as {self._example:g}", ctx)
