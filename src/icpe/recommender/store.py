"""Saving and reading a model: parameters in safetensors, settings in JSON, ids in Parquet. Nothing is pickled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.files import write_atomically, write_json
from icpe.recommender.front import Front
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.train.method import TrainingMethod

FORMAT = 1
PARAMETERS, SETTINGS = "model.safetensors", "model.json"
USERS, ITEMS, SEEN, FRONT = "users.parquet", "items.parquet", "seen.parquet", "front.parquet"


def save_model(model: Model, folder: Path) -> None:
    """Write the model into a folder, the settings last, because a folder without them holds no model.

    If the process stops at any point, the folder contains the old model, the new one or none, but never parts of both.
    """
    log, method = model.log, model.method
    tensors = {name: value.detach().cpu().contiguous() for name, value in method.state_dict().items()}
    items = log.items.to_frame() if log.item_info is None else log.item_info
    seen = pl.DataFrame({"user": log.user, "item": log.item})
    writers: dict[str, Callable[[Path], object]] = {
        PARAMETERS: lambda path: save_file(tensors, path),
        USERS: log.users.to_frame().write_parquet,
        ITEMS: items.write_parquet,
        SEEN: seen.write_parquet,
    }
    if model.has_front:
        writers[FRONT] = model.front().as_frame().write_parquet
    staged = {name: folder / f".{Path(name).stem}-newfiles{Path(name).suffix}" for name in writers}
    try:
        for name, path in staged.items():
            write_atomically(path, writers[name])
        for old in (SETTINGS, FRONT):
            (folder / old).unlink(missing_ok=True)
        for name, path in staged.items():
            path.replace(folder / name)
    finally:
        for path in staged.values():
            path.unlink(missing_ok=True)
    save_settings(model, folder)


def save_settings(model: Model, folder: Path) -> None:
    """Write only the settings of a model, for example after another setting of the dial was chosen."""
    log, method = model.log, model.method
    content = {
        "format": FORMAT,
        "backbone": {"name": method.backbone.name, "settings": method.backbone.settings.as_dict()},
        "method": {"name": method.name, "settings": method.settings.as_dict()},
        "users": len(log.users),
        "items": len(log.items),
        "pairs": len(log),
        "train_hash": log.content_hash,
    }
    write_json(folder / SETTINGS, content)


Rebuild = Callable[[dict[str, Any], dict[str, Any]], TrainingMethod]


def read_model(folder: Path, rebuild: Rebuild) -> Model:
    """Return the model that :func:`save_model` wrote.

    Args:
        folder: folder of a model or of a run.
        rebuild: function that makes the untrained method from the records of its backbone and of the method. Each
            record contains ``name`` and ``settings``.

    Raises:
        ConfigError: the model needs an unknown backbone or method.
        DataError: a file is missing or damaged, or has another format version.
    """
    content = _read_settings(folder / SETTINGS)
    try:
        method = rebuild(content["backbone"], content["method"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS} is damaged: {type(error).__name__} {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{folder} holds a model that cannot be rebuilt here: {error}") from error
    log = _read_log(folder)
    for name, found in (("users", len(log.users)), ("items", len(log.items)), ("pairs", len(log))):
        if content.get(name, found) != found:
            raise DataError(
                f"{folder / SETTINGS} says {content[name]} {name}, the tables beside it hold {found}: "
                "the files belong to different models; train the model again"
            )
    method.build(log, stream(0, "load"))
    try:
        method.load_state_dict(load_file(folder / PARAMETERS))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(f"{folder / PARAMETERS} does not hold this model: {' '.join(str(error).split())}") from error
    return Model(method, log, read_front(folder / FRONT))


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = content["format"]
    except FileNotFoundError:
        raise DataError(f"{path.parent} holds no model: {path} does not exist") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if version != FORMAT:
        remedy = "use a newer icpe" if isinstance(version, int) and version > FORMAT else "train the model again"
        raise DataError(f"{path} has format {version!r}, this version of icpe reads format {FORMAT}; {remedy}")
    return content


def read_front(path: Path) -> Front | None:
    """Return the front in a Parquet file, or None if the file does not exist.

    Models that were trained without a validation part or by earlier versions have none.

    Raises:
        DataError: the file is damaged.
    """
    if not path.exists():
        return None
    try:
        return Front.from_frame(pl.read_parquet(path, glob=False))
    except (OSError, IndexError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0]}; delete it and measure again") from error


def _read_log(folder: Path) -> Interactions:
    try:
        users = pl.read_parquet(folder / USERS, glob=False)[col.USER]
        items = pl.read_parquet(folder / ITEMS, glob=False)
        seen = pl.read_parquet(folder / SEEN, glob=False)
        user, item = (seen[name].to_numpy().astype(np.int32) for name in ("user", "item"))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataError(f"the id tables in {folder} cannot be read: {str(error).splitlines()[0]}") from error
    for name, codes, size in (("user", user, len(users)), ("item", item, len(items))):
        if len(codes) and not 0 <= codes.min() <= codes.max() < size:  # compiled loops do not check them
            raise DataError(
                f"the id tables in {folder} cannot be read: {SEEN} has {name} codes beyond the {size} known"
            )
    info = items if items.width > 1 else None
    return Interactions.from_codes(users, items[col.ITEM], user, item, item_info=info, source=str(folder))
