"""Parquet files that are written piece by piece, so that memory holds a few pieces and not all of them."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source


def write_pieces(pieces: Iterable[pl.DataFrame], path: Path) -> None:
    """Write one Parquet file from at least one piece, in their order."""
    rest = iter(pieces)
    first = next(rest)

    def source(*_: object) -> Iterator[pl.DataFrame]:
        yield from itertools.chain([first], rest)

    # The lazy frame requests one piece after the other, and the writer does not wait for the last one.
    register_io_source(source, schema=first.schema).sink_parquet(path)
