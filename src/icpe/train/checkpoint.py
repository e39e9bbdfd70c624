"""The state of a run on disk: tensors in safetensors, the rest in JSON, no pickle.

Both files change together and a manifest beside them holds their checksums. At any moment the folder therefore contains
one complete checkpoint, even if the process is killed, and a damaged one is refused.

Processes that share tables write one file of tensors each, with their own rows; the state names these files and their
checksums. Any number of processes can resume from either kind.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from icpe.errors import DataError
from icpe.files import check_files, finish_interrupted, read_json, write_atomically, write_together
from icpe.files.atomic import as_json, text_writer
from icpe.files.manifest import file_entry
from icpe.shards import Group, current, first, wait
from icpe.shown import shortened
from icpe.train.pieces import Piece, read_pieces

FORMAT = 2  # format 1, of version 0.1, has no manifest
DIVIDED = 3  # the format with a file of tensors from each process
_PART = re.compile(r"state-\d+-[0-9a-f]+\.\d+-of-\d+\.safetensors")
STATE = "state.json"
_SHOWN = 3  # differences in a message
_ELSEWHERE = "train again without --resume, into another folder"


def save_checkpoint(
    folder: Path,
    tensors: dict[str, Tensor],
    record: dict[str, Any],
    identity: dict[str, Any],
    curve: dict[str, Any] | None = None,
    pieces: Mapping[str, Piece] | None = None,
) -> None:
    """Write a checkpoint. In a group, all processes call this.

    Args:
        folder: folder of the checkpoint.
        tensors: parameters and the state of the optimiser.
        record: position of the run, with its ``step``.
        identity: data, seed and settings of the run.
        curve: size and checksum of the curve of validations so far.
        pieces: which part of a tensor this process holds, for tensors that are divided among processes.
    """
    whole = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    content = {"format": FORMAT, "tensors": "", "identity": identity, "record": record, "curve": curve}
    group = current()
    if group is not None:
        _save_divided(folder, whole, content, pieces or {}, group)
        return
    name = _tensor_file(record["step"])
    old = [path.name for path in folder.glob("state-*.safetensors") if path.name != name]
    content["tensors"] = name
    writers = {name: lambda path: save_file(whole, path), STATE: text_writer(as_json(content))}
    write_together(folder, writers, remove=old)


def _save_divided(
    folder: Path, tensors: dict[str, Tensor], content: dict[str, Any], pieces: Mapping[str, Piece], group: Group
) -> None:
    """Write the tensors of this process, and in the first process, after all others, the state that names the files.

    The files have new names each time, so that those of the checkpoint before are complete until the state changes.
    """
    mine = {name: value for name, value in tensors.items() if group.rank == 0 or name in pieces}
    made = group.agreed(f"state-{content['record']['step']}-{time.time_ns():x}")
    name = f"{made}.{group.rank}-of-{group.size}.safetensors"
    write_atomically(folder / name, lambda path: save_file(mine, path))
    held = {key: asdict(piece) for key, piece in pieces.items() if key in mine}
    parts = group.all_values({"name": name, "file": file_entry(folder / name), "pieces": held})
    if group.rank == 0:
        for part in parts:
            if not (folder / part["name"]).exists():
                raise DataError(
                    f"{folder / part['name']} is missing, although another process has written it; all machines must "
                    "see the same folder: choose one on a shared disk with -o"
                )
        names = [part["name"] for part in parts]
        old = [path.name for path in folder.glob("state-*.safetensors") if path.name not in names]
        divided = {**content, "format": DIVIDED, "tensors": parts}
        write_together(folder, {STATE: text_writer(as_json(divided))}, remove=old)
    group.wait()


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
    folder: Path,
    identity: dict[str, Any],
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    pieces: Mapping[str, Piece] | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any] | None] | None:
    """Return the tensors, the record and the curve's checksum of the checkpoint in a folder, or None if it has none.

    Args:
        folder: folder of the checkpoint.
        identity: data, seed and settings of the run that wants to resume.
        upgrade: function that converts an identity written by an earlier version to the current form.
        pieces: the part of a tensor to read, for tensors that are divided among processes.

    Raises:
        DataError: the checkpoint is damaged, has another format version, or belongs to a run with other data or
            settings.
    """
    if first():
        finish_interrupted(folder)
    wait()
    path = folder / STATE
    if not path.exists():
        return None
    content = _read_state(path)
    try:
        record, found = dict(content["record"]), upgrade(dict(content["identity"]))
        step = record["step"]
        sources = _sources(content, step)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}); {_ELSEWHERE}") from error
    if differences := _differences(found, identity):
        raise DataError(
            f"the checkpoint in {folder} belongs to another run: {differences}. Use the same data and settings, or "
            "another folder"
        )
    for name in sources:
        try:
            _check_tensors(folder, name, content)
        except (OSError, DataError) as error:
            raise _damaged(folder / name, error) from error
    name = next(iter(sources))
    try:
        if content["format"] < DIVIDED and not pieces:
            return load_file(folder / name), record, content.get("curve")
        return read_pieces(folder, sources, pieces or {}), record, content.get("curve")
    except (OSError, SafetensorError) as error:
        raise _damaged(folder / name, error) from error


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return in words how the identity of a checkpoint differs from that of the run; no words if it does not."""
    names, said = [], []
    for key, ours in wanted.items():
        theirs = found.get(key)
        if theirs == ours:
            continue
        if key.endswith(" data"):  # checksums, which tell nobody anything
            said.append(f"its {key} are others than those of this run")
        elif not isinstance(theirs, dict) or not isinstance(ours, dict):
            said.append(f"its {key} is {_shown(theirs)}, but this run has {_shown(ours)}")
        elif theirs.get("name") != ours.get("name"):
            names.append(f"it was trained with {key} {theirs.get('name')!r}, but this run has {ours.get('name')!r}")
        else:
            said += [
                f"its {key}.{name} is {_shown(theirs.get(name))}, but this run has {_shown(ours.get(name))}"
                for name in dict.fromkeys((*ours, *theirs))
                if (name in theirs, theirs.get(name)) != (name in ours, ours.get(name))
            ]
    said = [*names, *said]  # another method has other defaults, which would hide it
    further = [f"further differences: {len(said) - _SHOWN}"] if len(said) > _SHOWN else []
    return "; ".join([*said[:_SHOWN], *further])


