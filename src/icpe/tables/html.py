"""Tables as HTML."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from icpe.shown import visible_lines
from icpe.tables.model import Table


def as_html(table: Table) -> Markup:
    """The table as a ``<table>`` element with the caption below; every text is escaped."""
    return Markup(_template_environment().get_template("table.html").render(table=table).strip())


@cache
def _template_environment() -> Environment:
    return Environment(
        loader=PackageLoader("icpe.tables"),
        autoescape=True,
        finalize=lambda value: visible_lines(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
