"""``icpe train``: from a log to a trained, evaluated, saved model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    config_option,
    depths_option,
    device_option,
    json_option,
    print_json,
    reading_options,
    split_options,
    test_option,
    train_option,
    valid_option,
)

if TYPE_CHECKING:
    from icpe.runs.config import RunConfig


@click.command(cls=DottedCommand)
@click.argument("data", required=False)
@click.option("--backbone", default=None, help="mf, neumf or lightgcn. Default: mf.")
@click.option("--method", default=None, help="How to train: icpe, normal, penalty, … Default: normal.")
@click.option("--preset", help="Settings by name: paper for icpe, a data set that was tuned (lastfm), or a .toml file.")
@click.option("--seed", type=click.IntRange(min=0), help="Of every random choice. Default: 0.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--resume", is_flag=True, help="Go on where the run in the folder was stopped.")
@click.option("--force", is_flag=True, help="Replace a run that is there.")
@device_option
@config_option
@train_option
@valid_option
@test_option
@split_options
@depths_option
@reading_options
@json_option
@click.pass_obj
def train(
    dotted: dict[str, dict[str, Any]],
    /,
    output: Path | None,
    resume: bool,
    force: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a model, validate and test it, and save it with everything that led to it.

    DATA is a file, a folder of Parquet files, or a name from `icpe data list`. Settings have dotted flags:
    --train.lr 0.01 --train.epochs 50 --method.loss softmax --backbone.dim 32; the run's config.toml lists them all.

    Example: icpe train lastfm --backbone lightgcn --method normal --seed 0 -o run
    """
    from icpe.cli.progress import progress_bar
    from icpe.errors import ConfigError
    from icpe.runs.run import Run

    if resume and output is None:
        raise ConfigError("--resume needs the folder of the run: -o RUN")
    config = make_config(dotted, **flags)
    with progress_bar("steps") as progress:
        run = Run(config, output, on_step=lambda position, steps: progress(position.step, steps))
        result = run.train(resume, force)
    if as_json:
        print_json(result)
    else:
        click.echo(as_text(result, output))


def make_config(dotted: dict[str, dict[str, Any]], **flags: Any) -> "RunConfig":
    """Defaults, then the file, then the flags."""
    from icpe.runs.config import RunConfig

    path = flags["config"]
    config = RunConfig() if path is None else RunConfig.read(path)
    reading = {
        name: flags[name]
        for name in ("columns", "min_weight", "format", "separator", "ids", "time_unit", "k_core", "data_dir")
    }
    given = {part: flags[f"{part}_file"] for part in ("train", "valid", "test")}
    named = {"source": flags["data"], **given}
    header = {"header": False} if flags["no_header"] else {}
    config = config.updated("data", {**named, **reading, **header, "item_info": flags["item_info"]})
    config = config.updated("split", {"kind": flags["kind"], "mode": flags["mode"]})
    # Another backbone or method than the file's has other settings: what the file says of them is left out.
    for section, usual in (("backbone", "mf"), ("method", "normal")):
        if flags[section] not in (None, getattr(config, section).get("name", usual)):
            config = replace(config, **{section: {}})
    config = config.updated("backbone", {"name": flags["backbone"], **dotted.get("backbone", {})})
    config = config.updated("method", {"name": flags["method"], "preset": flags["preset"], **dotted.get("method", {})})
    config = config.updated("train", {"seed": flags["seed"], "device": flags["device"], **dotted.get("train", {})})
    return config.updated("evaluate", {"n": list(flags["depths"]) or None, **dotted.get("evaluate", {})})


def as_text(result: dict[str, Any], folder: Path | None) -> str:
    """The result as a small table for the terminal."""
    lines = [f"{result['method']} on {result['backbone']}, seed {result['seed']}: best step {result['best_step']:,}"]
    if "seconds" in result:
        lines[0] += f" of {result['steps']:,}, {result['seconds']:.1f} s"
    parts = [name for name in ("valid", "test") if name in result]
    lines += ["", " " * 18 + "".join(f"{part:>12}" for part in parts)]
    for name in result[parts[0]] if parts else []:
        lines.append(f"  {name:<16}" + "".join(_cell(name, result[part][name]) for part in parts))
    if folder is not None:
        lines += ["", f"  saved in {folder}: icpe recommend {folder} --user ID"]
    return "\n".join(lines)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return f"{'-':>12}"
    return f"{value:>12,}" if name.startswith("users") else f"{value:>12.4f}"
