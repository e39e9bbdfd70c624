"""The option ``--seeds``, with the same meaning in every command."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def seeds_option(default: str) -> Callable[[Command], Command]:
    """Return the option ``--seeds``; ``default`` says in the help text what holds without it."""
    return click.option(
        "--seeds",
        metavar="COUNT|=LIST",
        help=f"Number of seeds, such as 5, or which seeds, such as =5,7,9 or =0-4. Default: {default}.",
    )


def parse_seeds(text: str, first: int = 0) -> list[int]:
    """Return the seeds that ``--seeds`` names.

    Args:
        text: a number of seeds (``5``), or an equals sign and a list of seeds or ranges (``=5,7,9``, ``=0-4``).
        first: seed that a number of seeds starts from.

    Raises:
        ConfigError: the text is neither.

    Example:
        >>> parse_seeds("3"), parse_seeds("2", first=100), parse_seeds("=5,7,9"), parse_seeds("=2-4,7")
        ([0, 1, 2], [100, 101], [5, 7, 9], [2, 3, 4, 7])
    """
    from icpe.errors import ConfigError

    text = text.strip()
    if text.isdecimal() and int(text) > 0:
        return list(range(first, first + int(text)))
    seeds: list[int] = []
    for piece in text.removeprefix("=").split(",") if text.startswith("=") else [""]:
        start, dash, end = (part.strip() for part in piece.partition("-"))
        if not (start.isdecimal() and (not dash or end.isdecimal())):
            raise ConfigError(
                f"--seeds is {text!r}; expected a number of seeds from 1 up, such as 5, or an equals sign and the "
                "seeds themselves, such as =5,7,9 or =0-4"
            )
        seeds += range(int(start), int(end or start) + 1)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds is {text!r}, which names the seeds {seeds}; expected different seeds, at least one")
    return seeds
