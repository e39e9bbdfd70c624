"""Settings that change how a trained model ranks, as flags of commands that take a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli.dotted import DottedCommand
from icpe.files import read_json

if TYPE_CHECKING:
    from icpe.cli._declared import Section
    from icpe.settings import Declaration


class RankingCommand(DottedCommand):
    """A command on a saved run with a flag for every ranking setting of its method, such as ``--method.beta``."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, sections=("method",), **attributes)

    def sections(self, ctx: click.Context) -> "Iterator[tuple[Section, list[Declaration]]]":
        """Yield the ranking settings of the method of the run, if the command line names a run."""
        from icpe.cli._declared import find_section
        from icpe.errors import ConfigError

        for word in self.words(ctx):
            name = _method_of(Path(word))
            if name is not None:
                try:
                    section = find_section("method", name)
                except ConfigError:  # reported when the command runs
                    return
                yield section, ranking_settings(section)
                return


def ranking_settings(section: "Section") -> "list[Declaration]":
    """Return the settings of a method that can be changed after training."""
    return [one for one in section.declared() if one.ranking]


def parse_ranking(run: Path, dotted: dict[str, dict[str, Any]], beta: float | None) -> dict[str, Any]:
    """Return the ranking settings given by ``--beta`` and ``--method.NAME``.

    Raises:
        ConfigError: the method of the run has no such ranking setting, or a value is wrong; by the flag.
    """
    values = dict(dotted.get("method", {}))
    name = _method_of(run)
    if name is None or (not values and beta is None):  # loading the run says what is wrong with the folder
        return values
    from icpe.cli._declared import find_mistakes, find_section  # late: the declarations import torch
    from icpe.errors import ConfigError

    section = find_section("method", name)
    settings = ranking_settings(section)
    mistakes = find_mistakes(section, values, settings)
    if beta is not None:
        mistakes += [
            text.replace("--method.beta", "--beta") for text in find_mistakes(section, {"beta": beta}, settings)
        ]
        values["beta"] = beta
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return values


def _method_of(run: Path) -> str | None:
    """The name of the method in a run folder, or None if the folder holds no model."""
    try:
        name: str = read_json(run / "model.json")["method"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name
