"""Cells of a grid in a TOML file.

Sections as in a run's ``config.toml`` hold for all; ``[cells."NAME"]`` holds what a cell changes, by the same sections.
A cell may have a ``label`` other than its name, ``tuned = false``, and ``serving.DIAL = [values]`` for settings of
ranking to measure after training. ``seeds`` may stand at the top.
"""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from icpe.compare._state import Cell
from icpe.errors import ConfigError
from icpe.runs.config import SECTIONS, RunConfig

_OF_A_CELL = ("label", "tuned", "serving")


def read_cells(path: Path) -> tuple[list[Cell], list[int] | None]:
    """The cells of a file, and its seeds if it has some.

    Raises:
        ConfigError: it cannot be read, or is not of that shape.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
    seeds, cells = content.pop("seeds", None), content.pop("cells", None)
    if not isinstance(cells, dict) or not cells:
        raise ConfigError(f'{path} has no cells; expected tables such as [cells."ICPE"]')
    if seeds is not None and not (isinstance(seeds, list) and all(isinstance(seed, int) for seed in seeds)):
        raise ConfigError(f"{path}: seeds is {seeds!r}; expected whole numbers such as [0, 1, 2]")
    _check(content, SECTIONS, f"{path} has no section")
    return [_cell(name, cell, content, path) for name, cell in cells.items()], seeds


def _cell(name: str, cell: Any, common: dict[str, Any], path: Path) -> Cell:
    if not isinstance(cell, dict):
        raise ConfigError(f"{path}: cell {name!r} should be a table of sections")
    said = {key: cell[key] for key in _OF_A_CELL if key in cell}
    sections = {key: value for key, value in cell.items() if key not in _OF_A_CELL}
    _check(sections, (*SECTIONS, *_OF_A_CELL), f"{path}: cell {name!r} has no section")
    serving = said.get("serving", {})
    if not isinstance(serving, dict) or not all(isinstance(values, list) for values in serving.values()):
        raise ConfigError(f"{path}: serving of cell {name!r} should be lists, such as serving.beta = [0.0, 0.1]")
    config = RunConfig(**_merged(common, sections))
    return Cell(str(said.get("label", name)), config, bool(said.get("tuned", True)), serving)


def _merged(common: dict[str, dict[str, Any]], cell: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The sections of a cell over the common ones; another method or backbone starts from its own defaults."""
    sections = {name: dict(values) for name, values in common.items()}
    for name, values in cell.items():
        before = common.get(name, {})
        fresh = name in ("method", "backbone") and values.get("name", before.get("name")) != before.get("name")
        sections[name] = dict(values) if fresh else {**before, **values}
    return sections


def _check(content: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name, values in content.items():
        if name not in known or not isinstance(values, dict):
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean [{near[0]}]?" if near else f"; there are {', '.join(known)}"
            raise ConfigError(f"{what} [{name}]{hint}")
