"""Extraction of the files of a data set from a downloaded zip archive."""

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from icpe.data.datasets.transfer import BadDownloadError


def unpack(archive: Path, required: Sequence[str], optional: Sequence[str] = ()) -> list[Path]:
    """The wanted members of a zip archive, written into a folder ``members`` beside it under their base names.

    Args:
        archive: the zip file.
        required: base names of the members that must exist.
        optional: base names of further members to extract if they exist.

    Raises:
        BadDownloadError: the archive is damaged or lacks a required member.
    """
    folder = archive.parent / "members"
    folder.mkdir()
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = _members(zipped)
            if missing := [file for file in required if file not in members]:
                raise BadDownloadError(f"the archive lacks {' and '.join(missing)}")
            paths = [folder / file for file in (*required, *optional) if file in members]
            for path in paths:
                with zipped.open(members[path.name]) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except (OSError, BadDownloadError):
        raise
    except Exception as error:  # zipfile and the decompressors raise many types of error on damaged data
        raise BadDownloadError(f"the archive is damaged ({error})") from error
    return paths


def _members(zipped: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Members by base name. Members whose paths point outside the archive are ignored, because they are an attack."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in zipped.infolist():
        path = PurePosixPath(info.filename)
        if not (info.is_dir() or path.is_absolute() or ".." in path.parts):
            members.setdefault(path.name, info)
    return members
