"""Errors for names and files that do not exist, with the nearest name that does."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from icpe.errors import ConfigError


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like the given one, or None if none is close.

    Example:
        >>> nearest("temprature", ["temperature", "alpha"])
        'temperature'
    """
    found = get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a name that does not exist. It suggests the nearest name and lists all of them.

    Example:
        >>> print(unknown_name("backbone", "lightgnc", ["mf", "lightgcn"]))
        unknown backbone 'lightgnc'; did you mean 'lightgcn'? Known: mf, lightgcn
    """
    names = list(known)
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else "."
    return ConfigError(f"unknown {kind} {name!r}{hint} Known: {', '.join(names) or 'none'}")


def missing_file(path: object) -> ConfigError:
    """Return the error for a file of settings that does not exist."""
    return ConfigError(f"{path} does not exist. Check the path; relative paths start at {Path.cwd()}")
