"""What makes an audit a nightly one: a date, a history and rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from icpe.audit import Audit, History, Rule, Verdict, judge
from icpe.errors import ConfigError
from icpe.files import lock_folder

_PATIENCE = 60.0  # seconds to wait for another audit, which holds the lock for a moment


@dataclass(frozen=True)
class Night:
    """The flags of a nightly audit.

    Attributes:
        history: file of the history, or None.
        date: the night, in UTC without time zone.
        rules: the rules under which the audit fails.
    """

    history: Path | None
    date: datetime
    rules: list[Rule]

    @classmethod
    def parse(cls, history: Path | None, date: str | None, rules: Sequence[str]) -> "Night":
        """Return the flags as values, before anything is read.

        Raises:
            ConfigError: a flag is wrong; the message names it.
        """
        if date is not None and history is None:
            raise ConfigError(f"--date is {date!r}, but only a history has dates; add --history FILE.parquet")
        if history is not None and history.suffix != ".parquet":
            raise ConfigError(f"--history is {history}; expected a file that ends in .parquet")
        try:
            parsed = [Rule.parse(text) for text in rules]
        except ConfigError as error:
            raise ConfigError(f"--fail-if: {error}") from None
        relative = next((one.text for one in parsed if one.relative), None)
        if relative is not None and history is None:
            raise ConfigError(f"--fail-if {relative!r} compares with an earlier night; add --history FILE.parquet")
        return cls(history, _parse_date(date), parsed)

    def judge(self, audit: Audit) -> tuple[History | None, list[Verdict]]:
        """Return the history with the metrics of this night, not yet written, and the outcome of the rules.

        Raises:
            ConfigError: a rule names an unknown set or metric.
            DataError: the history is about other lists or metrics.
        """
        before = None if self.history is None else History.read(self.history)
        try:
            verdicts = judge(self.rules, audit.values, {} if before is None else before.before(self.date))
        except ConfigError as error:
            raise ConfigError(f"--fail-if {error}") from None
        return (None if before is None else before.added(self.date, audit.values)), verdicts

    def append(self, audit: Audit) -> None:
        """Write the metrics of this night into the file of the history.

        The file is read again just before, under a lock, so that an audit that ends at the same moment keeps its row.
        """
        if self.history is not None:
            with lock_folder(self.history.parent, wait=_PATIENCE, remedy="name another file with --history"):
                History.read(self.history).added(self.date, audit.values).write()


def _parse_date(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC).replace(tzinfo=None)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--date is {text!r}; expected a date such as 2024-05-31, or with a time 2024-05-31T04:00"
        ) from None
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
