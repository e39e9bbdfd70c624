"""The version of a saved model: a hash of its files."""

import hashlib
from pathlib import Path

from icpe.errors import DataError
from icpe.recommender.store import FRONT, ITEMS, PARAMETERS, SEEN, SETTINGS, USERS

_FILES = (SETTINGS, PARAMETERS, USERS, ITEMS, SEEN, FRONT)
_DIGITS = 12


def version_of(folder: Path) -> str:
    """Return twelve digits that change whenever a file of the model changes.

    Raises:
        DataError: the folder holds no model, or a file cannot be read.
    """
    if not (folder / SETTINGS).is_file():
        raise DataError(f"{folder} holds no model: {folder / SETTINGS} does not exist")
    digest = hashlib.sha256()
    for name in _FILES:
        path = folder / name
        if name == FRONT and not path.exists():  # a model that was trained without a validation part has none
            continue
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:_DIGITS]
