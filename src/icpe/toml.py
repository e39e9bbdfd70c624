"""TOML text from files, which can come from anybody: every text that cannot be used raises a ValueError."""

import re
import tomllib
from typing import Any

_LONGEST = 4 << 20  # characters; far more than the largest grid of a comparison
# The parser needs memory that grows with the square of the number of parts of a dotted key such as a.b.c.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def parse_toml(text: str) -> dict[str, Any]:
    r"""The tables of a TOML text.

    Raises:
        ValueError: the text is not TOML, is longer than any configuration, or is nested too deeply.

    Example:
        >>> parse_toml("[train]\nseed = 1")
        {'train': {'seed': 1}}
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} characters; a configuration has at most {_LONGEST:,}")
    if _DEEP_KEY.search(text):
        raise ValueError("it has a key with more than 64 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
