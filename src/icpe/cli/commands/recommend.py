"""``icpe recommend``: recommendation lists from a saved run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._ranking import RankingCommand, parse_ranking
from icpe.cli.options import beta_option, json_option, known_plugin_option, no_verify_option, print_json

if TYPE_CHECKING:
    import polars as pl

    from icpe.recommender.model import Model


@click.command(cls=RankingCommand)
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--user", "users", multiple=True, metavar="ID", help="User who gets a list; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="Write lists for all users to the file given by -o.")
@click.option("--history", metavar="ITEM,ITEM", help="Recommend to a new user who has used these items.")
@click.option("-n", "n", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--include-seen", is_flag=True, help="Also recommend items that the user has used already.")
@click.option(
    "--unknown",
    type=click.Choice(["raise", "warn", "ignore", "popular"]),
    default="raise",
    show_default=True,
    help="For users who are not in the training data: stop, skip them with or without a warning, or recommend the most "
    "popular items.",
)
@beta_option
@known_plugin_option
@no_verify_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the lists to a .parquet or .csv file.")
@json_option
@click.pass_obj
def recommend(
    dotted: dict[str, dict[str, Any]],
    /,
    run: Path,
    users: tuple[str, ...],
    everybody: bool,
    history: str | None,
    n: int,
    include_seen: bool,
    unknown: Any,
    beta: float | None,
    verify: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Recommend items to users with the model of a run.

    Settings that only change the ranking can be changed without training again, such as --method.beta of ICPE;
    `icpe recommend RUN --help-settings` lists them.

    Example: icpe recommend run --user 2 -n 5
    """
    from icpe.cli.list_files import with_names, write_lists
    from icpe.errors import ConfigError
    from icpe.runs.load import load

    if sum([bool(users), everybody, history is not None]) != 1:
        raise ConfigError("choose whose lists to make: --user ID (repeatable), --all, or --history ITEM,ITEM")
    if everybody and output is None:
        raise ConfigError("--all writes to a file: name it with -o recs.parquet or -o recs.csv")
    settings = parse_ranking(run, dotted, beta)
    model = load(run, verify=verify)
    model = model.adjusted(**settings) if settings else model
    if everybody and output is not None:
        rows = write_lists(model.stream(None, n, hide_seen=not include_seen), output)
        _print_written(rows, output, as_json)
        return
    frame = with_names(_lists(model, users, history, n, not include_seen, unknown), model.log)
    if output is not None:
        write_lists([frame], output)
    if as_json:
        print_json(frame.to_dicts())
    elif output is None:
        click.echo("\n".join(_as_lines(frame)))
    else:
        _print_written(frame.height, output, as_json)


def _lists(
    model: "Model", users: Sequence[str], history: str | None, n: int, hide_seen: bool, unknown: Any
) -> "pl.DataFrame":
    """The lists of the users named, or of a new user with a history.

    Raises:
        DataError: a user is not in the training data; the message names the flags that help.
    """
    from icpe.errors import DataError
    from icpe.recommender.ids import parse_ids

    if history is not None:
        return model.fold_in(parse_ids(history.split(","), model.log.items, "item"), n, hide_seen=hide_seen)
    asked, known = parse_ids(users, model.log.users, "user"), set(model.log.users)
    missing = [f"user {user!r}" for user in asked if user not in known]
    if missing and unknown == "raise":
        raise DataError(
            f"not in the training data: {', '.join(missing)}. Use --unknown ignore to skip such users, --unknown "
            "popular to give them the most popular items, or --history ITEM,ITEM to recommend to a new user"
        )
    return model.recommend(asked, n, hide_seen=hide_seen, unknown=unknown)


def _print_written(rows: int, output: Path, as_json: bool) -> None:
    if as_json:
        print_json({"rows": rows, "file": str(output)})
    else:
        click.echo(f"{rows:,} rows in {output}")


def _as_lines(frame: "pl.DataFrame") -> list[str]:
    """The lists as aligned columns below a header; numbers are aligned at the right."""
    shown: list[str] = [name for name in ("user_id", "rank", "score", "item_id", "name") if name in frame.columns]
    table = [shown]
    for row in frame.iter_rows(named=True):
        texts = {**row, "score": f"{row['score']:.4f}"}
        table.append(["" if texts[name] is None else str(texts[name]) for name in shown])
    widths = [max(len(line[place]) for line in table) for place in range(len(shown))]
    lines = []
    for line in table:
        cells = zip(shown, line, widths, strict=True)
        aligned = [cell.rjust(width) if name in ("rank", "score") else cell.ljust(width) for name, cell, width in cells]
        lines.append("  ".join(aligned).rstrip())
    return lines
