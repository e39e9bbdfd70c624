"""``icpe reproduce``: the tables and figures of the paper on any data."""

from pathlib import Path
from typing import Any

import click

from icpe.cli._engine import parse_workers, training_engine_options
from icpe.cli._seeds import parse_seeds, seeds_option
from icpe.cli.commands.train import make_config
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    command_line,
    config_option,
    data_argument,
    device_option,
    json_option,
    print_json,
    reading_options,
    split_options,
)

_WHAT = (
    "accuracy", "debiasing", "tradeoff", "ablation", "clusters", "alpha", "frontier", "weights", "case", "gradients",
    "theory", "all",
)  # fmt: skip
_QUICK_SEEDS = "1"
_QUICK: dict[str, Any] = {"epochs": 10, "batch_size": 4096, "lr": 0.01}  # settings of [train]


@click.command(cls=DottedCommand)
@click.argument("what", type=click.Choice(_WHAT))
@data_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for runs, data, figures and pages.",
)
@seeds_option("5, or 1 with --quick")
@click.option("--backbones", default="all", show_default=True, help="Backbones, separated by commas.")
@click.option(
    "--methods",
    default="all",
    show_default=True,
    help="Methods of the tables and the trade-off, separated by commas.",
)
@click.option("--preset", help="Tuned settings: name of a data set, or a .toml file. Default: those of DATA, if any.")
@click.option("--quick", is_flag=True, help="Use one seed and short training. All results say so.")
@training_engine_options
@click.option("--user", help="User whose lists the case study shows. Default: a random user.")
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
    data: str,
    output: Path,
    seeds: str | None,
    backbones: str,
    methods: str,
    preset: str | None,
    quick: bool,
    workers: int | None,
    engine: str,
    address: str | None,
    user: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Reproduce a table or figure of the paper and report whether its claims hold.

    DATA is a name from `icpe data list`, demo, or a file with interactions. Each study writes its data (Parquet),
    figures (SVG and PNG), a text and a page to the folder; `all` also writes report.html with all studies. Studies
    share the runs in the folder: an interrupted command continues, and `all` after `accuracy` trains only the missing
    runs. Settings have dotted flags, as in `icpe train`.

    Example: icpe reproduce all demo --quick -o out
    """
    from icpe.cli.compare_progress import comparison_progress
    from icpe.paper import BACKBONES, METHODS, STUDIES, Reproduction
    from icpe.paper.page import page_of
    from icpe.paper.page import reproduce as make

    unset = {"backbone": None, "method": None, "preset": None, "seed": None, "depths": ()}
    files = dict.fromkeys(("train_file", "valid_file", "test_file"))
    if quick:
        dotted = {**dotted, "train": {**_QUICK, **dotted.get("train", {})}}
    # The paper has no dial: ICPE ranks without the propensity, and the other methods as they were trained.
    dotted = {**dotted, "train": {"goal": "none", **dotted.get("train", {})}}
    base = make_config(dotted, data=data, **unset, **files, **flags)
    names = list(STUDIES) if what == "all" else [what]
    with comparison_progress() as show:
        reproduction = Reproduction(
            dataset=data if "/" not in data else Path(data).name,
            base=base,
            folder=output,
            seeds=parse_seeds(seeds or (_QUICK_SEEDS if quick else "5")),
            backbones=_names("--backbones", backbones, list(BACKBONES)),
            methods=_names("--methods", methods, list(METHODS)),
            preset=_preset(preset, data),
            quick=quick,
            workers=parse_workers(engine, address, workers),
            on_event=show,
            on_stage=lambda stage: click.echo(f"{stage} …", err=True),
            user=user,
        )
        try:
            findings = make(reproduction, names, command_line())
        except KeyboardInterrupt:
            click.echo(f"Finished runs are kept in {output}. Run the same command again to continue.", err=True)
            raise
    if as_json:
        print_json(
            {
                "folder": str(output),
                "report": str(page_of(reproduction, names)),
                "studies": {
                    one.what: [{"said": c.said, "seen": c.seen, "held": c.held} for c in one.claims] for one in findings
                },
            }
        )
        return 0
    for one in findings:
        click.echo(one.as_text())
    click.echo(f"  open {page_of(reproduction, names)}")
    return 0


def _names(option: str, text: str, known: list[str]) -> list[str]:
    """Names from a text with commas; ``all`` means all known names."""
    from icpe.suggest import unknown_name

    names = known if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [text]:
        if name not in known:
            raise unknown_name(f"name in {option}:", name, known)
    return names


def _preset(name: str | None, dataset: str) -> str | None:
    """The requested preset, or the one that comes with the package for the data set."""
    from icpe.errors import ConfigError
    from icpe.runs.presets import open_presets, shipped_presets

    shipped = shipped_presets()
    if name is None:
        return dataset if dataset in shipped else None
    try:
        open_presets(name)
    except LookupError:
        known = ", ".join(shipped)
        raise ConfigError(
            f"--preset is {name!r}; expected one of {known}, or a file whose name ends in .toml"
        ) from None
    return name
