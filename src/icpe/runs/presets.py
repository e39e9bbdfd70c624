"""Settings found by tuning, by data set: TOML files with a table per method and backbone.

Those that come with the package lie in ``icpe/presets``; a file of one's own is named by its path. The settings of a
cell stand in the sections of a run, beside what is known of them:

    [icpe.mf]
    valid_ndcg = 0.1234
    trials = 20

    [icpe.mf.method]
    alpha = 0.1

    [icpe.mf.train]
    lr = 0.004
"""

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import tomli_w

from icpe.errors import ConfigError
from icpe.files import write_atomically
from icpe.methods import METHODS

SECTIONS = ("backbone", "method", "train")
_HEADING = (
    "# Settings found by `icpe tune`, for `icpe train --preset`. A later tuning replaces its own tables only.\n\n"
)

Cells = dict[str, dict[str, dict[str, Any]]]


def find_preset(name: str, method: str, backbone: str) -> dict[str, dict[str, Any]]:
    """Settings by section: a preset of the method's own, of a data set, or of a file.

    Args:
        name: such as ``"paper"``, ``"lastfm"`` or ``"mine.toml"``; the method's own come first.
        method: its name.
        backbone: its name.

    Raises:
        ConfigError: there is no such preset, or it holds nothing for the method on the backbone.

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
        own = ", ".join(kind.presets) or "none"
        tuned = ", ".join(shipped_presets()) or "none"
        raise ConfigError(
            f"method {method!r} has no preset {name!r}; it has {own}; tuned settings by data set: {tuned}; "
            "a file of your own ends in .toml"
        ) from None
    found = cells.get(method, {}).get(backbone)
    if found is None:
        known = ", ".join(f"{one} on {other}" for one, held in cells.items() for other in held) or "nothing yet"
        raise ConfigError(f"preset {name!r} has no settings for {method} on {backbone}; it has {known}")
    return {section: dict(found[section]) for section in SECTIONS if section in found}


def open_presets(name: str) -> Cells:
    """All cells of what comes with the package for a data set, or of a file that ends in .toml.

    Raises:
        LookupError: nothing of that name comes with the package.
        ConfigError: the file cannot be read, or is not of that shape.
    """
    return read_presets(Path(name) if name.endswith(".toml") else shipped_presets()[name])


def read_presets(path: Path | Traversable) -> Cells:
    """All cells of a file: method → backbone → what is known.

    Raises:
        ConfigError: it cannot be read, or is not of that shape.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a file of presets: {error}") from error
    for method, cells in content.items():
        for backbone, cell in cells.items() if isinstance(cells, dict) else [("", None)]:
            if not isinstance(cell, dict) or not all(isinstance(cell.get(name, {}), dict) for name in SECTIONS):
                where = ".".join(filter(None, (method, backbone)))
                raise ConfigError(f"{path} is no file of presets: [{where}] should be a table METHOD.BACKBONE")
    return content


def update_presets(path: Path, cells: Cells) -> None:
    """Put cells into a file, in place of those it has of the same method and backbone; the others stay.

    Raises:
        ConfigError: there is a file of another kind.
    """
    content = read_presets(path) if path.exists() else {}
    for method, by_backbone in cells.items():
        for backbone, cell in by_backbone.items():
            content.setdefault(method, {})[backbone] = _without_none(cell)
    text = _HEADING + tomli_w.dumps({method: dict(sorted(content[method].items())) for method in sorted(content)})
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def shipped_presets() -> dict[str, Traversable]:
    """The files of presets that come with the package, by the name of the data set."""
    folder = files("icpe").joinpath("presets")
    found = sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else []
    return {one.name.removesuffix(".toml"): one for one in found if one.name.endswith(".toml")}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """TOML has no None; what is not said is left at its default, which None stands for."""
    cleaned = {key: _without_none(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in cleaned.items() if value is not None}
