"""How runs were made: their settings, data and software versions, and the commands that repeat them."""

import platform
import shlex
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it imports torch, which an audit does not need because it only asks for versions
    from icpe.runs.config import RunConfig

_PACKAGES = ("icpe", "numpy", "polars", "torch", "numba")


def train_command(folder: Path) -> str:
    """Return the command that repeats the run of a folder."""
    again = folder.with_name(f"{folder.name}-again")
    return shlex.join(["icpe", "train", "--config", str(folder / "config.toml"), "-o", str(again)])


def setting_rows(configs: "Iterable[RunConfig]") -> dict[str, list[str]]:
    """Return a row for each setting, such as ``train.lr``, with its value in each run, or "–" if a run lacks it."""
    flat = [flat_settings(config) for config in configs]
    names = dict.fromkeys(name for one in flat for name in one)
    return {name: [one.get(name, "–") for one in flat] for name in names}


def flat_settings(config: "RunConfig") -> dict[str, str]:
    """Return all settings of a run by their dotted names."""
    from icpe.runs.config import SECTIONS

    return {f"{section}.{name}": str(value) for section in SECTIONS for name, value in getattr(config, section).items()}


def split_rows(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the recipe of a split, the sizes of its parts and their content hashes, by name."""
    recipe = {
        name: str(value) for name, value in manifest.items() if name not in ("format", "counts", "hashes", "dropped")
    }
    counts = {
        f"{name} part": ", ".join(f"{number:,} {kind}" for kind, number in part.items())
        for name, part in manifest["counts"].items()
    }
    hashes = {f"hash of {name}": value for name, value in hash_rows([manifest]).items()}
    return recipe | counts | {name: values[0] for name, values in hashes.items()}


def hash_rows(manifests: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the content hashes of splits: a row for each part with a value for each split."""
    parts = dict.fromkeys(name for manifest in manifests for name in manifest["hashes"])
    return {name: [str(manifest["hashes"].get(name) or "unknown") for manifest in manifests] for name in parts}


def versions() -> dict[str, str]:
    """Return the system, the processor and the versions of Python and of the packages that can affect results."""
    found = {"system": platform.platform(), "processor": platform.machine(), "python": platform.python_version()}
    return found | {name: version(name) for name in _PACKAGES}
