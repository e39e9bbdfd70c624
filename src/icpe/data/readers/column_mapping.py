"""Which column of a source serves as which column of ours.

Columns that carry our name are used; any other name needs an explicit mapping, because a wrong guess would go
unnoticed.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icpe import columns as col
from icpe.errors import ConfigError, DataError
from icpe.shown import shortened
from icpe.suggest import nearest

_COMPARED = 1000  # columns among which a similar name is looked for; comparing a million takes minutes

Columns = Mapping[str, str | int]
"""Our column name → the name, or the position from 0, in the source."""


@dataclass(frozen=True)
class ExpectedColumns:
    """The columns that a reader looks for.

    Attributes:
        names: our names.
        required: those of ``names`` without which the source cannot be used.
        argument: name of the Python argument that maps them, for messages.
        flag: name of the command-line option that maps them, for messages.
        header_flag: name of the command-line option that says that a text file has no header.
    """

    names: tuple[str, ...]
    required: tuple[str, ...] = col.REQUIRED
    argument: str = "columns"
    flag: str = "--column"
    header_flag: str = "--no-header"

    def remedy(self, mapping: Mapping[str, str | int], flags: str = "") -> str:
        """The arguments to pass in Python and on the command line. ``flags`` are further command-line flags."""
        options = " ".join(f"{self.flag} {ours}={shlex.quote(str(theirs))}" for ours, theirs in mapping.items())
        return f"{self.argument}={dict(mapping)!r} (command line: {flags}{options})"

    def remedy_without_header(self, flags: str = "") -> str:
        """The arguments to pass when columns have no names."""
        return self.remedy({name: position for position, name in enumerate(self.required)}, flags)


INTERACTION = ExpectedColumns(col.INTERACTION)
RECOMMENDATION = ExpectedColumns(col.RECOMMENDATION, flag="--recs-column", header_flag="--recs-no-header")
ITEM_INFO = ExpectedColumns(
    (col.ITEM, col.NAME, "genre", "tags"), required=(col.ITEM,), argument="item_columns", flag="--item-column"
)


def pick_columns(
    available: Sequence[str],
    columns: Columns | None,
    source: str,
    header: bool = True,
    expected: ExpectedColumns = INTERACTION,
) -> dict[str, str]:
    """Our column name → the name in the source, for the expected columns that the source has.

    Args:
        available: names of the columns of the source.
        columns: the user's mapping.
        source: the file, as messages call it.
        header: whether the names come from a header; otherwise they are positions.
        expected: what to look for.

    Raises:
        ConfigError: the mapping has an unknown key or uses a column twice.
        DataError: a required or mapped column does not exist.
    """
    mapping = dict(columns or {})
    _check_mapping(mapping, available, source, expected)
    if not header and not mapping:
        raise ConfigError(
            f"{source} is read without a header, so its columns have no names. Pass {expected.remedy_without_header()}"
        )
    picked: dict[str, str] = {}
    for ours in expected.names:
        named = mapping.get(ours, ours)
        theirs = available[named] if isinstance(named, int) else named
        if theirs in available:
            picked[ours] = theirs
        elif ours in mapping or ours in expected.required:
            raise DataError(_not_found(theirs, ours, available, mapping, source, expected))
    doubled = [theirs for theirs in picked.values() if list(picked.values()).count(theirs) > 1]
    if doubled:
        purposes = [ours for ours, theirs in picked.items() if theirs == doubled[0]]
        wrong = [ours for ours in purposes if ours in mapping][-1]
        raise ConfigError(
            f"column {shortened(repr(doubled[0]))} of {source} is used twice, as {' and as '.join(purposes)}; each "
            f"column can serve one purpose. Pass {expected.remedy({wrong: 'NAME'})}, where NAME is another column"
        )
    return picked


def _check_mapping(mapping: Columns, available: Sequence[str], source: str, expected: ExpectedColumns) -> None:
    for ours, theirs in mapping.items():
        if ours not in expected.names:
            meant = (
                {str(theirs): ours} if theirs in expected.names else {nearest(ours, expected.names) or "OURS": theirs}
            )
            raise ConfigError(
                f"{ours!r} is not one of our column names, which are {_listed(expected.names)}. Our name comes first: "
                f"pass {expected.remedy(meant)}"
            )
        if isinstance(theirs, int) and not 0 <= theirs < len(available):
            raise DataError(
                f"column {theirs} (for {ours!r}) does not exist: {source} has {len(available)} columns, "
                f"numbered from 0 to {len(available) - 1}"
            )


def _not_found(
    theirs: str, ours: str, available: Sequence[str], mapping: Columns, source: str, expected: ExpectedColumns
) -> str:
    message = f"column {shortened(repr(theirs))} not found; {source} has {_listed(available)}. "
    if all(_is_number(name) for name in available):
        remedy = expected.remedy_without_header(f"{expected.header_flag} ")
        return f"{message}That looks like data, not a header: pass header=False and {remedy}"
    taken = {named for other, named in mapping.items() if other != ours} | {*expected.names}
    free = [name for name in available[:_COMPARED] if name not in taken]
    lacking = [name for name in expected.required if name not in available and mapping.get(name) not in available]
    guesses: dict[str, str | int] = {}
    for name in dict.fromkeys((ours, *lacking)):
        near = nearest(theirs if name == ours else name, [one.lower() for one in free])
        guesses[name] = next((one for one in free if near and one.lower() == near), "NAME")
        free = [one for one in free if one != guesses[name]]
    which = ", where NAME is the right one of them" if "NAME" in guesses.values() else ""
    return f"{message}Pass {expected.remedy(guesses)}{which}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(shortened(repr(name)) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
