"""The manifest of a folder: size and SHA-256 of its files, so that damage is noticed when a file is read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icpe.errors import DataError

MANIFEST = "manifest.json"
FORMAT = 1
REMEDY = "restore the folder from a copy, or make it again"
Entries = dict[str, dict[str, Any]]


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file contains no JSON, or JSON that is nested absurdly deep.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def file_entry(path: Path) -> dict[str, Any]:
    """Return the size and the checksum of a file, as the manifest lists them."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def checksum_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values, independent of the layout of the file they are in."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with its own checksum as the last value."""
    return {**content, "checksum": checksum_of(content)}


def opened(content: Any) -> dict[str, Any]:
    """Return sealed content without its checksum.

    Raises:
        ValueError: the content does not match its checksum.
    """
    if not isinstance(content, dict) or "checksum" not in content:
        raise ValueError("its checksum is missing")
    rest = {name: value for name, value in content.items() if name != "checksum"}
    if content["checksum"] != checksum_of(rest):
        raise ValueError("its content does not match its checksum")
    return rest


def manifest_of(entries: Entries) -> dict[str, Any]:
    """Return the content of a manifest that lists these files."""
    return sealed({"format": FORMAT, "files": dict(sorted(entries.items()))})


def read_manifest(folder: Path) -> Entries | None:
    """Return the entries of the manifest in a folder, or None if it has none.

    Raises:
        DataError: the manifest is damaged or has another format version.
    """
    path = folder / MANIFEST
    try:
        content = opened(read_json(path))
        version, files = content["format"], content["files"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is damaged ({error}); {REMEDY}") from error
    if version != FORMAT:
        raise DataError(f"{path} has format {version!r}, this version of icpe reads {FORMAT}; use a newer icpe")
    return dict(files)