def _shown(value: Any) -> str:
    return "not set" if value is None else shortened(repr(value))


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is damaged or missing ({error}); {_ELSEWHERE}")


def _sources(content: dict[str, Any], step: Any) -> dict[str, dict[str, Piece]]:
    """Return the files of tensors, and the parts of tensors that each contains.

    Raises:
        ValueError: a name is not one that :func:`save_checkpoint` gives. It could lead out of the folder.
    """
    named = content["tensors"]
    if content["format"] < DIVIDED:
        if not isinstance(step, int) or isinstance(step, bool) or step < 0 or named != _tensor_file(step):
            raise ValueError(f"it names {named!r} for step {step!r}")
        return {named: {}}
    found = {
        part["name"]: {name: Piece(**values) for name, values in part["pieces"].items()} for part in content["tensors"]
    }
    for name in found:
        if not _PART.fullmatch(name) or not name.startswith(f"state-{step}-"):
            raise ValueError(f"it names {name!r} for step {step!r}")
    return found


def _check_tensors(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Compare a file of tensors with its checksum."""
    if content["format"] < DIVIDED:
        if content["format"] > 1:
            check_files(folder, [name], required=True)
        return
    expected = next(part["file"] for part in content["tensors"] if part["name"] == name)
    if file_entry(folder / name) != expected:
        raise DataError("it does not match its checksum")


def _read_state(path: Path) -> dict[str, Any]:
    """Return the content of the state file after comparing it with its checksum."""
    try:
        content: dict[str, Any] = read_json(path)
        version = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); {_ELSEWHERE}") from error
    if version not in (1, FORMAT, DIVIDED):
        raise DataError(f"{path} has format {version!r}, this version reads 1 to {DIVIDED}; {_ELSEWHERE}")
    check_files(path.parent, [STATE], required=version > 1)
    return content
