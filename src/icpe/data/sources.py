"""Logs by path or by name: a file, a folder, or a data set of the catalogue."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from icpe.data.datasets import CATALOGUE, fetch, find_dataset, item_names
from icpe.data.interactions import Interactions
from icpe.data.world import make_world
from icpe.errors import DataError
from icpe.suggest import unknown_name


def open_log(
    source: str | Path,
    data_dir: Path | str | None = None,
    *,
    k_core: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Interactions:
    """The log behind a path or a name of the catalogue. The command line reads ``DATA`` in the same way.

    Args:
        source: an existing file or folder, or a name such as ``lastfm``; ``./lastfm`` is always a path. A folder can
            hold Parquet files that form one log, or a generated world, whose log and item names are then used.
        data_dir: folder to search first for data sets of the catalogue.
        k_core: keep the largest part in which every user and item has at least this many interactions. By default a
            data set of the catalogue is reduced to the k-core that the catalogue states, and other logs are complete.
            1 keeps the complete log.
        progress: show a progress bar while downloading.
        options: further arguments of :meth:`Interactions.read`. They take precedence over those of the catalogue.

    Raises:
        DataError: the source does not exist or cannot be read, or the k-core is empty.

    Example:
        >>> open_log("demo")
        Interactions(2,000 users, 1,500 items, 60,000 interactions)
        >>> open_log("demo", k_core=20)
        Interactions(872 users, 442 items, 30,970 interactions)
    """
    name = str(source)
    if name in CATALOGUE:
        log = _open_dataset(name, Path(data_dir) if data_dir else None, progress, options)
        log = replace(log, reading=replace(log.reading, source=name))
        k_core = CATALOGUE[name].k_core if k_core is None else k_core
    else:
        if not (Path(name).exists() or Path(name).suffix or "/" in name):
            raise _unknown(name)
        log = _open_path(Path(source), options)
    return log if k_core is None else log.k_core(k_core)


def _open_dataset(name: str, data_dir: Path | None, progress: bool, options: dict[str, Any]) -> Interactions:
    if name == "demo":
        return make_world().log
    dataset = find_dataset(name)
    folder = fetch(dataset, data_dir, progress=progress)
    known: dict[str, Any] = {"columns": dataset.columns, "item_info": item_names(dataset, folder)}
    return Interactions.read([folder / file for file in dataset.files], **{**known, **dataset.read_options, **options})


def _unknown(name: str) -> DataError:
    reason = unknown_name("data set", name, sorted(CATALOGUE))
    return DataError(f"{name!r} is neither a file or folder nor a known data set: {reason}")


def _open_path(path: Path, options: dict[str, Any]) -> Interactions:
    log, items = path / "log.parquet", path / "items.parquet"
    if log.is_file() and items.is_file():  # a world as `icpe data make` writes it
        named = options if options.get("item_info") is not None else {**options, "item_info": items}
        return Interactions.read(log, **named)
    return Interactions.read(path, **options)
