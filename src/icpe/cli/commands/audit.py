"""``icpe audit``: bias of recommendations from any source."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._flag_names import naming_flags
from icpe.cli.options import (
    Command,
    by_option,
    command_line,
    json_option,
    open_data,
    parse_columns,
    print_json,
    reading_options,
)
from icpe.cli.stored_data import open_stored, stream_option

if TYPE_CHECKING:
    from icpe.audit import Audit, History, Verdict
    from icpe.data import Interactions

_DEFAULT = "audit.html"


def _columns_option(flag: str, help: str) -> Callable[[Command], Command]:
    return click.option(
        flag,
        metavar="OURS=THEIRS",
        callback=parse_columns,
        multiple=True,
        help=help,
    )


@click.command()
@click.option(
    "--log",
    "data",
    required=True,
    help="What people have used: a file, a folder of Parquet files, or the name of a data set.",
)
@click.option(
    "--recs",
    required=True,
    multiple=True,
    metavar="FILE|NAME=FILE",
    help="Lists with user_id, item_id and rank or score. Repeatable; all others are compared with the first.",
)
@click.option("--test", type=click.Path(path_type=Path), help="What people wanted later, as a log. Adds accuracy.")
@click.option(
    "-n", "n", type=click.IntRange(min=1), help="List length. Default: 20, or the longest list if it is shorter."
)
@_columns_option(
    "--recs-column", "Column names of the lists, like --column; NAME:OURS=THEIRS for one set only. Repeatable."
)
@click.option("--recs-no-header", is_flag=True, help="The lists have no header row; name columns by position.")
@_columns_option("--test-column", "Column names of the test part, if they differ from the log. Repeatable.")
@click.option(
    "--user", "users", multiple=True, help="User whose lists are shown. Repeatable. Default: three typical users."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=_DEFAULT,
    show_default=True,
    help="The page, an .html file.",
)
@by_option
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.parquet",
    help="Add the metrics as a row to this file, and draw their trend.",
)
@click.option("--date", metavar="DATE", help="Date of the row, such as 2024-05-31. Default: now (UTC).")
@click.option(
    "--fail-if",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Exit with 1 if a metric breaks a limit, such as 'apt@20<.2' or, compared with the last row of the history, "
    "'ndcg@20<.95*previous'. Repeatable.",
)
@reading_options
@stream_option
@json_option
def audit(
    recs: tuple[str, ...],
    test: Path | None,
    n: int | None,
    recs_column: dict[str, str | int] | None,
    recs_no_header: bool,
    test_column: dict[str, str | int] | None,
    users: tuple[str, ...],
    by: tuple[str, ...],
    history: Path | None,
    date: str | None,
    rules: tuple[str, ...],
    output: Path,
    stream: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show on one page how recommendations from any source treat head and niche items.

    Nothing is trained. --recs names a CSV, TSV, Parquet or JSON-lines file with lists, ordered by rank, or else by
    score, or else by row. With two sets (--recs old=before.csv --recs new=after.csv) the page shows what changed.
    Reading options such as --column apply to the log; --ids and --column apply to the test part too.

    Example: icpe audit --log events.csv --recs recs.csv --test later.csv -o audit.html

    Every night: icpe audit --log events.csv --recs recs.parquet --history bias.parquet --fail-if 'apt@20<.2'
    """
    from icpe.audit import audit as audit_lists
    from icpe.cli.audit_night import Night
    from icpe.errors import IcpeError
    from icpe.report.pages.audit import audit_report
    from icpe.report.rendering import check_page_name

    check_page_name(output)
    nightly = Night.parse(history, date, rules)
    named = _named(recs)
    log = _stored_pairs(output, options) if stream else open_data(**options)
    with naming_flags(n="-n"):
        found = audit_lists(
            log,
            named,
            test,
            n=n,
            columns=options["columns"],
            recs_columns=recs_column,
            test_columns=test_column,
            recs_header=not recs_no_header,
            ids=options["ids"] or "auto",
        )
    kept, verdicts = nightly.judge(found)
    audit_report(found, output, users, command_line(), by, kept, verdicts)
    nightly.append(found)
    _print(found, output, by, kept, verdicts, as_json)
    failed = [str(one) for one in verdicts if one.failed]
    if failed:
        raise IcpeError("the audit fails: " + "\n".join(failed))


def _stored_pairs(output: Path, options: dict[str, Any]) -> "Interactions":
    """Return the log that ``--stream`` reads, without times and weights, which an audit does not need."""
    with open_stored(output, **options) as (log, _):
        return log.pairs()


def _named(recs: tuple[str, ...]) -> dict[str, Path]:
    """Files by name: the name before ``=``, or the name of the file without its suffix."""
    from icpe.errors import ConfigError

    found: dict[str, Path] = {}
    for one in recs:
        name, equals, file = one.partition("=")
        if not equals or Path(one).exists():  # a file may be called a=b.csv
            name, file = Path(one).name.split(".")[0] or one, one
        if not (name and file):
            raise ConfigError(f"--recs is {one!r}; expected a file, or a name and a file such as new=after.csv")
        if name in found:
            raise ConfigError(
                f"two sets of lists are called {name!r}; name them, such as --recs old={found[name]} --recs new={file}"
            )
        found[name] = Path(file)
    return found


def _print(
    found: "Audit",
    output: Path,
    by: Sequence[str],
    history: "History | None",
    verdicts: "Sequence[Verdict]",
    as_json: bool,
) -> None:
    from icpe.report.group_section import group_table
    from icpe.report.pages.audit import terminal_text
    from icpe.tables import as_text, terminal_width

    if as_json:
        log = found.log
        sizes = {"users": len(log.users), "items": len(log.items), "interactions": len(log)}
        sets = {
            one.label: {
                "source": one.given.source,
                "order": one.given.order,
                **one.counts,
                "content_hash": one.given.content_hash,
                "metrics": one.values,
                "intervals": one.intervals,
                "user_groups": one.group_sizes,
                "lorenz": one.lorenz[::10].tolist(),
            }
            for one in found.sets
        }
        about = {"source": log.reading.source, **sizes, "content_hash": log.content_hash}
        content = {"file": str(output), "n": found.n, "log": about, "recs": sets, "remarks": found.remarks}
        groups = {column: [one.as_dict(list(sets)) for one in found.exposure_by(column)] for column in by}
        content |= {"by": groups} if by else {}
        content |= {"rules": [asdict(one) for one in verdicts]} if verdicts else {}
        content |= {"history": {"file": str(history.path), "nights": history.nights}} if history else {}
        print_json(content)
        return
    table, *paragraphs = terminal_text(found, terminal_width())
    click.echo("\n\n".join([table, *(click.wrap_text(one, 80, "  ", "  ") for one in paragraphs)]))
    for column in by:
        shares = group_table(column, found.exposure_by(column), [one.label for one in found.sets])
        click.echo("\n" + as_text(shares))
    for verdict in verdicts:
        if not verdict.failed:
            click.echo(f"\n  {verdict}.")
    click.echo(f"\n  The page is {output}")
    if history is not None:
        click.echo(f"  Rows in {history.path}: {history.nights:,}")
