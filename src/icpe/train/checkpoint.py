"""The state of a run on disk: tensors in safetensors, the rest in JSON, no pickle.

Both files change together and a manifest beside them holds their checksums. At any moment the folder therefore contains
one complete checkpoint, even if the process is killed, and a damaged one is refused.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from icpe.errors import DataError
from icpe.files import check_files, finish_interrupted, read_json, write_together
from icpe.files.atomic import as_json, text_writer

FORMAT = 2  # format 1, of version 0.1, has no manifest
STATE = "state.json"
_ELSEWHERE = "train again without --resume, into another folder"


def save_checkpoint(
    folder: Path,
    tensors: dict[str, Tensor],
    record: dict[str, Any],
    identity: dict[str, Any],
    curve: dict[str, Any] | None = None,
) -> None:
    """Write a checkpoint.

    Args:
        folder: folder of the checkpoint.
        tensors: parameters and the state of the optimiser.
        record: position of the run, with its ``step``.
        identity: data, seed and settings of the run.
        curve: size and checksum of the curve of validations so far.
    """
    name = _tensor_file(record["step"])
    whole = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    content = {"format": FORMAT, "tensors": name, "identity": identity, "record": record, "curve": curve}
    old = [path.name for path in folder.glob("state-*.safetensors") if path.name != name]
    writers = {name: lambda path: save_file(whole, path), STATE: text_writer(as_json(content))}
    write_together(folder, writers, remove=old)


def _tensor_file(step: int) -> str:
    return f"state-{step}.safetensors"


def saved_identity(folder: Path) -> dict[str, Any]:
    """Return the identity in a checkpoint, or an empty one without a checkpoint that can be read.

    :func:`load_checkpoint` says what is wrong with a damaged one.
    """
    try:
        found: dict[str, Any] = dict(read_json(folder / STATE)["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found


def load_checkpoint(
    folder: Path, identity: dict[str, Any], upgrade: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any] | None] | None:
    """Return the tensors, the record and the curve's checksum of the checkpoint in a folder, or None if it has none.

    Args:
        folder: folder of the checkpoint.
        identity: data, seed and settings of the run that wants to resume.
        upgrade: function that converts an identity written by an earlier version to the current form.

    Raises:
        DataError: the checkpoint is damaged, has another format version, or belongs to a run with other data or
            settings.
    """
    finish_interrupted(folder)
    path = folder / STATE
    if not path.exists():
        return None
    content = _read_state(path)
    try:
        name, record, found = str(content["tensors"]), dict(content["record"]), upgrade(dict(content["identity"]))
        step = record["step"]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); {_ELSEWHERE}") from error
    # Only the name that belongs to the step is accepted: another one could lead out of the folder.
    if not isinstance(step, int) or isinstance(step, bool) or step < 0 or name != _tensor_file(step):
        raise DataError(f"{path} is damaged: it names {name!r} for step {step!r}; {_ELSEWHERE}")
    for key in identity:
        if found.get(key) != identity[key]:
            raise DataError(
                f"the checkpoint in {folder} belongs to another run: its {key} is {found.get(key)!r}, "
                f"but this run has {identity[key]!r}. Use the same data and settings, or another folder"
            )
    try:
        if content["format"] > 1:
            check_files(folder, [name], required=True)
        return load_file(folder / name), record, content.get("curve")
    except (OSError, SafetensorError, DataError) as error:
        raise DataError(f"{folder / name} is damaged or missing ({error}); {_ELSEWHERE}") from error


def _read_state(path: Path) -> dict[str, Any]:
    """Return the content of the state file after comparing it with its checksum."""
    try:
        content: dict[str, Any] = read_json(path)
        version = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); {_ELSEWHERE}") from error
    if version not in (1, FORMAT):
        raise DataError(f"{path} has format {version!r}, this version reads 1 and {FORMAT}; {_ELSEWHERE}")
    check_files(path.parent, [STATE], required=version > 1)
    return content
