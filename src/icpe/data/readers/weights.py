"""Weights, such as ratings and play counts, as numbers."""

import polars as pl

from icpe.data.readers.table import Table
from icpe.errors import DataError
from icpe.types import FloatArray


def parse_weights(table: Table, column: str) -> FloatArray:
    """Weights as float64 [rows].

    Raises:
        DataError: a weight is missing or not a finite number.
    """
    values = table.frame[column]
    if values.dtype != pl.String and not values.dtype.is_numeric():
        raise DataError(f"{table.source}: {column!r} has the type {values.dtype}; expected numbers")
    numbers = text_to_numbers(values) if values.dtype == pl.String else values.cast(pl.Float64)
    wrong = numbers.is_null() | ~numbers.is_finite()
    if wrong.fill_null(True).any():
        raise table.wrong_value(column, wrong.fill_null(True), "is not a number")
    return numbers.to_numpy()


def text_to_numbers(values: pl.Series) -> pl.Series:
    """Text as Float64. Blanks around a number are allowed; text that is not a number becomes null."""
    numbers = values.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == 0 else values.str.strip_chars().cast(pl.Float64, strict=False)
