"""Names of methods, backbones and data sets: options that take them, and their completion by the shell."""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any

import click
from click.shell_completion import CompletionItem

# Written down here, because the shell waits for the answer and importing the methods takes more than a second. A test
# compares them with the registries.
METHOD_NAMES = (
    *("normal", "dice", "macr", "cpr", "causpref", "bc_loss", "invpref", "icpe"),
    *("ips", "ubpr", "relmf", "pd", "penalty", "logit_adjustment", "in_batch"),
    *("psl", "bsl", "resn", "paac", "popdcl", "popgo"),
    *("popularity", "random"),
)
BACKBONE_NAMES = ("mf", "neumf", "lightgcn")


def method_names() -> list[str]:
    """Return the names of all methods, those of installed packages included."""
    return [*METHOD_NAMES, *(entry.name for entry in entry_points(group="icpe.methods"))]


def backbone_names() -> list[str]:
    """Return the names of all backbones, those of installed packages included."""
    return [*BACKBONE_NAMES, *(entry.name for entry in entry_points(group="icpe.backbones"))]


def dataset_names() -> list[str]:
    """Return the names of the data sets in the catalogue."""
    from icpe.data.datasets import CATALOGUE

    return list(CATALOGUE)


class Name(click.ParamType[str]):
    """Text that the shell completes from a list of names. The library checks the name, not the parser.

    Args:
        names: returns the names; it is called only when the user asks the shell for completion.
        label: how a help page calls the value.
        several: complete the last name of a list with commas.
        files: offer files too.
    """

    name = "text"

    def __init__(
        self, names: Callable[[], Sequence[str]], label: str = "NAME", several: bool = False, files: bool = False
    ) -> None:
        self._names, self._label, self._several, self._files = names, label, several, files

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the label for options; arguments have their own name."""
        return self._label if isinstance(param, click.Option) else None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchanged."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the incomplete text."""
        before, comma, begun = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        found = [CompletionItem(f"{before}{comma}{name}") for name in self._names() if name.startswith(begun)]
        return [CompletionItem(incomplete, type="file"), *found] if self._files else found


METHOD = Name(method_names)
BACKBONE = Name(backbone_names)
METHODS = Name(method_names, "NAMES", several=True)
BACKBONES = Name(backbone_names, "NAMES", several=True)
DATA = Name(dataset_names, files=True)

methods_option = click.option("--methods", type=METHODS, help="Names of methods separated by commas, or all.")
backbones_option = click.option(
    "--backbones", type=BACKBONES, help="Names of backbones separated by commas, or all. Default: mf."
)


def parse_names(text: str, known: Iterable[str]) -> list[str]:
    """Return the names in a text with commas; ``all`` stands for all known names.

    Example:
        >>> parse_names("normal, icpe", ["normal", "macr", "icpe"]), parse_names("all", ["mf", "neumf"])
        (['normal', 'icpe'], ['mf', 'neumf'])
    """
    return list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
