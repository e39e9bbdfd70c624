"""What a data set says about its items: names, tags and genres."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.data.datasets.catalogue import Dataset, find_dataset
from icpe.data.datasets.download import fetch
from icpe.data.interactions import Interactions
from icpe.errors import DataError

_MIN_USERS = 2  # users who must have given a tag; the tag of a single user may be anything
_COLUMNS = ("tags", "tag", "genres", "genre", "category", "categories")


def item_names(dataset: Dataset, folder: Path) -> pl.DataFrame | None:
    """A frame ``item_id, name`` for display, or None if the data set has no file of names in the folder.

    Raises:
        DataError: the file exists but cannot be read.
    """
    if dataset.item_file is None or not (folder / dataset.item_file).is_file():
        return None
    path = folder / dataset.item_file
    try:
        # Names contain quotation marks that are ordinary characters.
        frame = pl.read_csv(
            path, separator="\t", quote_char=None, columns=["id", "name"], schema_overrides={"name": pl.String}
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"{path} cannot be read: {first}. Expected tab-separated columns 'id' and 'name'") from error
    return frame.select(pl.col("id").alias(col.ITEM), pl.col("name").alias(col.NAME))


def item_tags(log: Interactions, dataset: str, data_dir: Path | str | None = None) -> dict[Any, set[str]]:
    """The tags of each item, by item id; empty if none are known.

    Args:
        log: the log whose items are looked up. A column such as ``genre`` or ``tags`` of its item information is used;
            several tags are separated by ``|``.
        dataset: name in the catalogue. For ``lastfm`` the data set's own tag file is used, with the tags that at least
            two users gave.
        data_dir: folder to search first for data sets of the catalogue.
    """
    if dataset == "lastfm":
        return _lastfm_tags(Path(data_dir) if data_dir else None)
    info = log.item_info
    column = next((name for name in _COLUMNS if info is not None and name in info.columns), None)
    if info is None or column is None:
        return {}
    texts = zip(info[col.ITEM], info[column].cast(pl.String), strict=True)
    return {item: {one.strip() for one in text.split("|") if one.strip()} for item, text in texts if text}


def _lastfm_tags(data_dir: Path | None) -> dict[Any, set[str]]:
    folder = fetch(find_dataset("lastfm"), data_dir)
    given, names = folder / "user_taggedartists.dat", folder / "tags.dat"
    if not (given.exists() and names.exists()):
        return {}
    tags = pl.read_csv(names, separator="\t", encoding="iso-8859-1", quote_char=None)
    counts = (
        pl.read_csv(given, separator="\t")
        .group_by("artistID", "tagID")
        .agg(pl.col("userID").n_unique())
        .filter(pl.col("userID") >= _MIN_USERS)
        .join(tags, on="tagID")
    )
    found: defaultdict[Any, set[str]] = defaultdict(set)
    for artist, tag in counts.select("artistID", "tagValue").iter_rows():
        found[artist].add(tag)
    return dict(found)
