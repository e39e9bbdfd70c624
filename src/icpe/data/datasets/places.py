"""The folders in which data sets are found."""

import os
from pathlib import Path

from icpe.data.datasets.catalogue import Dataset
from icpe.errors import DataError


def cache_dir() -> Path:
    """The folder for downloads: ``ICPE_CACHE`` if set, else the system's cache folder for ``icpe``."""
    if named := os.environ.get("ICPE_CACHE"):
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("icpe"))


def search_places(data_dir: Path | None = None) -> list[Path]:
    """The folders to search, in order: ``data_dir``, the folder named by ``ICPE_DATA``, and the cache."""
    named = os.environ.get("ICPE_DATA")
    own = [Path(data_dir).expanduser()] if data_dir is not None else []
    return own + ([Path(named).expanduser()] if named else []) + [cache_dir()]


def locate(dataset: Dataset, data_dir: Path | None = None) -> Path | None:
    """The first folder ``<place>/<name>`` that holds all files of the data set, or None.

    Raises:
        DataError: there is no permission to look into a folder.
    """
    if not dataset.files:
        return None
    for place in search_places(data_dir):
        folder = place / dataset.name
        try:
            if all((folder / file).is_file() for file in dataset.files):
                return folder
        except OSError as error:
            raise DataError(f"cannot look for {dataset.name} in {folder}: {error.strerror or error}") from error
    return None
