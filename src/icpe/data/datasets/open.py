"""``DATA`` as people write it: a file, a folder of Parquet, or a name of the catalogue."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from icpe.data.datasets.catalogue import CATALOGUE, find_dataset
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError


def open_log(
    data: str | Path, data_dir: Path | str | None = None, progress: bool = False, **options: Any
) -> Interactions:
    """The log behind a path or a catalogue name.

    Args:
        data: an existing file or folder, or a name such as ``lastfm``; ``./lastfm`` is always a path.
        data_dir: folder to look in first for data sets of the catalogue.
        progress: show a bar while downloading.
        options: as for :meth:`Interactions.read`; they win over what the catalogue says.

    Raises:
        DataError: neither such a path nor such a name.
    """
    name = str(data)
    if name in CATALOGUE:
        log = _open_dataset(name, Path(data_dir) if data_dir else None, progress, options)
        return replace(log, reading=replace(log.reading, source=name))
    if not (Path(data).exists() or Path(name).suffix or "/" in name):
        try:
            find_dataset(name)
        except ConfigError as error:
            raise DataError(f"{name!r} is neither a file or folder nor a known data set: {error}") from None
    return Interactions.read(_log_in(Path(data), options), **options)


def _log_in(path: Path, options: dict[str, Any]) -> Path:
    """The log of a folder that ``icpe data make`` left, where items are named in another file; else the path itself."""
    log, items = path / "log.parquet", path / "items.parquet"
    if not (log.is_file() and items.is_file()):
        return path
    if options.get("item_info") is None:
        options["item_info"] = items
    return log


def _open_dataset(name: str, data_dir: Path | None, progress: bool, options: dict[str, Any]) -> Interactions:
    if name == "demo":
        from icpe.data.world.world import make_world

        return make_world().log
    from icpe.data.datasets.fetch import fetch, item_names  # late: brings the download library

    dataset = find_dataset(name)
    folder = fetch(dataset, data_dir, progress=progress)
    known: dict[str, Any] = {"columns": dataset.columns, "item_info": item_names(dataset, folder)}
    return Interactions.read([folder / file for file in dataset.files], **{**known, **dataset.read_options, **options})
