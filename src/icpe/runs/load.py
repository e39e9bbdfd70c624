"""Loading a saved model. Only this module turns the names in a file into methods and backbones."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from icpe.backbones import make_backbone
from icpe.methods import make_method
from icpe.recommender.model import Model
from icpe.recommender.store import read_model
from icpe.runs.earlier_versions import renamed
from icpe.runs.plugins import Plugin, load_plugins
from icpe.train.method import TrainingMethod


def load(folder: Path | str, plugins: Iterable[Plugin] = (), verify: bool = True) -> Model:
    """Return the model that :meth:`Model.save` or ``icpe train`` wrote.

    Args:
        folder: folder of a model or of a run.
        plugins: Python files or classes that define the backbone or the method, if they are not part of icpe. A saved
            folder never loads code by itself.
        verify: whether to compare the files with their checksums, which takes about half a second per gigabyte.

    Raises:
        ConfigError: the model needs an unknown backbone or method.
        DataError: a file is missing or damaged, or has another format version.
    """
    load_plugins(plugins)
    return read_model(Path(folder), _rebuild, verify)


def _rebuild(backbone: dict[str, Any], method: dict[str, Any]) -> TrainingMethod:
    settings = renamed(method["name"], method["settings"])
    return make_method(method["name"], make_backbone(backbone["name"], **backbone["settings"]), **settings)
