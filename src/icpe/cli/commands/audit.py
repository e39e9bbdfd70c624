"""``icpe audit``: bias of recommendations from any source."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli.options import Command, command_line, json_option, open_data, parse_columns, print_json, reading_options

if TYPE_CHECKING:
    from icpe.audit import Audit

_DEFAULT = Path("audit.html")


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
    metavar="[NAME=]FILE",
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
@reading_options
@json_option
def audit(
    recs: tuple[str, ...],
    test: Path | None,
    n: int | None,
    recs_column: dict[str, str | int] | None,
    recs_no_header: bool,
    test_column: dict[str, str | int] | None,
    users: tuple[str, ...],
    output: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Show on one page how recommendations from any source treat head and niche items.

    Nothing is trained. --recs names a CSV, TSV or Parquet file with lists, ordered by rank, or else by score, or else
    by row. With two sets (--recs old=before.csv --recs new=after.csv) the page shows what changed. Reading options
    such as --column apply to the log; --ids and --column apply to the test part too.

    Example: icpe audit --log events.csv --recs recs.csv --test later.csv -o audit.html
    """
    from icpe.audit import audit as audit_lists
    from icpe.report.pages.audit import audit_report
    from icpe.report.rendering import check_page_name

    check_page_name(output)
    named = _named(recs)
    log = open_data(**options)
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
    audit_report(found, output, users, command_line())
    _print(found, output, as_json)


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


def _print(found: "Audit", output: Path, as_json: bool) -> None:
    from icpe.report.pages.audit import terminal_text
    from icpe.tables import terminal_width

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
            }
            for one in found.sets
        }
        about = {"source": log.reading.source, **sizes, "content_hash": log.content_hash}
        print_json({"file": str(output), "n": found.n, "log": about, "recs": sets, "remarks": found.remarks})
        return
    table, *paragraphs = terminal_text(found, terminal_width())
    click.echo("\n\n".join([table, *(click.wrap_text(one, 88, "  ", "  ") for one in paragraphs)]))
    click.echo(f"\n  The page is {output}")
