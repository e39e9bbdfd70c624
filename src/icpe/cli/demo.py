"""``icpe demo``: the main job on the built-in data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli.options import json_option, print_json, seed_option

if TYPE_CHECKING:
    from icpe.data import World
    from icpe.split import Parts

_METHODS = ("normal", "icpe")


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
    """Train with and without debiasing on a generated world, and show the difference.

    The world's log is cut by the default split, unbiased (item_quota). MF is trained on it twice with default settings,
    as Normal and as ICPE. The table compares them on the test part and with what people in that world truly want. It
    takes a minute or so; report.html in the folder shows more.

    Example: icpe demo -o demo
    """
    from icpe import describe, make_world
    from icpe import split as splits
    from icpe.errors import ConfigError

    if (output / "split" / "split.json").exists() and not force:
        raise ConfigError(f"{output} holds results already; choose another folder, or replace them with --force")
    world = make_world(rng=seed)
    figures, parts = describe(world.log), splits.unbiased(world.log, seed)
    _save(output, world, parts, force)
    if not as_json:
        click.echo(f"{figures.as_text()}\n\n{parts.as_text()}\n")
    runs = {name: _train(output, name, seed, force) for name in _METHODS}
    text, truth = _compare(output, world, parts)
    if as_json:
        measured = {name: {**runs[name], "truth": truth[name]} for name in _METHODS}
        content = {"folder": str(output), "report": str(output / "report.html")}
        print_json({**content, "log": figures.as_dict(), "split": parts.manifest, "runs": measured})
        return
    click.echo(text)
    click.echo(f"\n  look at  {output / 'report.html'}    what changed, for whom, and why")
    click.echo(f"           {output / 'long-tail.png'}  how popularity is spread")
    click.echo(f"           {output / 'split.png'}      how the test part takes popularity out of the question")
    click.echo(f"  lists    icpe recommend {output / 'icpe'} --user {world.log.users[0]} -n 5")
    click.echo(f"  the log, names and true tastes are in {output / 'world'}, the parts in {output / 'split'}")


def _save(output: Path, world: "World", parts: "Parts", force: bool) -> None:
    from icpe.report.figures import long_tail, save_figure, split_balance

    world.save(output / "world")
    parts.save(output / "split", force)
    for suffix in (".png", ".svg"):
        save_figure(long_tail(world.log), output / f"long-tail{suffix}")
        save_figure(split_balance(parts), output / f"split{suffix}")


def _train(output: Path, method: str, seed: int, force: bool) -> dict[str, Any]:
    """One run on the saved log, which the default split cuts as it was cut here."""
    from icpe.cli.progress import progress_bar
    from icpe.runs.config import RunConfig
    from icpe.runs.run import Run

    data = {"source": str(output / "world" / "log.parquet"), "item_info": str(output / "split" / "items.parquet")}
    config = RunConfig(data=data, method={"name": method}, train={"seed": seed})
    with progress_bar(f"training {method}") as progress:
        run = Run(config, output / method, on_step=lambda position, steps: progress(position.step, steps))
        return run.train(force=force)


def _compare(output: Path, world: "World", parts: "Parts") -> tuple[str, dict[str, dict[str, float | None]]]:
    """Write the page; returns the table with its headline, and recall of true preferences by run."""
    from icpe.report.page import NAME, compare_report
    from icpe.report.record import read_runs
    from icpe.report.table import as_text, blocks_of, grouped
    from icpe.report.truth import MEANING, true_recall
    from icpe.report.words import headline

    folders = [output / name for name in _METHODS]
    runs = read_runs(folders)
    n = runs[0].n
    truth = [true_recall(run.model, world, parts.train, n) for run in runs]
    further, meaning = [grouped(f"True Recall@{n}", "recall", n, truth)], MEANING.format(n=n)
    compare_report(folders, output / NAME, further=further, notes=[meaning])
    blocks = [*blocks_of(runs), *further]
    said = [*(" ".join(both) for both in headline(runs, blocks)), meaning]
    wrapped = "\n\n".join(click.wrap_text(one, 88, "  ", "  ") for one in said)
    return f"{as_text([run.label for run in runs], blocks)}\n\n{wrapped}", dict(zip(_METHODS, truth, strict=True))
