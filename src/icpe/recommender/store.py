"""Saving and reading a model: parameters in safetensors, settings in JSON, ids in Parquet. Nothing is pickled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from icpe.errors import ConfigError, DataError
from icpe.files import check_files, finish_interrupted, write_together
from icpe.files.atomic import Writer, as_json, text_writer
from icpe.recommender.front import Front
from icpe.recommender.model import Model
from icpe.recommender.parameters import identity_of, parameters_of, write_parameters
from icpe.recommender.saved_log import (
    FORMAT,
    FRONT,
    ID_TABLES,
    ITEMS,
    PARAMETERS,
    SEEN,
    SETTINGS,
    USERS,
    VECTORS,
    check_log,
    read_log,
    read_settings,
)
from icpe.recommender.vector_file import vectors_of, vectors_writer
from icpe.rng import NoDraws
from icpe.shards import current
from icpe.train.method import TrainingMethod


def save_model(model: Model, folder: Path) -> None:
    """Write the model into a folder. After a crash, the folder contains the old model or the new one, complete."""
    writers = model_writers(model)
    write_together(folder, writers, remove=[name for name in (FRONT, VECTORS) if name not in writers])


def model_writers(model: Model) -> dict[str, Writer]:
    """Return a function that writes each file of a model, by the name of the file."""
    log = model.log
    items = log.items.to_frame() if log.item_info is None else log.item_info
    seen = pl.DataFrame({"user": log.user, "item": log.item})
    front = {FRONT: model.front().as_frame().write_parquet} if model.has_front else {}
    return {
        PARAMETERS: lambda path: write_parameters(model.method, path),
        USERS: log.users.to_frame().write_parquet,
        ITEMS: items.write_parquet,
        SEEN: seen.write_parquet,
        **_vectors(model),
        **front,
        SETTINGS: settings_writer(model),
    }


def _vectors(model: Model) -> dict[str, Writer]:
    """Return what writes the file from which lists are made without torch. It needs all rows in one process."""
    if current() is not None:
        return {}
    tensors = parameters_of(model.method)
    found = vectors_of(model, tensors)
    return {} if found is None else {VECTORS: vectors_writer(found, identity_of(tensors))}


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
    content = read_settings(folder / SETTINGS)
    if verify and content["format"] > 1:
        check_files(folder, [SETTINGS, PARAMETERS, *ID_TABLES], required=True)
        check_files(folder, [FRONT, VECTORS])
    try:
        method = rebuild(content["backbone"], content["method"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS} is damaged: {type(error).__name__} {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{folder} holds a model that cannot be rebuilt here: {error}") from error
    log = read_log(folder)
    check_log(folder, log, content)
    method.build(log, NoDraws())
    try:
        method.load_state_dict(_read_tensors(folder / PARAMETERS, _shapes(method.state_dict())))
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        raise DataError(f"{folder / PARAMETERS} does not hold this model: {' '.join(str(error).split())}") from error
    return Model(method, log, read_front(folder / FRONT), content.get("train_hash"))


def training_data_hash(folder: Path) -> str | None:
    """Return the content hash of the training data of the model in a folder."""
    found: str | None = read_settings(folder / SETTINGS).get("train_hash")
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
