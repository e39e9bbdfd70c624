"""``icpe split``: training, validation and test parts with a manifest."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._flag_names import with_flags
from icpe.cli.options import data_options, json_option, open_data, print_json, seed_option
from icpe.cli.stored_data import open_stored, stream_option

if TYPE_CHECKING:
    from icpe.split.parts import AnyParts


class SplitCommand(click.Command):
    """A command with one flag for each setting that the splits declare."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, and the flags of the splits."""
        # The declarations are imported here because they would slow down `icpe --help`.
        return [*super().get_params(ctx), *_setting_flags()]


def _setting_flags() -> list[click.Parameter]:
    from icpe.split import KINDS

    declared = {one.name: one for settings in KINDS.values() for one in settings.declared()}
    del declared["seed"]  # --seed, as in all other commands
    return [
        click.Option(
            [f"--split.{one.name}", f"split_{one.name}"],
            type=click.Choice(one.choices) if one.choices else float,
            help=one.description + ("" if one.default is None else f" Default: {one.default}."),
        )
        for one in declared.values()
    ]


@click.command(cls=SplitCommand)
@data_options
@click.option(
    "--split",
    "kind",
    type=click.Choice(["unbiased", "chronological", "random"]),
    default="unbiased",
    show_default=True,
    help="Kind of split.",
)
@seed_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for the parts as Parquet files and for split.json.",
)
@click.option("--force", is_flag=True, help="Replace an existing split.")
@stream_option
@json_option
def split(kind: str, seed: int, output: Path | None, force: bool, stream: bool, as_json: bool, **options: Any) -> None:
    """Cut a log into training, validation and test data.

    The unbiased split spreads the held-out interactions evenly over items, so that recommending popular items to
    everyone does not score well. DATA is a file, a folder, or a name from `icpe data list`.

    Example: icpe split events.csv --k-core 10 --seed 0 -o parts

    More rows than memory: icpe split events.parquet --stream --k-core 10 -o parts
    """
    from icpe import split as splits

    given = {name: options.pop(name) for name in list(options) if name.startswith("split_")}
    settings = {name.removeprefix("split_"): value for name, value in given.items() if value is not None}
    _check(kind, settings)
    if "seed" in splits.KINDS[kind].model_fields:
        settings["seed"] = seed
    if stream:
        with open_stored(output, **options) as (log, folder):
            _finish(splits.cut_stored(log, folder / "parts", kind, **settings), output, force, as_json)
        return
    _finish(splits.cut(open_data(**options), kind, **settings), output, force, as_json)


def _finish(parts: "AnyParts[Any]", output: Path | None, force: bool, as_json: bool) -> None:
    """Write the parts and print what they are."""
    if output is not None:
        parts.save(output, force)
    if as_json:
        print_json(parts.manifest)
    else:
        click.echo(parts.as_text())
        if output is not None:
            click.echo(f"\n  written to {output}")


def _check(kind: str, settings: dict[str, Any]) -> None:
    """Check the flags before the log is read, so that messages name the flags and appear at once."""
    from icpe.errors import ConfigError
    from icpe.split import KINDS

    unknown = [name for name in settings if name not in KINDS[kind].model_fields]
    if unknown:
        flags = " and ".join(f"--split.{name}" for name in unknown)
        known = ", ".join(f"--split.{name}" for name in KINDS[kind].model_fields if name != "seed")
        raise ConfigError(f"--split {kind} does not take {flags}; it takes {known}")
    try:
        KINDS[kind].parse(settings)
    except ConfigError as error:
        named = {name: f"--split.{name}" for name in KINDS[kind].model_fields}
        raise ConfigError(with_flags(str(error), named)) from None
