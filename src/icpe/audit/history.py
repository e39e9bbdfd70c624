"""The history of audits: one row per night and set of lists, in a Parquet file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from icpe.errors import DataError
from icpe.files import write_atomically

DATE, LISTS = "date", "lists"


@dataclass(frozen=True, eq=False)
class History:
    """The metrics of all audits so far.

    Attributes:
        path: the file.
        table: frame ``date, lists`` and a column for each metric, oldest first.
    """

    path: Path
    table: pl.DataFrame

    @classmethod
    def read(cls, path: Path | str) -> "History":
        """Return the history in a file, which is empty if the file does not exist.

        Raises:
            DataError: the file is no history.
        """
        path = Path(path)
        if not path.exists():
            return cls(path, pl.DataFrame(schema={DATE: pl.Datetime("us"), LISTS: pl.String}))
        try:
            table = pl.read_parquet(path, glob=False)
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise DataError(f"the history {path} cannot be read: {str(error).splitlines()[0]}") from error
        if table.columns[:2] != [DATE, LISTS] or table[DATE].dtype != pl.Datetime("us"):
            found = ", ".join(map(repr, table.columns[:5]))
            raise DataError(
                f"{path} is no history of audits: its columns are {found}; expected 'date', 'lists' and metrics. Pass "
                "another file (command line: another file to --history)"
            )
        return cls(path, table)

    @property
    def nights(self) -> int:
        """Number of different dates."""
        return self.table[DATE].n_unique()

    def before(self, date: datetime) -> dict[str, dict[str, float | None]]:
        """Return the metrics of the last row before a date, by set of lists."""
        earlier = self.table.filter(pl.col(DATE) < date).group_by(LISTS, maintain_order=True).last()
        return {row.pop(LISTS): row for row in earlier.drop(DATE).iter_rows(named=True)}

    def added(self, date: datetime, values: Mapping[str, Mapping[str, float | None]]) -> "History":
        """Return the history with the metrics of a night. A night that is audited again replaces its rows.

        Metrics that only some nights have are null on the others, for example those of a later version of icpe.

        Args:
            date: the night, without time zone.
            values: metrics of each set of lists.

        Raises:
            DataError: the history is about other lists, or has no metric of this audit.
        """
        rows = [{DATE: date, LISTS: name, **metrics} for name, metrics in values.items()]
        types = {name: pl.Float64() for row in rows for name in row if name not in (DATE, LISTS)}
        new = pl.DataFrame(rows, schema={DATE: pl.Datetime("us"), LISTS: pl.String(), **types})
        if self.table.height:
            self._check(new)
            new = pl.concat([self.table.filter(pl.col(DATE) != date), new], how="diagonal")
        return History(self.path, new.sort(DATE, maintain_order=True))

    def _check(self, new: pl.DataFrame) -> None:
        known, lists = self.table[LISTS].unique().sort().to_list(), new[LISTS].unique().sort().to_list()
        if known != lists:
            raise DataError(
                f"{self.path} is the history of {_named(known)}, but this audit is about {_named(lists)}; pass the "
                "lists under the same name (command line: --recs NAME=FILE with the same name), or begin another "
                "history"
            )
        known, metrics = ([name for name in one.columns if "@" in name] for one in (self.table, new))
        if not set(known) & set(metrics):
            raise DataError(
                f"{self.path} has no metric of this audit: it has {_named(known[:3])} and others, the audit "
                f"{_named(metrics[:3])} and others. Audit with the same list length (-n) as before, or begin another "
                "history"
            )

    def write(self) -> None:
        """Write the file. A crash leaves it as it was."""
        write_atomically(self.path, self.table.write_parquet)


def _named(names: list[str]) -> str:
    return ", ".join(map(repr, names))
