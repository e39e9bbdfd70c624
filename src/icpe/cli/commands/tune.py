"""``icpe tune``: settings of several methods, found with the same number of trials for each."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe import __version__
from icpe.cli._engine import parse_workers, training_engine_options
from icpe.cli._names import backbones_option, methods_option, parse_names
from icpe.cli._seeds import parse_seeds, seeds_option
from icpe.cli.commands.train import make_config
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    data_argument,
    json_option,
    print_json,
    reading_options,
    tuning_options,
)

if TYPE_CHECKING:
    from icpe.runs.config import RunConfig
    from icpe.tune.results import TrialEvent, TuningResult

_FIRST_SEED = 100  # leaves the seeds below it to the comparison that uses the settings


@click.command(cls=DottedCommand)
@data_argument(required=False)
@methods_option
@backbones_option
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of trials for each method on each backbone.",
)
@seeds_option(f"2; a number of seeds starts at {_FIRST_SEED}")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for the study (study.db) and the settings found (presets.toml).",
)
@click.option("--storage", metavar="URL", help="Database for the study that several processes and machines can share.")
@training_engine_options
@click.option(
    "--minutes",
    type=float,
    help="Stop starting new trials of a method on a backbone after this many minutes of training.",
)
@click.option(
    "--prune/--no-prune",
    default=True,
    show_default=True,
    help="Skip the other seeds of a trial whose first seed is below the median.",
)
@click.option(
    "--criterion",
    type=click.Choice(["ndcg", "balanced_ndcg", "hypervolume"]),
    default="ndcg",
    show_default=True,
    help="What to maximise on validation: NDCG@20, NDCG@20 with all items counted alike, or the area below the front.",
)
@click.option("--preset", help="Settings to start from, as for icpe train.")
@tuning_options
@reading_options
@json_option
@click.pass_obj
def tune(
    dotted: dict[str, dict[str, Any]],
    /,
    methods: str | None,
    backbones: str | None,
    trials: int,
    seeds: str | None,
    output: Path,
    storage: str | None,
    workers: int | None,
    engine: str,
    address: str | None,
    minutes: float | None,
    prune: bool,
    criterion: Any,
    as_json: bool,
    **flags: Any,
) -> int:
    """Search settings on validation data, with the same number of trials for every method.

    DATA is the same as for `icpe train`. Dotted flags fix settings that should not be searched: --train.epochs 50
    --backbone.dim 32. The test part is never evaluated. The same command continues a tuning that was stopped.

    Example: icpe tune lastfm --methods icpe,penalty --backbones mf,neumf --trials 20 -o tuning
    """
    from icpe.tune.search import tune as tune_all
    from icpe.tune.search import write_presets

    configs = _configs(dotted, methods or "normal", backbones or "mf", flags)
    numbers = parse_seeds(seeds or "2", first=_FIRST_SEED)
    _check_folder(output)
    with _progress(len(configs) * trials) as show:
        try:
            found = tune_all(
                configs,
                output,
                trials=trials,
                seeds=numbers,
                workers=parse_workers(engine, address, workers),
                minutes=minutes,
                prune=prune,
                criterion=criterion,
                storage=storage,
                on_trial=show,
            )
        except KeyboardInterrupt:
            place = output if storage is None else "the database"
            click.echo(f"finished trials are kept in {place}; the same command continues from there", err=True)
            raise
    presets = write_presets(output, found, __version__)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        click.echo(as_text(found, trials, presets))
    return 0 if any(one.score is not None for one in found) else 1


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be used before hours of training, not after them."""
    from icpe.errors import ConfigError
    from icpe.runs.presets import read_presets
    from icpe.tune.results import PRESETS

    if (folder / PRESETS).exists():
        read_presets(folder / PRESETS)
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ConfigError(f"-o is {folder}, but {existing} is not a folder that can be written to; choose another one")


