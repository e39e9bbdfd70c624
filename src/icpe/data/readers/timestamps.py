"""Timestamps in any of the common forms, as microseconds since 1970."""

from typing import Literal, get_args

import numpy as np
import polars as pl

from icpe.data.readers.table import Table
from icpe.data.readers.weights import text_to_numbers
from icpe.errors import ConfigError, DataError
from icpe.types import IntArray

TimeUnit = Literal["auto", "min", "s", "ms", "us", "ns"]

_MICROSECONDS = {"day": 86_400e6, "min": 60e6, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_LATEST = 253_402_300_800 * 10**6  # the end of the year 9999, in microseconds
_ISO_FORMS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f%z", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M%z")
_REMEDY = "Convert other dates to ISO 8601, such as 2024-11-04 12:59, or leave the column out"
_EXAMPLES = "expected Unix seconds or milliseconds (1546272009), an ISO time (2019-01-31T16:00:09) or a date"


def parse_times(table: Table, column: str, unit: TimeUnit = "auto") -> IntArray:
    """Times as microseconds since 1970 (UTC), int64 [rows].

    Numbers are Unix times; their unit is derived from their size unless ``unit`` gives it. Text is a number, an ISO
    8601 time with or without offset, or a date. Times without offset are UTC.

    Raises:
        DataError: a time is missing, cannot be read, is negative or after the year 9999.
    """
    if unit not in get_args(TimeUnit):
        raise ConfigError(f"time_unit is {unit!r}; expected one of {', '.join(get_args(TimeUnit))}")
    values = table.frame[column]
    if values.dtype == pl.String:
        times = _from_text(table, column, values, unit)
    elif values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        times = _from_dates(values)
    elif values.dtype.is_numeric() and not values.dtype.is_decimal():
        times = _from_numbers(table, column, values, unit)
    else:
        raise DataError(f"{table.source}: {column!r} has the type {values.dtype}; {_EXAMPLES}")
    if times.null_count():
        wrong = table.wrong_value(column, times.is_null(), f"cannot be read as a time; {_EXAMPLES}")
        raise DataError(f"{wrong}. {_REMEDY}") if values.dtype == pl.String else wrong
    array = times.to_numpy()
    if array.min(initial=0) < 0:
        raise table.wrong_value(column, times < 0, "is before 1970; times must not be negative")
    if array.max(initial=0) >= _LATEST:
        raise table.wrong_value(
            column, times >= _LATEST, "is after the year 9999; check time_unit (command line: --time-unit)"
        )
    return array


def _from_dates(values: pl.Series) -> pl.Series:
    """Dates and times of any unit, cut to the allowed range first, because polars cannot convert all of them."""
    physical = values.to_physical().cast(pl.Int64)
    unit = values.dtype.time_unit if isinstance(values.dtype, pl.Datetime) else "day"
    if unit == "ns":
        return physical // 1000
    scale = int(_MICROSECONDS[unit])
    return physical.clip(-1, _LATEST // scale) * scale


def _from_text(table: Table, column: str, values: pl.Series, unit: TimeUnit) -> pl.Series:
    whole = values.cast(pl.Int64, strict=False)
    numbers = whole if whole.null_count() == 0 else text_to_numbers(values)
    # If only some are numbers, the majority decides what is expected, and the error shows one of the minority.
    if 2 * numbers.null_count() < len(values) or unit != "auto":
        return _from_numbers(table, column, numbers, unit)
    return _from_iso(values)


def _from_numbers(table: Table, column: str, values: pl.Series, unit: TimeUnit) -> pl.Series:
    if values.dtype.is_float():
        values = values.set(~values.is_finite(), None)
    largest = values.max()
    if largest is None:
        return pl.Series(values.name, [None] * len(values), dtype=pl.Int64)
    if unit == "auto":
        unit = _unit_of(float(largest))  # type: ignore[arg-type]
        _check_one_unit(table, column, values, unit)
    scale = _MICROSECONDS[unit]
    if scale >= 1 and values.dtype.is_integer():
        whole = values.cast(pl.Int64, strict=False)
        if whole.null_count() or float(largest) * scale >= _LATEST:  # type: ignore[arg-type]
            return whole.clip(-1, int(_LATEST / scale)) * int(scale)
        # NumPy allocates large arrays in huge pages, which makes later random access to the times twice as fast.
        times = np.empty(len(whole), np.int64)
        np.concatenate([piece.to_numpy() for piece in whole.get_chunks()], out=times)
        times *= int(scale)
        return pl.Series(values.name, times)
    return (values.cast(pl.Float64) * scale).round().clip(-1, _LATEST).cast(pl.Int64)


def unit_of_numbers(rows: pl.LazyFrame, unit: TimeUnit, source: str, column: str = "timestamp") -> TimeUnit:
    """The unit of the timestamps of rows that are read in batches, where :func:`parse_times` would see only a part.

    Raises:
        DataError: the times have several units.
    """
    kind = rows.collect_schema().get(column)
    if unit != "auto" or kind is None or not kind.is_numeric() or kind.is_decimal():
        return unit
    times = pl.col(column).cast(pl.Float64).filter(pl.col(column).cast(pl.Float64).is_finite())
    most = rows.select(times.max().alias("most"), times.filter(times > 1e8).min().alias("least"))
    largest, smallest = most.collect(engine="streaming").row(0)
    if largest is None:
        return unit
    found = _unit_of(largest)
    if found != "s" and smallest is not None and smallest < 1e11:
        raise DataError(
            f"{source}: {column!r} has {smallest:.0f}, which looks like seconds; others look like {found}. "
            "Convert them to one unit, or pass time_unit (command line: --time-unit)"
        )
    return found


def _unit_of(largest: float) -> TimeUnit:
    # 1e11 seconds are the year 5138 and 1e11 milliseconds are 1973, so the ranges do not overlap for current logs.
    for unit, limit in (("s", 1e11), ("ms", 1e14), ("us", 1e17)):
        if largest < limit:
            return unit  # type: ignore[return-value]
    return "ns"


def _check_one_unit(table: Table, column: str, values: pl.Series, unit: TimeUnit) -> None:
    if unit == "s":
        return
    small = values.filter((values > 1e8) & (values < 1e11))
    if len(small):
        index = int((values == small[0]).arg_true()[0])
        raise DataError(
            f"{table.where(index)}: {column!r} is {small[0]!r}, which looks like seconds; others look like {unit}. "
            "Convert them to one unit, or pass time_unit (command line: --time-unit)"
        )


def _from_iso(values: pl.Series) -> pl.Series:
    text = values.str.strip_chars().str.replace(r"^(\d{4}-\d{2}-\d{2})[Tt]", "$1 ")
    text = text.str.replace(r"(Z|z| ?UTC)$", "+00:00")
    times = _as_microseconds(text, _ISO_FORMS[0])
    for form in _ISO_FORMS[1:]:
        if times.null_count() == 0:
            break
        times = times.zip_with(times.is_not_null(), _as_microseconds(text, form))
    return times


def _as_microseconds(text: pl.Series, form: str) -> pl.Series:
    if form == "%Y-%m-%d":
        return text.str.to_date(form, strict=False).cast(pl.Datetime("us")).to_physical()
    return text.str.to_datetime(form, time_unit="us", strict=False).to_physical()
