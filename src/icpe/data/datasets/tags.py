"""What people or publishers say of items: tags and genres, where a data set has them."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl

from icpe import columns as col
from icpe.data.datasets.catalogue import find_dataset
from icpe.data.interactions import Interactions

_SAID_BY = 2  # people who must have said it: one person's tag may be anything
_COLUMNS = ("tags", "tag", "genres", "genre", "category", "categories")


def item_tags(log: Interactions, dataset: str, data_dir: Path | str | None = None) -> dict[Any, set[str]]:
    """Tags of each item by its id; empty where nothing is known.

    Args:
        log: whose items. A column ``genre`` or ``tags`` of its item information (several with | between) is taken.
        dataset: the catalogue's name; Last.FM's own tag file is read, with the tags two people agree on.
        data_dir: where to look first for data sets of the catalogue.
    """
    if dataset == "lastfm":
        return _of_lastfm(Path(data_dir) if data_dir else None)
    info = log.item_info
    column = next((name for name in _COLUMNS if info is not None and name in info.columns), None)
    if info is None or column is None:
        return {}
    said = zip(info[col.ITEM], info[column].cast(pl.String), strict=True)
    return {item: {one.strip() for one in text.split("|") if one.strip()} for item, text in said if text}


def _of_lastfm(data_dir: Path | None) -> dict[Any, set[str]]:
    from icpe.data.datasets.fetch import fetch  # late: brings the download library

    folder = fetch(find_dataset("lastfm"), data_dir)
    given, names = folder / "user_taggedartists.dat", folder / "tags.dat"
    if not (given.exists() and names.exists()):
        return {}
    tags = pl.read_csv(names, separator="\t", encoding="iso-8859-1", quote_char=None)
    counts = (
        pl.read_csv(given, separator="\t")
        .group_by("artistID", "tagID")
        .agg(pl.col("userID").n_unique())
        .filter(pl.col("userID") >= _SAID_BY)
        .join(tags, on="tagID")
    )
    found: defaultdict[Any, set[str]] = defaultdict(set)
    for artist, tag in counts.select("artistID", "tagValue").iter_rows():
        found[artist].add(tag)
    return dict(found)
