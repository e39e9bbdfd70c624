"""How runs were made: settings, data, versions, and the command that makes them again."""

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from icpe.report.blocks import commands, folded, pairs, settings

if TYPE_CHECKING:
    from icpe.report.record import RunRecord

_PACKAGES = ("icpe", "numpy", "polars", "torch", "numba")


def making(runs: "Sequence[RunRecord]") -> str:
    """Everything needed to make the runs again, folded."""
    return "".join(
        (
            "<p>These commands train the same again, from the settings below:</p>",
            commands([_command(run) for run in runs]),
            folded("All settings", all_settings(runs)),
            folded("Data and split", data_and_split(runs[0])),
            machine(),
        )
    )


def all_settings(runs: "Sequence[RunRecord]") -> str:
    """A row per setting, a column per run; rows that differ stand out."""
    from icpe.runs.config import SECTIONS  # late: an audit needs no torch

    flat = [
        {f"{section}.{key}": str(value) for section in SECTIONS for key, value in getattr(run.config, section).items()}
        for run in runs
    ]
    names = dict.fromkeys(name for one in flat for name in one)
    return settings([run.label for run in runs], {name: [one.get(name, "-") for one in flat] for name in names})


def data_and_split(run: "RunRecord") -> str:
    """Recipe of the split, counts and hashes."""
    manifest = run.manifest
    recipe = {key: value for key, value in manifest.items() if key not in ("format", "counts", "hashes", "dropped")}
    counts = {
        f"{name} part": ", ".join(f"{number:,} {what}" for what, number in part.items())
        for name, part in manifest["counts"].items()
    }
    hashes = {f"hash of {name}": value or "unknown" for name, value in manifest["hashes"].items()}
    return pairs({**recipe, **counts, **hashes})


def machine() -> str:
    """What a page was written with, folded."""
    return folded("Machine and versions this page was written with", versions_table())


def versions_table() -> str:
    """System, processor, Python and the packages results may depend on."""
    found = {"system": platform.platform(), "processor": platform.machine(), "python": platform.python_version()}
    return pairs({**found, **{name: version(name) for name in _PACKAGES}})


def _command(run: "RunRecord") -> str:
    again = run.folder.with_name(f"{run.folder.name}-again")
    return f"icpe train --config {shlex.quote(str(run.folder / 'config.toml'))} -o {shlex.quote(str(again))}"
