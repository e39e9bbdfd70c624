"""``icpe recommend``: lists for people."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from icpe.cli.options import beta_option, json_option, print_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--user", "users", multiple=True, help="Whose list; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="Lists for all users, into the file named by -o.")
@click.option("--history", help="Items of somebody new, separated by commas.")
@click.option("-n", "n", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--include-seen", is_flag=True, help="Also what the user has used already.")
@click.option(
    "--unknown", type=click.Choice(["raise", "warn", "ignore", "popular"]), default="raise", show_default=True
)
@beta_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A .parquet or .csv file.")
@json_option
def recommend(
    run: Path,
    users: tuple[str, ...],
    everybody: bool,
    history: str | None,
    n: int,
    include_seen: bool,
    unknown: Any,
    beta: float | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Recommend items to users, by the model of a run.

    Example: icpe recommend run --user 2 -n 5
    """
    from icpe.errors import ConfigError
    from icpe.recommender.lists import typed_ids, with_names, write_lists
    from icpe.runs.load import load

    if sum([bool(users), everybody, history is not None]) != 1:
        raise ConfigError("say whose lists: --user ID (repeatable), --all, or --history ITEM,ITEM")
    model = load(run)
    if beta is not None:
        model = model.adjusted(beta=beta)
    if everybody:
        if output is None:
            raise ConfigError("--all writes to a file: name it with -o recs.parquet or recs.csv")
        rows = write_lists(model.stream(None, n, hide_seen=not include_seen), output)
        if as_json:
            print_json({"rows": rows, "file": str(output)})
        else:
            click.echo(f"{rows:,} rows in {output}")
        return
    if history is not None:
        frame = model.fold_in(typed_ids(history.split(","), model.log.items, "item"), n, hide_seen=not include_seen)
    else:
        asked = typed_ids(users, model.log.users, "user")
        frame = model.recommend(asked, n, hide_seen=not include_seen, unknown=unknown)
    frame = with_names(frame, model.log)
    if output is not None:
        write_lists([frame], output)
    if as_json:
        print_json(frame.to_dicts())
    elif output is None:
        _print(frame.iter_rows(named=True))


def _print(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        who = f"{row['user_id']}  " if "user_id" in row else ""
        name = row.get("name") or ""
        click.echo(f"{who}{row['rank']:>3}  {row['score']:>9.4f}  {row['item_id']}  {name}".rstrip())
