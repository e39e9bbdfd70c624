"""Options that several commands share, and what commands print."""

import json
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from icpe.cli._flag_names import Share
from icpe.cli._names import BACKBONE, DATA, METHOD
from icpe.cli.torchrun import launcher
from icpe.shown import visible_lines

if TYPE_CHECKING:
    from icpe.data import Interactions

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return one decorator that adds several options, in this order on the help page."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _load_plugins(ctx: click.Context, param: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    """Load the plugins before anything else, so that their names and settings are known to all other flags."""
    if files:
        from icpe.runs.plugins import load_plugins

        load_plugins(files)
    return tuple(str(Path(file).absolute()) for file in files)


class RunFolder(click.Path):
    """The folder of a run. The message for anything else says what a run is."""

    name = "run"

    def __init__(self) -> None:
        super().__init__(path_type=Path, exists=True, file_okay=False)
        self.name = "run"

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        """Raise the error with the remedy."""
        super().fail(f"{message} A run is a folder that `icpe train -o FOLDER` has written.", param, ctx)


plugin_option = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE.py",
    type=click.Path(),
    callback=_load_plugins,
    is_eager=True,
    help="Python file with your own backbones or methods; repeatable.",
)
known_plugin_option = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE.py",
    type=click.Path(),
    callback=_load_plugins,
    is_eager=True,
    expose_value=False,
    help="Python file with the backbone or the method of the run; repeatable.",
)
run_data_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder to search first for the data of the run.",
)
no_verify_option = click.option(
    "--no-verify",
    "verify",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not compare the files of the run with their checksums.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
by_option = click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Show the exposure of groups of items by this column of --items, such as category. Repeatable.",
)
beta_option = click.option(
    "--beta",
    type=float,
    help=(
        "Setting of the dial, the same as --method.beta: how much of the pull of popularity ranking adds. For ICPE, 0 "
        "adds nothing and 1 all that training has learned; for other methods 0 changes nothing. Negative values "
        "promote niche items."
    ),
)


def make_goal_options(default: str) -> Callable[[Command], Command]:
    """Return the options about what the dial aims at; ``default`` says in the help text what holds without them."""
    return together(
        click.option(
            "--goal",
            type=click.Choice(["traffic", "balanced", "none"]),
            help="What the dial aims at on the validation part: its NDCG (traffic), its NDCG with all items counted "
            f"alike (balanced), or nothing (none). Default: {default}.",
        ),
        click.option("--niche-share", type=Share(0.4), help="Wished share of the places for niche items, such as 0.4."),
    )


goal_options = make_goal_options("traffic, but none for popularity and random")
method_option = click.option(
    "--method", type=METHOD, help="Training method: icpe, normal, penalty and others. Default: normal."
)
backbone_option = click.option("--backbone", type=BACKBONE, help="Model: mf, neumf or lightgcn. Default: mf.")
config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file with settings. Flags override it."
)
device_option = click.option("--device", help="Device for training: cpu, cuda, mps or auto. Default: cpu.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of training processes."
)
depths_option = click.option(
    "-n", "depths", type=click.IntRange(min=1), multiple=True, help="List length to evaluate; repeatable. Default: 20."
)
train_option = click.option(
    "--train", "train_file", type=click.Path(), help="File with the training part, if you split the data yourself."
)
valid_option = click.option(
    "--valid", "valid_file", type=click.Path(), help="File with the validation part; needs --train."
)
test_option = click.option("--test", "test_file", type=click.Path(), help="File with the test part; needs --train.")
split_options = click.option(
    "--split",
    "kind",
    type=click.Choice(["unbiased", "chronological", "random"]),
    help="How to split DATA; --split.NAME sets its settings. Default: unbiased.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice."
)


def parse_columns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str | int] | None:
    """Return one mapping from options like ``user_id=uid``: our column name, then the name or position in the file."""
    mapping: dict[str, str | int] = {}
    for value in values:
        ours, equals, theirs = value.partition("=")
        if not (ours and equals and theirs):
            raise click.BadParameter(
                f"{value!r} should look like user_id=uid: our column name, then the name in the file", ctx, param
            )
        mapping[ours] = int(theirs) if theirs.isdecimal() else theirs
    return mapping or None


column_option = click.option(
    "--column",
    "columns",
    metavar="OURS=THEIRS",
    callback=parse_columns,
    multiple=True,
    help="Column with another name, such as user_id=uid; repeatable. A number is a position, counted from 0.",
)
reading_options = together(
    column_option,
    click.option(
        "--k-core",
        type=click.IntRange(min=1),
        help="Keep users and items with at least K interactions. Default: the paper's for its data sets, else 1.",
    ),
    click.option("--min-weight", type=float, help="Keep rows whose rating or count is at least this."),
    click.option(
        "--items",
        "item_info",
        type=click.Path(path_type=Path),
        help="CSV or Parquet file with the columns item_id and name, for display.",
    ),
    click.option(
        "--item-column",
        "item_columns",
        metavar="OURS=THEIRS",
        callback=parse_columns,
        multiple=True,
        help="A column of --items with another name, e.g. item_id=sku or name=title; repeatable.",
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder to search first for data sets of the catalogue.",
    ),
    click.option(
        "--format",
        type=click.Choice(["parquet", "csv", "tsv", "inter", "lists", "hetrec", "npy", "jsonl"]),
        help="File format, if the file name does not show it.",
    ),
    click.option("--separator", help="Separator of the fields in a text file, such as ';'."),
    click.option(
        "--no-header",
        is_flag=True,
        help="The first row of the text file is data. Name columns by position with --column.",
    ),
    click.option("--ids", type=click.Choice(["int", "text"]), help="Force the type of ids instead of detecting it."),
    click.option("--time-unit", type=click.Choice(["min", "s", "ms", "us", "ns"]), help="Unit of numeric timestamps."),
)
"""All options about reading a log."""
tuning_options = together(plugin_option, device_option, config_option, train_option, valid_option, split_options)
"""The options of all commands that train, without those about the test part."""
training_options = together(tuning_options, test_option, depths_option, reading_options)
"""The options of all commands that train and evaluate."""


def data_argument(required: bool = True) -> Callable[[Command], Command]:
    """Return the argument ``DATA``: a file, a folder or a name of the catalogue, which the shell completes."""
    return click.argument("data", type=DATA, required=required)


def data_options(command: Command) -> Command:
    """Add ``DATA`` and all options about reading it."""
    return data_argument()(reading_options(command))


def open_data(
    data: str,
    k_core: int | None,
    data_dir: Path | None,
    no_header: bool,
    **options: Any,
) -> "Interactions":
    """Return the log that the options of :func:`data_options` describe, filtered to its k-core."""
    from icpe.data import open_log

    given = {name: value for name, value in options.items() if value is not None}
    if no_header:
        given["header"] = False
    return open_log(data, data_dir, k_core=k_core, progress=True, **given)


class OrderedGroup(click.Group):
    """A group that lists its commands in the order of their registration, with complete summaries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of registration."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first paragraph of every command's help."""
        rows = [(name, " ".join((one.help or "").split("\n\n")[0].split())) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class CommandGroup(OrderedGroup):
    """The group of all commands, which also keeps the words of the command line for :func:`command_line`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words, then parse as usual."""
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """Return the running command as the user typed it."""
    return f"{launcher()} {shlex.join(click.get_current_context().meta[__name__])}"


def echo_paragraph(text: str) -> None:
    """Print sentences, wrapped on a terminal at its width; elsewhere a paragraph stays one line."""
    from icpe.tables import terminal_width

    width = terminal_width()
    click.echo(text if width is None else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False))


def print_json(content: Any) -> None:
    """Print a value as JSON."""
    # The text has the same meaning with codes for characters that a terminal would obey.
    click.echo(visible_lines(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)))
