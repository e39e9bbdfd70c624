"""``icpe reproduce``: the tables and figures of the paper, on any data."""

from pathlib import Path
from typing import Any

import click

from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    command_line,
    config_option,
    device_option,
    json_option,
    print_json,
    reading_options,
    split_options,
    workers_option,
)
from icpe.cli.train import make_config

_WHAT = (
    "accuracy", "debiasing", "tradeoff", "ablation", "clusters", "alpha", "frontier", "weights", "case", "gradients",
    "theory", "all",
)  # fmt: skip
_QUICK_SEEDS = "1"
_QUICK: dict[str, Any] = {"epochs": 10, "batch_size": 4096, "lr": 0.01}  # of [train]


@click.command(cls=DottedCommand)
@click.argument("what", type=click.Choice(_WHAT))
@click.option("--dataset", required=True, metavar="DATA", help="A name from `icpe data list`, or a log of your own.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for it all."
)
@click.option("--seeds", help="Such as 5, 0-4 or 0,3,7. Default: 5; with --quick 1.")
@click.option("--backbones", default="all", show_default=True, help="Names with commas between.")
@click.option("--methods", default="all", show_default=True, help="Of the paper's eight, for tables and trade-off.")
@click.option("--preset", help="Tuned settings: a data set or a .toml file. Default: those of DATA, if there are any.")
@click.option("--quick", is_flag=True, help="A smaller version: one seed, short training. It says so.")
@workers_option
@click.option("--user", help="Whose lists the case study shows. Default: one drawn at random.")
@config_option
@split_options
@device_option
@reading_options
@json_option
@click.pass_obj
def reproduce(
    dotted: dict[str, dict[str, Any]],
    /,
    what: str,
    dataset: str,
    output: Path,
    seeds: str | None,
    backbones: str,
    methods: str,
    preset: str | None,
    quick: bool,
    workers: int,
    user: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Make a table or figure of the paper again, and say whether its claims held.

    Each study leaves its data (Parquet), figures (SVG and PNG), a text and a page in the folder; after `all`,
    report.html shows everything. Runs are kept in the folder and shared by the studies: what was stopped goes on, and
    `all` after `accuracy` trains only what is new. Settings have dotted flags, as of `icpe train`.

    Example: icpe reproduce all --dataset demo --quick -o out
    """
    from icpe.cli._compare_shown import shown
    from icpe.cli.compare import parse_seeds
    from icpe.paper import BACKBONES, METHODS, STUDIES, Setting
    from icpe.paper.page import page_of
    from icpe.paper.page import reproduce as make

    nothing = {"backbone": None, "method": None, "preset": None, "seed": None, "depths": ()}
    files = dict.fromkeys(("train_file", "valid_file", "test_file"))
    if quick:
        dotted = {**dotted, "train": {**_QUICK, **dotted.get("train", {})}}
    base = make_config(dotted, data=dataset, **nothing, **files, **flags)
    names = list(STUDIES) if what == "all" else [what]
    with shown() as show:
        setting = Setting(
            dataset=dataset if "/" not in dataset else Path(dataset).name,
            base=base,
            folder=output,
            seeds=parse_seeds(seeds or (_QUICK_SEEDS if quick else "5")),
            backbones=_names("--backbones", backbones, list(BACKBONES)),
            methods=_names("--methods", methods, list(METHODS)),
            preset=_preset(preset, dataset),
            quick=quick,
            workers=workers,
            on_event=show,
            on_stage=lambda stage: click.echo(f"{stage} …", err=True),
            user=user,
        )
        try:
            findings = make(setting, names, command_line())
        except KeyboardInterrupt:
            click.echo(f"all runs that have ended are kept in {output}; the same command goes on from there", err=True)
            raise
    if as_json:
        print_json(
            {
                "folder": str(output),
                "report": str(page_of(setting, names)),
                "studies": {
                    one.what: [{"said": c.said, "seen": c.seen, "held": c.held} for c in one.claims] for one in findings
                },
            }
        )
        return 0
    for one in findings:
        click.echo(one.as_text())
    click.echo(f"  look at {page_of(setting, names)}")
    return 0


def _names(option: str, text: str, known: list[str]) -> list[str]:
    """Some of those there are, from a text with commas."""
    from icpe.errors import ConfigError

    names = known if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [text]:
        if name not in known:
            raise ConfigError(f"{option} has {name!r}; expected some of {', '.join(known)}, or all")
    return names


def _preset(name: str | None, dataset: str) -> str | None:
    """The one asked for, or what comes with the package for a data set."""
    from icpe.errors import ConfigError
    from icpe.runs.presets import open_presets, shipped_presets

    shipped = shipped_presets()
    if name is None:
        return dataset if dataset in shipped else None
    try:
        open_presets(name)
    except LookupError:
        known = ", ".join(shipped)
        raise ConfigError(f"--preset is {name!r}; expected one of {known}, or a file that ends in .toml") from None
    return name
