"""Text from files as people see it: long values are cut, and characters that a terminal would obey are visible."""

import re

_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    "\u2028\u2029\ufeff]"  # line ends that are no newlines, and the byte order mark
)


def visible(text: str, keep: str = "") -> str:
    r"""The text with every control and bidirectional character written as its code, such as ``\u001b`` or ``\u202e``.

    An id from a log could otherwise clear a terminal, add a line to a table, or show the words after it in another
    order. The codes are those of JSON, so JSON text keeps its meaning.

    Args:
        text: any text.
        keep: control characters to leave alone, such as newlines between lines of our own.

    Example:
        >>> print(visible("a\x1b[2Jb\u202ec\nd"))
        a\u001b[2Jb\u202ec\u000ad
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def visible_lines(text: str) -> str:
    """The text as :func:`visible` writes it, with its newlines and tabs."""
    return visible(text, keep="\n\t")


def shortened(text: str, longest: int = 80) -> str:
    """The text, or its beginning and its length if it is long.

    Example:
        >>> shortened("short"), shortened("x" * 200)[-30:]
        ('short', 'xxxxxxxxxxxx… (200 characters)')
    """
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"
