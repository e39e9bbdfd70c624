"""Options several verbs share: which data, and how it is read."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from icpe.data import Interactions

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
beta_option = click.option(
    "--beta",
    type=float,
    help="Of ICPE, without training anew: share of popularity put back, 0 none, 1 all, below 0 more niche items.",
)
config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="A TOML file with settings; flags win over it."
)
device_option = click.option("--device", help="cpu, cuda, mps or auto. Default: cpu.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that train."
)
depths_option = click.option(
    "-n", "depths", type=click.IntRange(min=1), multiple=True, help="List lengths to evaluate. Default: 20."
)
train_option = click.option("--train", "train_file", type=click.Path(), help="A given training part, in place of DATA.")
valid_option = click.option("--valid", "valid_file", type=click.Path(), help="The validation part that belongs to it.")
test_option = click.option("--test", "test_file", type=click.Path(), help="The test part that belongs to it.")
split_options = together(
    click.option(
        "--split", "kind", type=click.Choice(["unbiased", "chronological", "random"]), help="Default: unbiased."
    ),
    click.option("--split.mode", "mode", type=click.Choice(["item_quota", "ips"]), help="Of the unbiased split."),
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of every random choice."
)


def parse_columns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str | int] | None:
    """``user_id=uid`` (our column name, then the file's name or position), repeated, as one mapping."""
    mapping: dict[str, str | int] = {}
    for value in values:
        ours, equals, theirs = value.partition("=")
        if not (ours and equals and theirs):
            raise click.BadParameter(f"{value!r} should look like user_id=uid (our name, then the file's)", ctx, param)
        mapping[ours] = int(theirs) if theirs.isdecimal() else theirs
    return mapping or None


reading_options = together(
    click.option(
        "--column",
        "columns",
        metavar="OURS=THEIRS",
        callback=parse_columns,
        multiple=True,
        help="A column by another name, e.g. user_id=uid; repeatable. A number is a position, from 0.",
    ),
    click.option(
        "--k-core",
        type=click.IntRange(min=1),
        help="Keep users and items with at least K interactions. Default: the paper's for its data, else 1.",
    ),
    click.option("--min-weight", type=float, help="Keep rows with at least this rating or count."),
    click.option(
        "--items",
        "item_info",
        type=click.Path(path_type=Path),
        help="CSV or Parquet with item_id, name for display.",
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Look here first for data sets of the catalogue.",
    ),
    click.option(
        "--format",
        type=click.Choice(["parquet", "csv", "tsv", "inter", "lists", "hetrec", "npy"]),
        help="The reader, where the suffix does not tell.",
    ),
    click.option("--separator", help="Of fields in a text file, e.g. ';'."),
    click.option("--no-header", is_flag=True, help="The text file's first row is data; name columns by position."),
    click.option("--ids", type=click.Choice(["int", "text"]), help="Type of ids, where it should not be found out."),
    click.option("--time-unit", type=click.Choice(["min", "s", "ms", "us", "ns"]), help="Of numeric timestamps."),
)
"""Everything that tells how to read a log."""


def data_options(command: Command) -> Command:
    """Add ``DATA`` and everything that tells how to read it."""
    return click.argument("data")(reading_options(command))


def open_data(
    data: str,
    k_core: int | None,
    data_dir: Path | None,
    no_header: bool,
    **options: Any,
) -> "Interactions":
    """The log that the options of :func:`data_options` describe, filtered to its k-core."""
    from icpe.data import open_log
    from icpe.data.datasets.catalogue import CATALOGUE

    given = {name: value for name, value in options.items() if value is not None}
    if no_header:
        given["header"] = False
    log = open_log(data, data_dir, progress=True, **given)
    if k_core is None:
        k_core = CATALOGUE[data].k_core if data in CATALOGUE else None
    return log if k_core is None else log.k_core(k_core)


class Remembering(click.Group):
    """A group that keeps the words it was called with, for pages that say how to make them again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep them, then parse as usual."""
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command that is running, as it was given."""
    return shlex.join(["icpe", *click.get_current_context().meta[__name__]])


def print_json(content: Any) -> None:
    """Print one JSON object for machines."""
    click.echo(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2))
