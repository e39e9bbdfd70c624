"""The state of a run on disk: tensors in safetensors, the rest in JSON, no pickle.

The tensors are written to a new file first. Then the JSON file that names them replaces the old one by a rename. At any
moment the folder therefore contains one complete checkpoint, even if the process is killed.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from icpe.errors import DataError
from icpe.files import write_atomically, write_json

FORMAT = 1
STATE = "state.json"


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], record: dict[str, Any], identity: dict[str, Any]) -> None:
    """Write a checkpoint. ``identity`` says which run it belongs to."""
    name = f"state-{record['step']}.safetensors"
    whole = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    write_atomically(folder / name, lambda path: save_file(whole, path))
    write_json(folder / STATE, {"format": FORMAT, "tensors": name, "identity": identity, "record": record})
    for old in folder.glob("state-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def saved_identity(folder: Path) -> dict[str, Any]:
    """Return the identity in a checkpoint, or an empty one without a checkpoint that can be read.

    :func:`load_checkpoint` says what is wrong with a damaged one.
    """
    try:
        found: dict[str, Any] = dict(json.loads((folder / STATE).read_text(encoding="utf-8"))["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found


def load_checkpoint(
    folder: Path, identity: dict[str, Any], upgrade: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the tensors and the record of the checkpoint in a folder, or None if it has none.

    Args:
        folder: folder of the checkpoint.
        identity: data, seed and settings of the run that wants to resume.
        upgrade: function that converts an identity written by an earlier version to the current form.

    Raises:
        DataError: the checkpoint is damaged, has another format version, or belongs to a run with other data or
            settings.
    """
    path = folder / STATE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version, name, record = content["format"], content["tensors"], content["record"]
        found = upgrade(dict(content["identity"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); train again without --resume, into another folder") from error
    if version != FORMAT:
        raise DataError(f"{path} has format {version}, this version reads {FORMAT}; train again into another folder")
    for key in identity:
        if found.get(key) != identity[key]:
            raise DataError(
                f"the checkpoint in {folder} belongs to another run: its {key} is {found.get(key)!r}, "
                f"but this run has {identity[key]!r}. Use the same data and settings, or another folder"
            )
    try:
        return load_file(folder / str(name)), record
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"{folder / str(name)} is damaged or missing ({error}); train again into another folder"
        ) from error
