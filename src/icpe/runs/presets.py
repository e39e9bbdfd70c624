"""Presets: settings found by tuning on a data set, in TOML files with one table for each method and backbone.

The package ships its presets in ``icpe/presets``. A user's own file is named by its path. The table of a method and
backbone, called a cell, contains the sections of a run and what the tuning recorded about them:

    [icpe.mf]
    valid_ndcg = 0.1234
    trials = 20

    [icpe.mf.method]
    alpha = 0.1

    [icpe.mf.train]
    lr = 0.004
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import tomli_w

from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.methods import METHODS
from icpe.runs.earlier_versions import renamed
from icpe.shown import shortened
from icpe.suggest import missing_file
from icpe.toml import parse_toml

SECTIONS = ("backbone", "method", "train")
_HEADING = "# Settings found by `icpe tune`, for `icpe train --preset`. Tuning again replaces only what it tunes.\n\n"

Cells = dict[str, dict[str, dict[str, Any]]]


def find_preset(name: str, method: str, backbone: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a preset by section.

    Args:
        name: a preset that the method defines, such as ``"paper"``; a data set that the package has tuned settings
            for, such as ``"lastfm"``; or a file such as ``"mine.toml"``. Presets of the method come first.
        method: name of the method.
        backbone: name of the backbone.

    Raises:
        ConfigError: the preset does not exist, or it has no settings for the method on the backbone.

    Example:
        >>> find_preset("paper", "icpe", "mf")["method"]["loss"]
        'bce'
    """
    kind, name = METHODS.find(method), str(name)
    if name in kind.presets:
        return {"method": kind.preset(name)}
    try:
        cells = open_presets(name)
    except LookupError:
        own = f"Its own presets are {', '.join(kind.presets)}" if kind.presets else "It has no presets of its own"
        tuned = ", ".join(shipped_presets()) or "none"
        raise ConfigError(
            f"method {method!r} has no preset {name!r}. {own}; the data sets with tuned settings are {tuned}. Name one "
            "of these, or a file of your own, whose name must end in .toml"
        ) from None
    found = cells.get(method, {}).get(backbone)
    if found is None:
        known = ", ".join(f"{one} on {other}" for one, held in cells.items() for other in held) or "nothing yet"
        raise ConfigError(f"preset {name!r} has no settings for {method} on {backbone}; it has {known}")
    sections = {section: dict(found[section]) for section in SECTIONS if section in found}
    if "method" in sections:
        sections["method"] = renamed(method, sections["method"])  # a file may come from an earlier version
    return sections


def open_presets(name: str) -> Cells:
    """Return all cells of the shipped presets for a data set, or of a file whose name ends in .toml.

    Raises:
        LookupError: the package ships no presets of that name.
        ConfigError: the file cannot be read or is not a file of presets.
    """
    return read_presets(Path(name) if name.endswith(".toml") else shipped_presets()[name])


def read_presets(path: Path | Traversable) -> Cells:
    """Return all cells of a file: method → backbone → settings and tuning results.

    Raises:
        ConfigError: the file cannot be read or is not a file of presets.
    """
    try:
        content = parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing_file(path) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a file of presets: {error}") from error
    for method, cells in content.items():
        for backbone, cell in cells.items() if isinstance(cells, dict) else [("", None)]:
            if not isinstance(cell, dict) or not all(isinstance(cell.get(name, {}), dict) for name in SECTIONS):
                where = ".".join(filter(None, (method, backbone)))
                raise ConfigError(
                    f"{path} is not a file of presets: [{shortened(where)}] should be a table METHOD.BACKBONE"
                )
    return content


def update_presets(path: Path, cells: Cells) -> None:
    """Write cells into a file. They replace cells of the same method and backbone; all other cells stay.

    Raises:
        ConfigError: the file exists and is not a file of presets.
    """
    content = read_presets(path) if path.exists() else {}
    for method, by_backbone in cells.items():
        for backbone, cell in by_backbone.items():
            content.setdefault(method, {})[backbone] = _without_none(cell)
    text = _HEADING + tomli_w.dumps({method: dict(sorted(content[method].items())) for method in sorted(content)})
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def shipped_presets() -> dict[str, Traversable]:
    """Return the preset files that the package ships, by the name of the data set."""
    folder = files("icpe").joinpath("presets")
    found = sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else []
    return {one.name.removesuffix(".toml"): one for one in found if one.name.endswith(".toml")}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without those that are None. TOML has no null, and a missing setting has its default."""
    cleaned = {key: _without_none(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in cleaned.items() if value is not None}