def _configs(dotted: dict[str, Any], methods: str, backbones: str, flags: dict[str, Any]) -> list["RunConfig"]:
    """Return a configuration for each method and backbone."""
    from icpe.backbones import BACKBONES
    from icpe.cli._declared import check_flags
    from icpe.errors import ConfigError
    from icpe.methods import METHODS

    if "evaluate" in dotted or "seed" in dotted.get("train", {}):
        raise ConfigError(
            "tuning evaluates --criterion on validation with the seeds of --seeds; remove --evaluate.… and --train.seed"
        )
    for name in parse_names(methods, METHODS):
        METHODS.find(name)  # an error about --methods should not speak of --method
    for name in parse_names(backbones, BACKBONES):
        BACKBONES.find(name)
    rest = {"test_file": None, "seed": None, "depths": (), **flags}
    configs = [
        check_flags(dotted, make_config(dotted, method=method, backbone=backbone, **rest))
        for method in parse_names(methods, METHODS)
        for backbone in parse_names(backbones, BACKBONES)
    ]
    for config in configs:
        config.data.pop("test", None)  # a configuration file may name one
    return configs


@contextmanager
def _progress(total: int) -> Iterator[Callable[["TrialEvent"], None]]:
    """Yield a function that shows trials: a bar with the best score on a terminal, otherwise one line per trial."""
    if not sys.stderr.isatty():
        yield lambda event: click.echo(_line(event), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("trials"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    best: dict[tuple[str, str], float | None] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total, rate="")

        def show(event: "TrialEvent") -> None:
            cell = (event.method, event.backbone)
            if event.state == "failed" or event.best != best.get(cell):
                bars.console.print(_line(event), highlight=False, markup=False)
            best[cell] = event.best
            score = "-" if event.best is None else f"{event.best:.4f}"
            about = f"{event.method} on {event.backbone}: best {score}"
            speed = bars.tasks[0].speed
            rate = f"{3600 * speed:,.0f} trials/h" if speed else ""
            bars.update(task, completed=event.done, total=event.total, description=about, rate=rate)

        yield show


def _line(event: "TrialEvent") -> str:
    outcome = event.reason if event.score is None else f"{event.score:.4f}"
    best = "-" if event.best is None else f"{event.best:.4f}"
    settings = f", {shown}" if (shown := _settings(event.settings)) else ""
    return (
        f"[{event.done}/{event.total}] {event.method} on {event.backbone}, trial {event.ended} "
        f"{event.state}: {outcome} (best {best}), {event.seconds:.0f} s{settings}"
    )


def _settings(settings: dict[str, dict[str, Any]]) -> str:
    return " ".join(
        f"{name if section == 'method' else f'{section}.{name}'}={value}"
        for section, values in settings.items()
        for name, value in values.items()
    )


def as_text(found: list["TuningResult"], trials: int, presets: Path) -> str:
    """Return the result as a small table for the terminal."""
    criterion = f"valid {found[0].criterion if found else 'ndcg'}@20"
    width = max(13, len(criterion))
    counts = f"{'trials':>7}{'pruned':>8}{'failed':>8}"
    lines = [f"{'method':<18}{'backbone':<10}{counts}  {criterion:>{width}}  settings"]
    for one in found:
        score = "-" if one.score is None else f"{one.score:.4f}"
        words = _settings(one.settings) if one.score is not None else one.reason
        counts = f"{one.trials:>7}{one.pruned:>8}{one.failed:>8}"
        lines.append(f"{one.method:<18}{one.backbone:<10}{counts}  {score:>{width}}  {words}".rstrip())
    short = [f"{one.method} on {one.backbone} ({_why_short(one)})" for one in found if one.trials < trials]
    if short:
        lines += ["", f"Fewer than {trials} trials: {', '.join(short)}."]
    if any(one.score is not None for one in found):
        lines += ["", f"Settings saved in {presets}: icpe train … --preset {presets}"]
    return "\n".join(lines)


def _why_short(one: "TuningResult") -> str:
    if one.running:
        return f"{one.running} still running in other processes"
    return "cannot be trained" if one.score is None else "no more settings to try, or out of time"
