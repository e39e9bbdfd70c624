"""``icpe demo``: the main job on the built-in data."""

from pathlib import Path

import click

from icpe.cli.options import json_option, print_json, seed_option


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for results.",
)
@click.option("--force", is_flag=True, help="Replace results that are there.")
@seed_option
@json_option
def demo(output: Path, force: bool, seed: int, as_json: bool) -> None:
    """Describe and split the generated world, and draw both.

    Example: icpe demo -o demo
    """
    from icpe import describe, make_world
    from icpe import split as splits
    from icpe.errors import ConfigError
    from icpe.report.figures import long_tail, save_figure, split_balance

    if (output / "split" / "split.json").exists() and not force:
        raise ConfigError(f"{output} holds results already; choose another folder, or replace them with --force")
    world = make_world(rng=seed)
    figures, parts = describe(world.log), splits.unbiased(world.log, seed)
    world.save(output / "world")
    parts.save(output / "split", force)
    for suffix in (".png", ".svg"):
        save_figure(long_tail(world.log), output / f"long-tail{suffix}")
        save_figure(split_balance(parts), output / f"split{suffix}")
    if as_json:
        print_json({"folder": str(output), "log": figures.as_dict(), "split": parts.manifest})
        return
    click.echo(f"{figures.as_text()}\n\n{parts.as_text()}\n")
    click.echo(f"  look at  {output / 'long-tail.png'}  how popularity is spread")
    click.echo(f"           {output / 'split.png'}      how the test part takes popularity out of the question")
    click.echo(f"  the log, names and true tastes are in {output / 'world'}, the parts in {output / 'split'}")
