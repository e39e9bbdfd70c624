"""Checks that the files of a data set are the published ones, each time they are used.

A download is compared with the catalogue's checksum. Its files are then recorded by their SHA-256 in the cache, so that
files that were unpacked from an archive, too, are compared whenever they are opened again. Files that users have put
into a folder of their own are theirs to change; they only get a warning if they differ from the published ones.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from icpe.data.datasets.catalogue import Dataset, RemoteFile
from icpe.data.datasets.places import cache_dir
from icpe.errors import DataError
from icpe.files import read_json, write_json

RECORD = "checksums.json"


def file_name(remote: RemoteFile) -> str:
    """The last part of the URL's path."""
    return PurePosixPath(urlsplit(remote.url).path).name


def checksum(path: Path, like: str = "sha256:") -> str:
    """The checksum of a file, by the algorithm and in the notation of the checksum ``like``."""
    import pooch

    algorithm = like.partition(":")[0]
    return f"{algorithm}:{pooch.file_hash(str(path), alg=algorithm)}"


def published(dataset: Dataset) -> dict[str, str]:
    """The checksums that the catalogue states, by file name. Files inside an archive have none of their own."""
    plain = {file_name(remote): remote.checksum for remote in dataset.remote if not remote.archive}
    return {**{name: value for name, value in plain.items() if value is not None}, **dataset.known}


def record(folder: Path, files: Sequence[str]) -> None:
    """Write down the checksums of files that were just downloaded and checked."""
    try:
        before = _recorded(folder)
    except DataError:
        before = {}
    write_json(folder / RECORD, {**before, **{name: checksum(folder / name) for name in files}})


def verify(dataset: Dataset, folder: Path) -> Path:
    """The folder, after comparing the files of the data set with their checksums.

    Raises:
        DataError: a file in the cache has changed since it was downloaded.
    """
    downloaded = folder == cache_dir() / dataset.name
    expected = {**(_recorded(folder) if downloaded else {}), **published(dataset)}
    wrong = _differing(folder, expected)
    if wrong and downloaded:
        raise DataError(
            f"{folder / wrong} is not the file that was published: its checksum should be {expected[wrong]}. It is "
            f"damaged or was changed; download it again with `icpe data fetch {dataset.name} --force`"
        )
    if wrong:
        warnings.warn(
            f"{folder / wrong} is not the published file of {dataset.name} ({expected[wrong]}), so results cannot be "
            "compared with those of others",
            stacklevel=4,
        )
    return folder


def _differing(folder: Path, expected: Mapping[str, str]) -> str | None:
    """The first file whose checksum differs, or None."""
    for name, value in expected.items():
        if (folder / name).is_file() and checksum(folder / name, value) != value:
            return name
    return None


def _recorded(folder: Path) -> dict[str, str]:
    """The checksums in the record of a folder; empty if it has none.

    Raises:
        DataError: the record is damaged.
    """
    try:
        content = read_json(folder / RECORD)
        return {name: str(content[name]) for name in content if Path(name).name == name}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{folder / RECORD} cannot be read ({error}); download the data set again with --force"
        ) from error
