"""``icpe recommend``: recommendation lists from a saved run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from icpe.cli._engine import engine_options, parse_cluster
from icpe.cli._ranking import RankingCommand, parse_ranking
from icpe.cli.options import (
    RunFolder,
    beta_option,
    column_option,
    json_option,
    no_verify_option,
    plugin_option,
    print_json,
)
from icpe.shown import visible

if TYPE_CHECKING:
    import polars as pl

    from icpe.jobs import RayCluster
    from icpe.recommender.model import Model
    from icpe.recommender.requests import Recommender

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_TABLES = (".csv", ".tsv", ".parquet", ".txt", ".inter", ".gz", ".zst")  # items rarely end like this
_AT_ONCE = 256  # new users whose lists are made together


@click.command(cls=RankingCommand)
@click.argument("run", type=RunFolder())
@click.option("--user", "users", multiple=True, metavar="ID", help="User who gets a list; repeatable.")
@click.option(
    "--users",
    "user_file",
    type=_FILE,
    metavar="FILE",
    help="File with users who get lists: a table with the column user_id, or a .txt file with one id per line.",
)
@click.option("--all", "everybody", is_flag=True, help="Write lists for all users to the file given by -o.")
@click.option(
    "--history",
    metavar="FILE|ITEM,ITEM",
    help="Recommend to new users: a log with the columns user_id and item_id, or the items of one new user.",
)
@click.option("-n", "n", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option(
    "--only",
    type=_FILE,
    metavar="FILE",
    help="Recommend only these items: a table with the column item_id, or a .txt file with one id per line.",
)
@click.option("--exclude", type=_FILE, metavar="FILE", help="Recommend none of these items; a file as for --only.")
@click.option(
    "--include-seen",
    is_flag=True,
    help="Also recommend items that the user has in the training data; for new users, items of --history.",
)
@click.option(
    "--unknown",
    type=click.Choice(["raise", "warn", "ignore", "popular"]),
    help="For users who are not in the training data, or whose history has no known item: stop, skip them with or "
    "without a warning, or recommend the most popular items. Default: raise for --user, warn for files.",
)
@beta_option
@engine_options
@column_option
@plugin_option
@no_verify_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the lists to a .parquet, .csv or .jsonl file."
)
@click.option(
    "--raw-csv",
    is_flag=True,
    help="Write ids and names to a .csv file as they are, even if a spreadsheet would run them as formulas.",
)
@json_option
@click.pass_obj
def recommend(
    dotted: dict[str, dict[str, Any]],
    /,
    run: Path,
    beta: float | None,
    verify: bool,
    output: Path | None,
    raw_csv: bool,
    as_json: bool,
    engine: str,
    address: str | None,
    plugins: tuple[str, ...],
    **asked: Any,
) -> None:
    """Recommend items to users with the model of a run.

    Settings that only change the ranking can be changed without training again, such as --method.beta of ICPE;
    `icpe recommend RUN --help-settings` lists them. Users and items in files that the model does not know are counted
    on standard error and ignored.

    Example: icpe recommend run --user 2 -n 5

    icpe recommend run --all --exclude sold-out.txt -o recs.parquet

    icpe recommend run --history new-users.csv --only in-stock.csv -o recs.jsonl
    """
    from icpe.cli.list_files import check_suffix, write_lists
    from icpe.errors import ConfigError

    request = Request(**asked, plugins=plugins, cluster=parse_cluster(engine, address))
    request.check()
    if request.everybody and output is None:
        raise ConfigError("--all writes to a file: name it with -o recs.parquet, recs.csv or recs.jsonl")
    if output is not None:
        check_suffix(output)
    settings = parse_ranking(run, dotted, beta)
    pieces = request.lists(_open(run, request, settings, verify))
    if output is not None:
        rows = write_lists(pieces, output, raw_csv)
        if as_json:
            print_json({"rows": rows, "file": str(output)})
        else:
            click.echo(f"{rows:,} rows in {output}")
        return
    _print(pieces, as_json)


def _open(run: Path, request: "Request", settings: dict[str, Any], verify: bool) -> "Recommender[Any]":
    """Return the model of a run, or only its vectors where they are enough: they need no torch, which loads slowly."""
    if request.history is None and request.cluster is None and not settings:
        from icpe.recommender.saved_vectors import read_recommender

        found = read_recommender(run, verify)
        if found is not None:
            return found
    from icpe.runs.load import load

    model = load(run, verify=verify)
    return model.adjusted(**settings) if settings else model


@dataclass(frozen=True)
class Request:
    """Whose lists to make, and of which items; the attributes are the flags."""

    users: Sequence[str]
    user_file: Path | None
    everybody: bool
    history: str | None
    n: int
    only: Path | None
    exclude: Path | None
    include_seen: bool
    unknown: Any
    columns: dict[str, str | int] | None
    plugins: Sequence[str]
    cluster: "RayCluster | None"

    def check(self) -> None:
        """Raise an error unless exactly one flag says whose lists to make."""
        from icpe.errors import ConfigError

        if sum([bool(self.users), self.user_file is not None, self.everybody, self.history is not None]) != 1:
            raise ConfigError(
                "choose whose lists to make: --user ID (repeatable), --users FILE, --all, --history FILE or "
                "--history ITEM,ITEM"
            )
        if self.cluster is not None and not self.everybody:
            raise ConfigError("--engine ray divides the lists of all users among machines: use it with --all")

    def lists(self, model: "Recommender[Any]") -> "Iterator[pl.DataFrame]":
        """Yield the lists in pieces.

        Raises:
            DataError: a file is wrong, or a user is not in the training data; the message names the flags that help.
        """
        from icpe.cli.list_files import with_names

        limits = self._limits(model)
        if self.history is not None:
            found = self._new_users(cast("Model", model), limits)  # saved vectors alone cannot fold in
        elif self.everybody:
            yield from self._everybody(model, limits)
            return
        else:
            users, unknown = self._known_users(model)
            found = model.stream(users, self.n, hide_seen=not self.include_seen, unknown=unknown, **limits)
        for piece in found:
            yield with_names(piece, model.log)

    def _everybody(self, model: "Recommender[Any]", limits: dict[str, Any]) -> "Iterator[pl.DataFrame]":
        if self.cluster is None:
            return model.stream(None, self.n, hide_seen=not self.include_seen, **limits)
        from icpe.jobs.lists import stream_everybody

        return stream_everybody(
            cast("Model", model), self.cluster, self.n, plugins=self.plugins, hide_seen=not self.include_seen, **limits
        )

    def _limits(self, model: "Recommender[Any]") -> dict[str, Any]:
        from icpe import columns as col
        from icpe.cli.id_files import read_ids

        files = {"items": ("--only", self.only), "exclude": ("--exclude", self.exclude)}
        return {
            name: read_ids(path, flag, col.ITEM, model.log, self.columns).known
            for name, (flag, path) in files.items()
            if path is not None
        }

    def _known_users(self, model: "Recommender[Any]") -> tuple[Any, Any]:
        """Return the ids of the users, and what to do with those that the model does not know."""
        import polars as pl

        from icpe import columns as col
        from icpe.cli.id_files import read_ids
        from icpe.errors import DataError
        from icpe.recommender.ids import parse_ids

        if self.user_file is not None:
            found = read_ids(self.user_file, "--users", col.USER, model.log, self.columns)
            if self.unknown == "raise" and len(found.unknown):
                raise DataError(
                    f"--users {self.user_file}: user {found.unknown[0]!r} is not in the training data; known ids look "
                    f"like {model.log.users[0]!r}. Use --unknown ignore to skip such users, or --unknown popular"
                )
            if self.unknown == "popular":
                strangers = found.unknown.cast(model.log.users.dtype, strict=False).drop_nulls()
                return pl.concat([found.known, strangers.alias(found.known.name)]), "popular"
            return found.known, "ignore"
        asked = parse_ids(self.users, model.log.users, "user")
        codes = model.ranker.user_codes(asked)
        missing = [f"user {user!r}" for user, code in zip(asked, codes, strict=True) if code < 0]
        if missing and self.unknown in (None, "raise"):
            raise DataError(
                f"not in the training data: {', '.join(missing)}; known ids look like {model.log.users[0]!r}. Use "
                "--unknown ignore to skip such users, --unknown popular to give them the most popular items, or "
                "--history ITEM,ITEM to recommend to a new user"
            )
        return asked, self.unknown or "raise"

    def _new_users(self, model: "Model", limits: dict[str, Any]) -> "Iterator[pl.DataFrame]":
        from icpe.errors import DataError
        from icpe.recommender.ids import parse_ids

        path = Path(self.history or "")
        if path.is_file():
            yield from self._lists_of_log(model, path, limits)
            return
        if path.suffix in _TABLES:
            raise DataError(f"--history {path} does not exist; pass a file, or items such as --history ITEM,ITEM")
        items = parse_ids((self.history or "").split(","), model.log.items, "item")
        strange = [item for item, code in zip(items, model.ranker.item_codes(items), strict=True) if code < 0]
        if strange:
            raise DataError(
                f"--history {self.history}: item {strange[0]!r} is not in the training data, and there is no file of "
                f"this name. Name items of the training data, whose ids look like {model.log.items[0]!r}, or a file "
                "with the columns user_id and item_id"
            )
        yield model.fold_in(items, self.n, hide_seen=not self.include_seen, **limits)

    def _lists_of_log(self, model: "Model", path: Path, limits: dict[str, Any]) -> "Iterator[pl.DataFrame]":
        import polars as pl

        from icpe.cli.id_files import read_histories
        from icpe.ranking import Lists

        users, histories = read_histories(path, model.log, self.columns)
        codes = {name: model.ranker.item_codes(ids) for name, ids in limits.items()}
        allow, deny = codes.get("items"), codes.get("exclude")
        empty = pl.Series([len(one) == 0 for one in histories])
        self._handle_empty(users.filter(empty), len(users), path)
        users_left, left = users.filter(~empty), [one for one in histories if len(one)]
        yield Lists.empty(self.n).to_frame(users, model.log.items)
        for start in range(0, len(left), _AT_ONCE):
            part = left[start : start + _AT_ONCE]
            lists = model.ranker.fold_in(part, self.n, hide_seen=not self.include_seen, allow=allow, deny=deny)
            yield lists.to_frame(users_left.slice(start, len(part)), model.log.items)
        if self.unknown == "popular" and empty.any():
            popular = model.ranker.popular(self.n, allow=allow, deny=deny)
            yield popular.repeated(int(empty.sum())).to_frame(users.filter(empty), model.log.items)

    def _handle_empty(self, users: "pl.Series", count: int, path: Path) -> None:
        """Say or refuse that the history of these users has no known item."""
        from icpe.errors import DataError

        if len(users) == 0 or self.unknown in ("ignore", "popular"):
            return
        message = f"--history {path}: {len(users):,} of {count:,} users have no known item, such as {users[0]!r}"
        if self.unknown == "raise":
            raise DataError(f"{message}. Use --unknown ignore to skip them, or --unknown popular")
        click.echo(f"{message}; they get no list. --unknown popular gives them the most popular items", err=True)


def _print(pieces: "Iterable[pl.DataFrame]", as_json: bool) -> None:
    import polars as pl

    frame = pl.concat(pieces)
    if as_json:
        print_json(frame.to_dicts())
    else:
        click.echo("\n".join(_as_lines(frame)))


def _as_lines(frame: "pl.DataFrame") -> list[str]:
    """The lists as aligned columns below a header; numbers are aligned at the right."""
    shown: list[str] = [name for name in ("user_id", "rank", "score", "item_id", "name") if name in frame.columns]
    table = [shown]
    for row in frame.iter_rows(named=True):
        texts = {**row, "score": f"{row['score']:.4f}"}
        table.append(["" if texts[name] is None else visible(str(texts[name])) for name in shown])
    widths = [max(len(line[place]) for line in table) for place in range(len(shown))]
    lines = []
    for line in table:
        cells = zip(shown, line, widths, strict=True)
        aligned = [cell.rjust(width) if name in ("rank", "score") else cell.ljust(width) for name, cell, width in cells]
        lines.append("  ".join(aligned).rstrip())
    return lines
