"""The files of a saved model, and those of them that need no torch: settings, ids and training pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.files import read_json

FORMAT = 2  # format 1, of version 0.1, has no manifest and does not record the types of ids
PARAMETERS, SETTINGS = "model.safetensors", "model.json"
USERS, ITEMS, SEEN, FRONT = "users.parquet", "items.parquet", "seen.parquet", "front.parquet"
VECTORS = "vectors.safetensors"  # only models whose scores are inner products have it, and not those of version 0.1
ID_TABLES = (USERS, ITEMS, SEEN)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a model.

    Raises:
        DataError: the file is missing or damaged, or has another format version.
    """
    try:
        content: dict[str, Any] = read_json(path)
        version = content["format"]
    except FileNotFoundError:
        raise DataError(f"{path.parent} holds no model: {path} does not exist") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if not isinstance(version, int) or not 1 <= version <= FORMAT:
        remedy = "use a newer icpe" if isinstance(version, int) and version > FORMAT else "train the model again"
        raise DataError(f"{path} has format {version!r}, this version of icpe reads formats 1 to {FORMAT}; {remedy}")
    return content


def read_log(folder: Path) -> Interactions:
    """Return the ids of a model and the pairs it was trained on.

    Raises:
        DataError: a file is missing or damaged.
    """
    try:
        users = pl.read_parquet(folder / USERS, glob=False)[col.USER]
        items = pl.read_parquet(folder / ITEMS, glob=False)
        seen = pl.read_parquet(folder / SEEN, glob=False)
        user, item = (seen[name].to_numpy().astype(np.int32) for name in ("user", "item"))
        ids = items[col.ITEM]
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"the id tables in {folder} cannot be read: {str(error).splitlines()[0]}") from error
    for name, codes, size in (("user", user, len(users)), ("item", item, len(items))):
        if len(codes) and not 0 <= codes.min() <= codes.max() < size:  # compiled loops do not check them
            raise DataError(
                f"the id tables in {folder} cannot be read: {SEEN} has {name} codes beyond the {size} known"
            )
    info = items if items.width > 1 else None
    return Interactions.from_codes(users, ids, user, item, item_info=info, source=str(folder))


def check_log(folder: Path, log: Interactions, content: dict[str, Any]) -> None:
    """Check that the id tables are as the settings of the model describe them."""
    for name, found in (("users", len(log.users)), ("items", len(log.items)), ("pairs", len(log))):
        if content.get(name, found) != found:
            raise DataError(
                f"{folder / SETTINGS} says {content[name]} {name}, the tables beside it hold {found}: "
                "the files belong to different models; train the model again"
            )
    types = content.get("id_types", {})  # format 1 does not record them
    for file, ids in ((USERS, log.users), (ITEMS, log.items)):
        if types.get(file, str(ids.dtype)) != str(ids.dtype):
            raise DataError(f"{folder / file} holds ids of type {ids.dtype}, {SETTINGS} beside it says {types[file]}")
        if ids.null_count() or ids.n_unique() != len(ids):
            raise DataError(f"{folder / file} is damaged: an id is missing or appears twice; train the model again")
