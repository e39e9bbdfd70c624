"""Cells of a comparison in a TOML file.

The sections of a run's ``config.toml`` apply to all cells; ``[cells."NAME"]`` holds what a cell changes in them. A cell
may have a ``label`` other than its name, ``tuned = false``, and ``ranking.DIAL = [values]`` for settings of ranking to
evaluate after training. ``seeds`` may be given at the top.
"""

from pathlib import Path
from typing import Any

from icpe.compare._state import Cell
from icpe.errors import ConfigError
from icpe.runs.config import SECTIONS, RunConfig
from icpe.suggest import missing_file, nearest
from icpe.toml import parse_toml

_CELL_KEYS = ("label", "tuned", "ranking")


def read_cells(path: Path) -> tuple[list[Cell], list[int] | None]:
    """Return the cells of a file, and its seeds or None.

    Raises:
        ConfigError: the file cannot be read or has another structure.
    """
    try:
        content = parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing_file(path) from None
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
        raise ConfigError(f"{path}: cell {name!r} must be a table of sections")
    sections = {key: value for key, value in cell.items() if key not in _CELL_KEYS}
    _check(sections, (*SECTIONS, *_CELL_KEYS), f"{path}: cell {name!r} has no section")
    ranking = cell.get("ranking", {})
    if not isinstance(ranking, dict) or not all(isinstance(values, list) for values in ranking.values()):
        raise ConfigError(f"{path}: ranking of cell {name!r} must hold lists, such as ranking.beta = [0.0, 0.1]")
    merged: dict[str, Any] = _merged(common, sections)
    config = RunConfig(**merged)
    return Cell(str(cell.get("label", name)), config, bool(cell.get("tuned", True)), ranking)


def _merged(common: dict[str, dict[str, Any]], cell: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge the sections of a cell into the common ones. Another method or backbone starts from its own defaults."""
    sections = {name: dict(values) for name, values in common.items()}
    for name, values in cell.items():
        before = common.get(name, {})
        fresh = name in ("method", "backbone") and values.get("name", before.get("name")) != before.get("name")
        sections[name] = dict(values) if fresh else {**before, **values}
    return sections


def _check(content: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name, values in content.items():
        if name not in known or not isinstance(values, dict):
            near = nearest(name, known)
            hint = f"; did you mean [{near}]?" if near else f"; known sections: {', '.join(known)}"
            raise ConfigError(f"{what} [{name}]{hint}")
