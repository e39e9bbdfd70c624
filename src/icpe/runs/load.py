"""Loading a saved model: the one place where names in a file become methods and backbones."""

from pathlib import Path
from typing import Any

from icpe.backbones import make_backbone
from icpe.backbones.base import Backbone
from icpe.methods import make_method
from icpe.recommender.model import Model
from icpe.recommender.store import read_model
from icpe.train.method import Method


def load(folder: Path | str, backbone: Backbone | None = None) -> Model:
    """Read a model that :meth:`Model.save` or ``icpe train`` wrote.

    Args:
        folder: of a model or of a run.
        backbone: for a backbone of your own, an instance with its settings.

    Raises:
        DataError: a file is missing or damaged, or of another version.
    """

    def rebuild(backbone_record: dict[str, Any], method_record: dict[str, Any]) -> Method:
        made = backbone or make_backbone(backbone_record["name"], **backbone_record["settings"])
        return make_method(method_record["name"], made, **method_record["settings"])

    return read_model(Path(folder), rebuild)
