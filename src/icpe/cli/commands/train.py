"""``icpe train``: from a log to a trained, evaluated and saved model."""

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._flag_names import naming_flags
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    backbone_option,
    command_line,
    data_argument,
    echo_paragraph,
    goal_options,
    json_option,
    method_option,
    print_json,
    training_options,
)
from icpe.cli.torchrun import program, under_torchrun

if TYPE_CHECKING:
    from icpe.runs.config import RunConfig


@click.command(cls=DottedCommand)
@data_argument(required=False)
@backbone_option
@method_option
@click.option("--preset", help="Named settings: paper (for icpe), a data set such as lastfm, or a .toml file.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of every random choice. Default: 0.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of the run. Default: runs/DATA-METHOD-BACKBONE-SEED.",
)
@click.option("--resume", is_flag=True, help="Continue the interrupted run in the folder given by -o.")
@click.option("--force", is_flag=True, help="Replace an existing run in the folder.")
@click.option(
    "--init-from",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Start from the model of this run: known users and items keep what was learned. Its settings and the wish of "
    "its dial are the defaults.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Afterwards train on all parts for as many epochs as were best, into the folder `live` in that of the run.",
)
@goal_options
@training_options
@json_option
@click.pass_obj
def train(
    dotted: dict[str, dict[str, Any]],
    /,
    output: Path | None,
    resume: bool,
    force: bool,
    init_from: Path | None,
    refit: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train a model, evaluate it, and save it in a folder with everything needed to repeat the run.

    DATA is a file, a folder of Parquet files, or a name from `icpe data list`. Every setting has a flag with a dot,
    such as --train.lr 0.01, --method.loss softmax or --backbone.dim 32. `icpe train --method icpe --help-settings`
    lists the settings of a method, its backbone, the split and the training loop.

    Example: icpe train lastfm --backbone lightgcn --method normal --seed 0 -o run

    Every night: icpe train events.csv --init-from yesterday -o today
    """
    from icpe.cli._declared import check_flags
    from icpe.cli.progress import TrainingProgress, progress_bar
    from icpe.errors import ConfigError
    from icpe.files import read_json
    from icpe.runs.folder import LIVE, SPLIT
    from icpe.runs.live import refit_run
    from icpe.runs.run import Run
    from icpe.runs.together import agreed_folder
    from icpe.shards import first

    if resume and output is None:
        raise ConfigError("--resume needs the folder of the run: add -o RUN")
    if init_from is not None and output is not None and init_from.resolve() == output.resolve():
        raise ConfigError(f"--init-from and -o are the same folder, {output}; name another one with -o")
    if refit and under_torchrun():
        raise ConfigError("--refit does not work with torchrun yet; leave it out, or train without torchrun")
    begun = output if resume else None
    config = check_flags(dotted, nightly_config(dotted, init_from, begun, **flags))
    folder = output or agreed_folder(free_folder(config))
    _note_new_run(folder, resume)
    try:
        with naming_flags(n="-n"), progress_bar(str(folder)) as report:
            progress = TrainingProgress(report)
            result = Run(config, folder, progress.on_step, progress.on_evaluation).train(resume, force)
        if refit:
            with progress_bar(str(folder / LIVE)) as report:
                on_step = TrainingProgress(report).on_step
                result["live"] = refit_run(folder, resume, force, on_step, config.plugins)
    except KeyboardInterrupt:
        raise click.Abort(_how_to_resume(folder)) from None
    if not first():  # the first process of torchrun has the files and tells the result
        return
    if as_json:
        print_json({**result, "folder": str(folder)})
        return
    click.echo(as_text(result))
    counts = read_json(folder / SPLIT)["counts"]["train"]
    click.echo("\nTrained on {users:,} users, {items:,} items and {interactions:,} interactions.".format(**counts))
    click.echo("".join(f"\n{line}" for line in _origin_lines(result)), nl=False)
    _print_choice(folder, result["beta"], by_hand=config.expanded().method.get("beta") is not None)
    if still_improving(result):
        click.echo("\nValidation was still improving at the last step; consider more --train.epochs.")
    chosen = "" if output else ", a name that -o can change"
    click.echo(f"\nSaved in {folder}{chosen}. Try: {program()} recommend {folder} --user ID")
    if refit:
        epochs = result["live"]["refit"]["epochs"]
        click.echo(f"The model that goes live is {folder / LIVE}, trained on all parts for {_epochs(epochs)}.")


def _note_new_run(folder: Path, resume: bool) -> None:
    """Say that there is nothing to resume, because the name of the folder may be a mistake."""
    from icpe.runs.folder import CONFIG
    from icpe.shards import first

    if resume and first() and not (folder / CONFIG).exists():
        click.echo(f"{folder} holds no run yet, so this is a new one.", err=True)


def _origin_lines(result: dict[str, Any]) -> list[str]:
    """Return a line about the users and items that were taken over from an earlier run."""
    if "start" not in result:
        return []
    counts = [
        f"{kind} {start['kept']:,} kept, {start['new']:,} new, {start['dropped']:,} dropped"
        for kind, start in ((kind, result["start"][kind]) for kind in ("users", "items"))
    ]
    return [f"Started from {result['start']['init_from']}: {'; '.join(counts)}.", ""]


def _print_choice(folder: Path, beta: float, by_hand: bool) -> None:
    """Print the setting of the dial and its price, and a warning if a setting given by hand is expensive."""
    from icpe.recommender.saved_log import FRONT
    from icpe.recommender.store import read_front
    from icpe.report.front_sentences import describe_choice, describe_loss

    front = read_front(folder / FRONT)
    if front is None:
        return
    click.echo()
    echo_paragraph(f"{describe_choice(front, beta)} `icpe dial {folder}` shows every setting.")
    if by_hand and (loss := describe_loss(front, beta)):
        click.echo(f"Warning: {loss}", err=True)


def nightly_config(
    dotted: dict[str, dict[str, Any]], init_from: Path | None, begun: Path | None, **flags: Any
) -> "RunConfig":
    """Return the configuration of a run that may start from an earlier one, whose settings are then the defaults.

    Args:
        dotted: flags with a dot, by section.
        init_from: folder of the earlier run.
        begun: folder of a run to resume. If it started from an earlier run, its own file has all settings.
        flags: all other flags.
    """
    from icpe.errors import DataError
    from icpe.runs.folder import CONFIG
    from icpe.runs.origin import recorded_start, with_init_from

    goes_on = begun is not None and bool(recorded_start(begun))
    if init_from is not None and not goes_on and not (init_from / "model.json").exists():
        raise DataError(f"--init-from is {init_from}, which holds no model; name the folder of a finished run")
    defaults = begun if goes_on else init_from
    if flags["config"] is None and defaults is not None and (defaults / CONFIG).exists():
        flags["config"] = defaults / CONFIG
    config = make_config(dotted, **flags)
    if init_from is None:
        return config
    wished = [
        flags["goal"],
        flags["niche_share"],
        *(dotted.get("train", {}).get(one) for one in ("goal", "niche_share")),
    ]
    wished.append(dotted.get("method", {}).get("beta"))
    return with_init_from(config, init_from, keep_wish=all(one is None for one in wished))


def make_config(dotted: dict[str, dict[str, Any]], **flags: Any) -> "RunConfig":
    """Return the configuration of a run: defaults, overridden by the file, overridden by the flags."""
    from icpe.cli._declared import check_file
    from icpe.runs.config import RunConfig

    path = flags["config"]
    config = replace(RunConfig() if path is None else RunConfig.read(path), plugins=flags.get("plugins", ()))
    reading = {
        name: flags[name]
        for name in ("columns", "min_weight", "format", "separator", "ids", "time_unit", "k_core", "data_dir")
    }
    given = {part: flags[f"{part}_file"] for part in ("train", "valid", "test")}
    named = {"source": flags["data"], **given}
    # Data named by flags take the place of those in the file, in whichever way the file names them.
    replaced = ("train", "valid", "test") if flags["data"] else ("source",) if given["train"] else ()
    config = replace(config, data={name: value for name, value in config.data.items() if name not in replaced})
    header = {"header": False} if flags["no_header"] else {}
    names = {"item_info": flags["item_info"], "item_columns": flags["item_columns"]}
    config = config.updated("data", {**named, **reading, **header, **names})
    # Another split, backbone or method has other settings, so those of the file do not apply to it.
    chosen = {
        "split": ("kind", "unbiased", flags["kind"]),
        "backbone": ("name", "mf", flags["backbone"]),
        "method": ("name", "normal", flags["method"]),
    }
    emptied: dict[str, Any] = {
        section: {}
        for section, (key, default, wanted) in chosen.items()
        if wanted not in (None, getattr(config, section).get(key, default))
    }
    if path is not None:
        check_file(path, config, replaced=emptied)
    config = replace(config, **emptied)
    for section, (key, _, wanted) in chosen.items():
        config = config.updated(section, {key: wanted})
    config = config.updated("method", {"preset": flags["preset"]})
    config = config.updated("train", {name: flags.get(name) for name in ("seed", "device", "goal", "niche_share")})
    config = config.updated("evaluate", {"n": list(flags["depths"]) or None})
    for section, values in dotted.items():
        config = config.updated(section, values)
    return config


def free_folder(config: "RunConfig") -> Path:
    """Return a folder below ``runs`` that does not exist yet, named after the data, method, backbone and seed."""
    source = str(config.data.get("source") or config.data.get("train") or "data")
    parts = (
        Path(source).stem or "data",
        str(config.method.get("name", "normal")),
        str(config.backbone.get("name", "mf")),
        str(config.seed),
    )
    name = re.sub(r"[^\w.-]+", "_", "-".join(parts))
    candidates = (Path("runs", name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(folder for folder in candidates if not folder.exists())


def _how_to_resume(folder: Path) -> str:
    """A sentence with the running command, changed so that it continues the run in the folder."""
    if not (folder / "checkpoint").exists():
        return "nothing was trained yet, so nothing is saved"
    words = [word for word in command_line().split(" ") if word not in ("--force", "--resume")]
    command, named = " ".join(words), any(re.match(r"-o|--output(=|$)", word) for word in words)
    return f"the state is saved in {folder}. Continue with: {command}{'' if named else f' -o {folder}'} --resume"


def _epochs(count: float) -> str:
    number = f"{count:.1f}".removesuffix(".0")
    return f"{number} epoch{'' if number == '1' else 's'}"


def still_improving(result: dict[str, Any]) -> bool:
    """Return whether the last validation of a run was the best one. Then the run was not stopped early either."""
    return "valid" in result and 0 < result["steps"] == result["best_step"]


def as_text(result: dict[str, Any]) -> str:
    """Return the result of a run as a small table for the terminal."""
    lines = [f"{result['method']} on {result['backbone']}, seed {result['seed']}: best step {result['best_step']:,}"]
    if "seconds" in result:
        lines[0] += f" of {result['steps']:,}, {result['seconds']:.1f} s"
    parts = [name for name in ("valid", "test") if name in result]
    if not parts:
        return "\n".join([*lines, "", "The run has no validation and no test part, so there are no metrics."])
    names, intervals = list(result[parts[0]]), result.get("intervals", {}).get(parts[-1], {})
    width = max(20, *map(len, names))
    heading = "".join(f"{part:>10}" for part in parts) + (f"  95 % interval, {parts[-1]}" if intervals else "")
    lines += ["", " " * (width + 2) + heading]
    for name in names:
        cells = "".join(_cell(name, result[part][name]) for part in parts)
        bounds = "  {:.4f} to {:.4f}".format(*intervals[name]) if name in intervals else ""
        lines.append(f"  {name:<{width}}{cells}{bounds}")
    return "\n".join(lines)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return f"{'-':>10}"
    return f"{value:>10,.0f}" if name.startswith(("users", "balanced_pairs")) else f"{value:>10.4f}"
