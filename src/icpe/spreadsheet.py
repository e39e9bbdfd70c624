"""Text in CSV files that spreadsheets do not take for formulas.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@``, also after a tab or a carriage return. An id
from a log can be such a cell. It is written behind an apostrophe, which tells a spreadsheet that text follows. Reading
takes the apostrophe away again, so that ids survive. Numbers are written as they are.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_FORMULA = r"^'*[=+\-@\t\r]"  # a text that begins with apostrophes gets one more, so that reading finds the right one
_SAFE = r"^'('*[=+\-@\t\r])"


def safe_text(text: str) -> str:
    """The text as a cell of a CSV file.

    Example:
        >>> safe_text("=1+1"), safe_text("plain"), safe_text("'@x"), safe_text("don't")
        ("'=1+1", 'plain', "''@x", "don't")
    """
    return f"'{text}" if re.match(_FORMULA, text) else text


def safe_frame(frame: "pl.DataFrame") -> "pl.DataFrame":
    """The frame with its columns of text as cells of a CSV file."""
    import polars as pl

    text = pl.col(pl.String)
    return frame.with_columns(pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep())


def plain_texts(values: "pl.Series") -> "pl.Series":
    """The texts of a CSV file without the apostrophes that :func:`safe_text` adds."""
    return values.str.replace(_SAFE, "$1")
