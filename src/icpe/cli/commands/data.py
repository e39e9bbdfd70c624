"""``icpe data``: the catalogue of data sets, descriptions of logs, downloads and generated worlds."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from icpe.cli._flag_names import naming_flags
from icpe.cli._names import Name, dataset_names
from icpe.cli.options import OrderedGroup, data_options, json_option, open_data, print_json, seed_option
from icpe.cli.stored_data import open_stored, stream_option


@click.group(cls=OrderedGroup)
def data() -> None:
    """List, describe, download and generate logs."""


@data.command("list")
@click.option(
    "--data-dir", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder to search first."
)
@json_option
def list_datasets(data_dir: Path | None, as_json: bool) -> None:
    """List the data sets of the catalogue and whether they are on this machine.

    Example: icpe data list
    """
    from dataclasses import asdict

    from icpe.data.datasets import CATALOGUE, locate

    places = {name: locate(entry, data_dir) for name, entry in CATALOGUE.items()}
    if as_json:
        found = {name: {"folder": None if place is None else str(place)} for name, place in places.items()}
        print_json({name: {**asdict(entry), **found[name]} for name, entry in CATALOGUE.items()})
        return
    for name, entry in CATALOGUE.items():
        state = "built in" if name == "demo" else "found" if places[name] else "download" if entry.remote else "by hand"
        core = f"{entry.k_core}-core" if entry.k_core else ""
        first = f"{name:<16} {state:<9} {core:<8} "
        click.echo(click.wrap_text(f"{first}{entry.title}", 80, subsequent_indent=" " * len(first)))
        click.echo(click.wrap_text(entry.terms, 80, " " * len(first), " " * len(first)))


@data.command()
@data_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Draw the long tail into this .png, .svg or .pdf file."
)
@stream_option
@json_option
def describe(output: Path | None, stream: bool, as_json: bool, **options: Any) -> None:
    """Describe a log: counts, density, time span and skew.

    DATA is a file, a folder of Parquet files, a folder of a generated world, or a name from `icpe data list`. A data
    set of the catalogue is reduced to the k-core that the catalogue states; --k-core 1 keeps the complete log.

    Example: icpe data describe events.csv --column user_id=uid --k-core 10 -o tail.png
    """
    from icpe.data import describe as describe_log

    if output is not None:
        from icpe.report.figures import check_suffix

        check_suffix(output)
    with open_stored(output, **options) if stream else nullcontext((open_data(**options), None)) as (log, _):
        figures = describe_log(log)
        if output is not None:
            from icpe.report.figures import long_tail, save_figure

            save_figure(long_tail(log), output)
    if as_json:
        print_json(figures.as_dict())
    else:
        click.echo(figures.as_text())
        if output is not None:
            click.echo(f"\n  drawn in {output}")


@data.command()
@click.argument("name", type=Name(dataset_names))
@click.option("--force", is_flag=True, help="Download again, even if the files exist.")
@json_option
def fetch(name: str, force: bool, as_json: bool) -> None:
    """Download a data set of the catalogue into the cache and check it.

    Example: icpe data fetch gowalla
    """
    from icpe.data.datasets import fetch as fetch_dataset
    from icpe.data.datasets import find_dataset

    folder = fetch_dataset(find_dataset(name), progress=True, force=force)
    if as_json:
        print_json({"name": name, "folder": str(folder)})
    else:
        click.echo(f"{name} is in {folder}")


@data.command()
@click.option("--users", type=int, default=2000, show_default=True, help="Number of users.")
@click.option("--items", type=int, default=1500, show_default=True, help="Number of items.")
@click.option("--interactions", type=int, default=60_000, show_default=True, help="Number of distinct pairs.")
@seed_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for the log, the items and the users.",
)
@click.option("--force", is_flag=True, help="Replace an existing world.")
@json_option
def make(users: int, items: int, interactions: int, seed: int, output: Path, force: bool, as_json: bool) -> None:
    """Generate a world with known tastes, power-law exposure and herding.

    Writes log.parquet (the interactions), items.parquet (names, genres, true quality and traits) and users.parquet
    (true tastes), so that the log can be compared with the true preferences. Other commands take the folder as DATA.

    Example: icpe data make --users 20000 --items 10000 --interactions 1000000 -o world
    """
    from icpe.cli.progress import progress_bar
    from icpe.data import make_world
    from icpe.errors import ConfigError
    from icpe.files import refuse_others

    refuse_others(output, ("items.parquet", "users.parquet"), "log.parquet", "a world")
    if (output / "log.parquet").exists() and not force:
        raise ConfigError(f"{output} already holds a world; choose another folder, or replace it with --force")
    flags = naming_flags(users="--users", items="--items", interactions="--interactions")
    with flags, progress_bar("interactions") as progress:
        world = make_world(users, items, interactions, seed, progress=progress)
    world.save(output)
    if as_json:
        print_json({"folder": str(output), "users": users, "items": items, "interactions": len(world.log)})
    else:
        click.echo(f"{world.log!r} written to {output}")
