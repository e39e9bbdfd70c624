"""Text from files as people see it: long values are cut, and characters that a terminal would obey are visible."""

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, except tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    "\u2028\u2029\ufeff]"  # line ends that are no newlines, and the byte order mark
)


def visible(text: str) -> str:
    r"""The text with every control and bidirectional character written as its code, such as ``\x1b`` or ``\u202e``.

    An id from a log could otherwise clear a terminal, or show the words after it in another order. Tabs and newlines
    stay.

    Example:
        >>> print(visible("a\x1b[2Jb\u202ec"))
        a\x1b[2Jb\u202ec
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shortened(text: str, longest: int = 80) -> str:
    """The text, or its beginning and its length if it is long.

    Example:
        >>> shortened("short"), shortened("x" * 200)[-30:]
        ('short', 'xxxxxxxxxxxx… (200 characters)')
    """
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"
