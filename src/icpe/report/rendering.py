"""Pages: Jinja2 templates with automatic escaping, written as one self-contained file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from icpe.errors import ConfigError
from icpe.files import write_text
from icpe.report.figures.svg import inline_svg
from icpe.shown import visible_lines
from icpe.tables import as_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FigureCard:
    """A figure on a page, with its title and a caption, and optionally what it means and what it cannot say."""

    title: str
    caption: str
    svg: Markup
    meaning: str = ""
    limits: str = ""


def figure_card(
    title: str, caption: str, draw: Callable[[], "Figure"], meaning: str = "", limits: str = ""
) -> FigureCard:
    """The card of the figure that ``draw`` draws."""
    return FigureCard(title, caption, inline_svg(draw, title), meaning, limits)


def check_page_name(path: Path) -> Path:
    """The path, if a browser opens files with this name as pages.

    Raises:
        ConfigError: The name does not end in .html.
    """
    if path.suffix != ".html":
        raise ConfigError(f"{path} is not a name for a page; it should end in .html")
    return path


def write_page(path: Path, template: str, package: str = "icpe.report", **content: Any) -> Path:
    """Render a template and write the page; returns its path.

    Args:
        path: File of the page, ending in .html.
        template: Name of a file in the folder ``templates`` of the package. It can extend ``base.html``.
        package: Package that has the template.
        content: Variables of the template. Texts are escaped, and control and bidirectional characters become visible;
            only ``Markup`` is inserted as it is.

    Raises:
        ConfigError: The name does not end in .html.
    """
    check_page_name(path)
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("icpe.report")])
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible_lines(value) if type(value) is str else value,  # Markup is ours
    )
    environment.filters["table"] = as_html
    write_text(path, environment.get_template(template).render(**content))
    return path
