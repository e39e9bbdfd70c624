"""How runs were made: settings, data, versions, and the command that makes them again."""

import platform
import shlex
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from typing import Any

from icpe.model.config import SECTIONS
from icpe.report.record import RunRecord

_PACKAGES = ("icpe", "numpy", "polars", "torch", "numba")


def making(runs: Sequence[RunRecord]) -> str:
    """Everything needed to make the runs again, folded."""
    manifest = runs[0].manifest
    recipe = {key: value for key, value in manifest.items() if key not in ("format", "counts", "hashes", "dropped")}
    counts = {
        f"{name} part": ", ".join(f"{number:,} {what}" for what, number in part.items())
        for name, part in manifest["counts"].items()
    }
    hashes = {f"hash of {name}": value or "unknown" for name, value in manifest["hashes"].items()}
    versions = {"system": platform.platform(), "processor": platform.machine(), "python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES}
    commands = "\n".join(_command(run) for run in runs)
    return "".join(
        (
            f"<p>These commands train the same again, from the settings below:</p><pre>{escape(commands)}</pre>",
            _folded("All settings", _settings(runs)),
            _folded("Data and split", _pairs({**recipe, **counts, **hashes})),
            _folded("Machine and versions this page was written with", _pairs(versions)),
        )
    )


def _command(run: RunRecord) -> str:
    again = run.folder.with_name(f"{run.folder.name}-again")
    return f"icpe train --config {shlex.quote(str(run.folder / 'config.toml'))} -o {shlex.quote(str(again))}"


def _settings(runs: Sequence[RunRecord]) -> str:
    """A row per setting, a column per run; rows that differ stand out."""
    flat = [
        {f"{section}.{key}": value for section in SECTIONS for key, value in getattr(run.config, section).items()}
        for run in runs
    ]
    rows = []
    for name in dict.fromkeys(name for one in flat for name in one):
        values = [str(one[name]) if name in one else "-" for one in flat]
        differs = ' class="differs"' if len(set(values)) > 1 else ""
        rows.append(f"<tr{differs}>{_row_heading(name)}{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>")
    labels = "".join(f'<th scope="col">{escape(run.label)}</th>' for run in runs)
    return (
        f'<div class="wide"><table class="said"><thead><tr><td></td>{labels}</tr></thead>{"".join(rows)}</table></div>'
    )


def _pairs(values: dict[str, Any]) -> str:
    rows = "".join(f"<tr>{_row_heading(name)}<td>{escape(str(value))}</td></tr>" for name, value in values.items())
    return f'<div class="wide"><table class="said">{rows}</table></div>'


def _row_heading(name: str) -> str:
    return f'<th scope="row">{escape(name)}</th>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
