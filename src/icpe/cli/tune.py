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
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    config_option,
    device_option,
    json_option,
    print_json,
    reading_options,
    split_options,
    train_option,
    valid_option,
    workers_option,
)
from icpe.cli.train import make_config

if TYPE_CHECKING:
    from icpe.runs.config import RunConfig
    from icpe.tune.search import Progress, Tuned


@click.command(cls=DottedCommand)
@click.argument("data", required=False)
@click.option("--method", "methods", default="normal", show_default=True, help="Names with commas between, or all.")
@click.option("--backbone", "backbones", default="mf", show_default=True, help="Names with commas between, or all.")
@click.option("--trials", type=click.IntRange(min=1), default=20, show_default=True, help="Of each method × backbone.")
@click.option("--seeds", default="100,101", show_default=True, help="Of each trial, such as 100,101 or 100-104.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File of the study (SQLite).")
@click.option("--storage", help="A database for the study by its URL, which several machines can share.")
@workers_option
@click.option("--minutes", type=float, help="Begin no trial of a method × backbone that has trained for so long.")
@click.option("--prune/--no-prune", default=True, show_default=True, help="Stop trials below the median, by one seed.")
@click.option(
    "--preset-out", type=click.Path(path_type=Path, dir_okay=False), help="Write the best settings into this TOML file."
)
@click.option("--preset", help="Settings to start from, as of icpe train.")
@device_option
@config_option
@train_option
@valid_option
@split_options
@reading_options
@json_option
@click.pass_obj
def tune(
    dotted: dict[str, dict[str, Any]],
    /,
    methods: str,
    backbones: str,
    trials: int,
    seeds: str,
    output: Path | None,
    storage: str | None,
    workers: int,
    minutes: float | None,
    prune: bool,
    preset_out: Path | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Search the settings of methods by NDCG@20 on validation, with as many trials for each.

    DATA is as of `icpe train`, and dotted flags fix what shall not be searched: --train.epochs 50 --backbone.dim 32.
    The test part is not looked at. A tuning that was stopped goes on when the same command is given again.

    Example: icpe tune lastfm --method icpe,penalty --backbone mf,neumf --trials 20 -o study.db --preset-out mine.toml
    """
    from icpe.runs.presets import update_presets
    from icpe.tune.search import as_presets
    from icpe.tune.search import tune as tune_all

    place = _one_place(output, storage)
    configs = _configs(dotted, methods, backbones, flags)
    if preset_out is not None:
        _check_writable(preset_out)
    with _shown(len(configs) * trials) as show:
        try:
            found = tune_all(configs, place, trials, _seeds(seeds), workers, minutes, prune, show)
        except KeyboardInterrupt:
            kept = "all trials that have ended are kept in"
            click.echo(f"{kept} {output or 'the database'}; the same command goes on from there", err=True)
            raise
    if preset_out is not None:
        update_presets(preset_out, as_presets(found, __version__))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        click.echo(as_text(found, trials, preset_out))
    return 0 if any(one.score is not None for one in found) else 1


def _one_place(output: Path | None, storage: str | None) -> Path | str:
    from icpe.errors import ConfigError

    if (output is None) == (storage is None):
        raise ConfigError("where shall the study be kept? Give -o FILE or --storage URL, one of them")
    return output if output is not None else str(storage)


def _check_writable(presets: Path) -> None:
    """Refuse a file that cannot be written before hours of training, not after them."""
    from icpe.errors import ConfigError
    from icpe.runs.presets import read_presets

    if presets.exists():
        read_presets(presets)
    there = next(folder for folder in presets.absolute().parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ConfigError(f"{presets} cannot be written: {there} is no folder one may write to")


def _configs(dotted: dict[str, Any], methods: str, backbones: str, flags: dict[str, Any]) -> list["RunConfig"]:
    """One for each method and backbone."""
    from icpe.backbones import BACKBONES
    from icpe.errors import ConfigError
    from icpe.methods import METHODS

    if "evaluate" in dotted or "seed" in dotted.get("train", {}):
        raise ConfigError(
            "tuning looks at NDCG@20 on validation, with --seeds; leave --evaluate.… and --train.seed out"
        )
    rest = {"test_file": None, "seed": None, "depths": (), **flags}
    configs = [
        make_config(dotted, method=method, backbone=backbone, **rest)
        for method in _names(methods, METHODS)
        for backbone in _names(backbones, BACKBONES)
    ]
    for config in configs:
        config.data.pop("test", None)  # of a configuration file
    return configs


def _names(text: str, known: dict[str, Any]) -> list[str]:
    return list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]


def _seeds(text: str) -> list[int]:
    """``100,101`` or ``100-104``."""
    from icpe.errors import ConfigError

    seeds: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise ConfigError(f"--seeds is {text!r}; expected whole numbers such as 100,101 or 100-104")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


@contextmanager
def _shown(total: int) -> Iterator[Callable[["Progress"], None]]:
    """A bar with the best so far on a terminal; elsewhere a line for each trial."""
    if not sys.stderr.isatty():
        yield lambda progress: click.echo(_line(progress), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("trials"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    best: dict[tuple[str, str], float | None] = {}
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)

        def show(progress: "Progress") -> None:
            cell = (progress.method, progress.backbone)
            if progress.state == "failed" or progress.best != best.get(cell):
                bars.console.print(_line(progress), highlight=False, markup=False)
            best[cell] = progress.best
            found = "-" if progress.best is None else f"{progress.best:.4f}"
            about = f"{progress.method} on {progress.backbone}: best {found}"
            bars.update(task, completed=progress.done, total=progress.total, description=about)

        yield show


def _line(progress: "Progress") -> str:
    what = progress.reason if progress.score is None else f"{progress.score:.4f}"
    best = "-" if progress.best is None else f"{progress.best:.4f}"
    return (
        f"[{progress.done}/{progress.total}] {progress.method} on {progress.backbone}, trial {progress.finished} "
        f"{progress.state}: {what} (best {best}), {progress.seconds:.0f} s, {_settings(progress.settings)}"
    )


def _settings(settings: dict[str, dict[str, Any]]) -> str:
    return " ".join(
        f"{name if section == 'method' else f'{section}.{name}'}={value}"
        for section, values in settings.items()
        for name, value in values.items()
    )


def as_text(found: list["Tuned"], trials: int, preset: Path | None) -> str:
    """The result as a small table for the terminal."""
    lines = [f"{'method':<18}{'backbone':<10}{'trials':>7}{'pruned':>8}{'failed':>8}  valid ndcg@20  settings"]
    for one in found:
        score = "-" if one.score is None else f"{one.score:.4f}"
        words = _settings(one.settings) if one.score is not None else one.reason
        lines.append(
            f"{one.method:<18}{one.backbone:<10}{one.trials:>7}{one.pruned:>8}{one.failed:>8}  {score:>13}  {words}"
        )
    short = [f"{one.method} on {one.backbone} ({_why_short(one)})" for one in found if one.trials < trials]
    if short:
        lines += ["", f"Fewer than {trials} trials: {', '.join(short)}."]
    if preset is not None:
        lines += ["", f"Settings are in {preset}: icpe train … --preset {preset}"]
    return "\n".join(lines)


def _why_short(one: "Tuned") -> str:
    if one.running:
        return f"{one.running} still run elsewhere"
    return "cannot be trained" if one.score is None else "no more settings to try, or out of time"
