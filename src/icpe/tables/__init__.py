"""Tables of results: one model, and renderers for text, Markdown, LaTeX, CSV and HTML.

A :class:`Table` knows nothing about recommenders. All renderers show the same numbers with the same emphasis.
"""

from icpe.tables.csv import as_csv
from icpe.tables.html import as_html
from icpe.tables.latex import as_latex
from icpe.tables.markdown import as_markdown
from icpe.tables.model import Better, Cell, Column, Row, Table, best, compared_cells, percent
from icpe.tables.text import as_text, as_turned_text, terminal_width

__all__ = [
    "Better",
    "Cell",
    "Column",
    "Row",
    "Table",
    "as_csv",
    "as_html",
    "as_latex",
    "as_markdown",
    "as_text",
    "as_turned_text",
    "best",
    "compared_cells",
    "percent",
    "terminal_width",
]
