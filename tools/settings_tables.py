"""Write the tables of settings in the documentation from the declarations in the code.

A page marks a table with two comments, ``<!-- settings: method icpe -->`` and ``<!-- end of settings -->``.

    python tools/settings_tables.py          # rewrite the tables
    python tools/settings_tables.py --check  # exit with 1 if a table is out of date
"""

import re
import sys

from icpe.backbones import BACKBONES
from icpe.methods import METHODS
from icpe.runs.config import EvaluateSettings
from icpe.settings import Settings
from icpe.simulate import LoopSettings
from icpe.split import KINDS
from icpe.train import TrainSettings
from pages import DOCS, rewrite

MARKED = re.compile(r"(<!-- settings: (\w+)(?: (\w+))? -->\n).*?(<!-- end of settings -->)", re.DOTALL)


def declaration(section: str, name: str | None) -> type[Settings]:
    """Return the class that declares the settings of a section."""
    if name is None:
        return {"train": TrainSettings, "evaluate": EvaluateSettings, "loop": LoopSettings}[section]
    if section == "split":
        return KINDS[name]
    return (METHODS if section == "method" else BACKBONES)[name].Settings


def table(settings: type[Settings], section: str) -> str:
    """Return the settings as a Markdown table."""
    lines = ["| flag | default | values | meaning |", "|---|---|---|---|"]
    for one in settings.declared():
        default = "" if one.default is None else f"`{as_flag(one.default)}`"
        values = one.expected.removesuffix(", or nothing")
        meaning = one.description + (" It can be changed after training." if one.ranking else "")
        cells = (f"`--{section}.{one.name}`", default, values, meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def as_flag(value: object) -> str:
    """Return a value as one types it after a flag."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def updated(text: str) -> str:
    """Return the text of a page with all its tables written again."""
    return MARKED.sub(lambda mark: mark[1] + table(declaration(mark[2], mark[3]), mark[2]) + mark[4], text)


if __name__ == "__main__":
    sys.exit(rewrite(DOCS.rglob("*.md"), updated))
