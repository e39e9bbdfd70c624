"""Saving and reading a model: parameters in safetensors, settings in JSON, ids in Parquet. Nothing is pickled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.files import check_files, finish_interrupted, read_json, write_together
from icpe.files.atomic import Writer, as_json, text_writer
from icpe.recommender.front import Front
from icpe.recommender.model import Model
from icpe.rng import NoDraws
from icpe.train.method import TrainingMethod

FORMAT = 2  # format 1, of version 0.1, has no manifest and does not record the types of ids
PARAMETERS, SETTINGS = "model.safetensors", "model.json"
USERS, ITEMS, SEEN, FRONT = "users.parquet", "items.parquet", "seen.parquet", "front.parquet"
_TABLES = (USERS, ITEMS, SEEN)


def save_model(model: Model, folder: Path) -> None:
    """Write the model into a folder. After a crash, the folder contains the old model or the new one, complete."""
    writers = model_writers(model)
    write_together(folder, writers, remove=[] if FRONT in writers else [FRONT])


def model_writers(model: Model) -> dict[str, Writer]:
    """Return a function that writes each file of a model, by the name of the file."""
    log = model.log
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.method.state_dict().items()}
    items = log.items.to_frame() if log.item_info is None else log.item_info
    seen = pl.DataFrame({"user": log.user, "item": log.item})
    front = {FRONT: model.front().as_frame().write_parquet} if model.has_front else {}
    return {
        PARAMETERS: lambda path: save_file(tensors, path),
        USERS: log.users.to_frame().write_parquet,
        ITEMS: items.write_parquet,
        SEEN: seen.write_parquet,
        **front,
        SETTINGS: settings_writer(model),
    }


def settings_writer(model: Model) -> Writer:
    """Return a function that writes the settings of a model, for example after the dial was turned."""
    log, method = model.log, model.method
    content = {
        "format": FORMAT,
        "backbone": {"name": method.backbone.name, "settings": method.backbone.settings.as_dict()},
        "method": {"name": method.name, "settings": method.settings.as_dict()},
        "users": len(log.users),
        "items": len(log.items),
        "pairs": len(log),
        "id_types": {USERS: str(log.users.dtype), ITEMS: str(log.items.dtype)},
        "train_hash": model.train_hash,
    }
    return text_writer(as_json(content))


def _shapes(tensors: dict[str, Tensor]) -> dict[str, list[Any]]:
    """Return the type and the shape of each tensor, by name."""
    return {name: [str(value.dtype).removeprefix("torch."), *value.shape] for name, value in sorted(tensors.items())}


Rebuild = Callable[[dict[str, Any], dict[str, Any]], TrainingMethod]


def read_model(folder: Path, rebuild: Rebuild, verify: bool = True) -> Model:
    """Return the model that :func:`save_model` wrote.

    Args:
        folder: folder of a model or of a run.
        rebuild: function that makes the untrained method from the records of its backbone and of the method. Each
            record contains ``name`` and ``settings``.
        verify: whether to compare the files with the checksums in the manifest.

    Raises:
        ConfigError: the model needs an unknown backbone or method.
        DataError: a file is missing or damaged, or has another format version.
    """
    finish_interrupted(folder)
    content = _read_settings(folder / SETTINGS)
    if verify and content["format"] > 1:
        check_files(folder, [SETTINGS, PARAMETERS, *_TABLES], required=True)
        check_files(folder, [FRONT])
    try:
        method = rebuild(content["backbone"], content["method"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS} is damaged: {type(error).__name__} {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{folder} holds a model that cannot be rebuilt here: {error}") from error
    log = _read_log(folder)
    _check_log(folder, log, content)
    method.build(log, NoDraws())
    try:
        method.load_state_dict(_read_tensors(folder / PARAMETERS, _shapes(method.state_dict())))
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        raise DataError(f"{folder / PARAMETERS} does not hold this model: {' '.join(str(error).split())}") from error
    return Model(method, log, read_front(folder / FRONT), content.get("train_hash"))


def _read_settings(path: Path) -> dict[str, Any]:
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


def training_data_hash(folder: Path) -> str | None:
    """Return the content hash of the training data of the model in a folder."""
    found: str | None = _read_settings(folder / SETTINGS).get("train_hash")
    return found


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


def _read_tensors(path: Path, expected: dict[str, list[Any]]) -> dict[str, Tensor]:
    """Return the tensors in a file. Loading them would silently convert another type, so types are compared first."""
    tensors = load_file(path)
    for name, found in _shapes(tensors).items():
        if name in expected and found != expected[name]:
            raise ValueError(f"{name} is {found}, expected {expected[name]}")
    return tensors


def _read_log(folder: Path) -> Interactions:
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


def _check_log(folder: Path, log: Interactions, content: dict[str, Any]) -> None:
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
