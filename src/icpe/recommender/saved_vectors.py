"""Lists from the saved vectors of a model: the same lists as the model gives, without importing torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from icpe.errors import DataError
from icpe.files import check_files, finish_interrupted
from icpe.ranking.tables import DotScores
from icpe.recommender.ranker import ListRanker
from icpe.recommender.requests import Recommender
from icpe.recommender.saved_log import (
    ID_TABLES,
    PARAMETERS,
    SETTINGS,
    VECTORS,
    check_log,
    read_log,
    read_settings,
)
from icpe.types import FloatArray


@dataclass(frozen=True, eq=False)
class SavedTables:
    """The tables of a saved model.

    Attributes:
        scores: the scores that rank items, without the dial.
        direction: the direction of the dial, float32 [items].
    """

    scores: DotScores
    direction: FloatArray


def read_recommender(folder: Path, verify: bool = True) -> Recommender[ListRanker] | None:
    """Return the recommender in a folder, or None if it needs the complete model.

    This is so for models of version 0.1 and for models whose scores are not inner products.

    Args:
        folder: folder of a model or of a run.
        verify: whether to compare the files with the checksums in the manifest.

    Raises:
        DataError: a file is missing or damaged, or has another format version.
    """
    finish_interrupted(folder)
    content = read_settings(folder / SETTINGS)
    if content["format"] == 1 or not (folder / VECTORS).exists():
        return None
    if verify:
        check_files(folder, [SETTINGS, PARAMETERS, VECTORS, *ID_TABLES], required=True)
    try:
        tables = _read_tables(folder)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{folder / VECTORS} is damaged: {type(error).__name__} {reason}; delete it") from error
    if tables is None:
        return None
    log = read_log(folder)
    check_log(folder, log, content)
    shape = (tables.scores.users, tables.scores.items, len(tables.direction))
    if shape != (len(log.users), len(log.items), len(log.items)):
        raise DataError(f"{folder / VECTORS} does not fit the id tables beside it; delete it")
    beta = content["method"]["settings"].get("beta") or 0.0
    return Recommender(log, ListRanker(tables, log, float(beta)))


def _read_tables(folder: Path) -> SavedTables | None:
    """Return the tables, or None if the file belongs to other parameters than those beside it."""
    with safe_open(folder / VECTORS, "numpy") as vectors, safe_open(folder / PARAMETERS, "numpy") as parameters:
        record = json.loads(vectors.metadata()["vectors"])
        if record["parameters"] != (parameters.metadata() or {}).get("parameters"):
            return None
        tables, names = record["tables"], set(vectors.keys())

        def side(name: str) -> Any:
            if name not in tables:
                return vectors.get_tensor(name)
            rows = parameters.get_tensor(tables[name])
            return rows / vectors.get_tensor(name) if name in names else rows

        bias = vectors.get_tensor("bias") if "bias" in names else None
        return SavedTables(DotScores(side("user"), side("item"), bias), vectors.get_tensor("direction"))
