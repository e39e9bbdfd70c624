"""``icpe simulate``: the feedback loop of recommenders that are trained on what their own lists have caused."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._names import DATA, METHODS, backbones_option, parse_names
from icpe.cli._seeds import parse_seeds, seeds_option
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    command_line,
    device_option,
    json_option,
    make_goal_options,
    open_data,
    plugin_option,
    print_json,
    reading_options,
    workers_option,
)

if TYPE_CHECKING:
    from icpe.data import Interactions, World
    from icpe.runs.config import RunConfig
    from icpe.simulate import Simulation

_NAMED = (
    "rounds",
    "warm",
    "explore",
    "drift",
    "new_users",
    "new_items",
)  # settings of the loop with a flag of their own
# Options about reading a log, and the flags of those whose flag is another word.
_READING = (
    *("columns", "k_core", "min_weight", "item_info", "item_columns", "data_dir"),
    *("format", "separator", "no_header", "ids", "time_unit"),
)
_FLAGS = {"columns": "column", "item_info": "items", "item_columns": "item-column"}
_QUICK = {"rounds": 6, "retrain": 3}
_PICTURE = "loop.svg"


@click.command(cls=DottedCommand, sections=("loop", "backbone", "train"))
@click.argument("data", type=DATA)
@click.option("--methods", type=METHODS, required=True, help="Names of methods separated by commas, or all.")
@backbones_option
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds, the same as --loop.rounds. Default: 20.")
@click.option(
    "--warm",
    is_flag=True,
    default=None,
    help="Start every training after the first from the arm's previous model, instead of from scratch.",
)
@click.option(
    "--adoption",
    default="0.5",
    show_default=True,
    metavar="SHARES",
    help="Share of the visits that follow the list, or several separated by commas. 0 is always added, at no cost.",
)
@click.option(
    "--explore", type=float, metavar="SHARE", help="Share of the places of all lists that show a random item."
)
@click.option("--drift", type=float, help="How far tastes move from round to round, from 0 to 1.")
@click.option("--new-users", type=click.IntRange(min=0), help="Number of users who join in every round.")
@click.option("--new-items", type=click.IntRange(min=0), help="Number of items that join in every round.")
@click.option(
    "--liking",
    type=float,
    metavar="SHARE",
    help="In a world that is fitted to DATA, how often users accept what they have chosen in the log. Default: 0.6.",
)
@seeds_option("1")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder of the simulation.")
@click.option("--quick", is_flag=True, help="Play 6 rounds and train twice, unless other flags say otherwise.")
@click.option("--force", is_flag=True, help="Replace another simulation in the folder.")
@make_goal_options("balanced, but always none for normal, popularity and random")
@device_option
@workers_option
@plugin_option
@reading_options
@json_option
@click.pass_obj
def simulate(
    dotted: dict[str, dict[str, Any]],
    /,
    data: str,
    methods: str,
    backbones: str | None,
    adoption: str,
    liking: float | None,
    seeds: str | None,
    output: Path,
    quick: bool,
    force: bool,
    workers: int,
    as_json: bool,
    **flags: Any,
) -> None:
    """Simulate how recommenders change what people consume, round by round.

    DATA is demo or a folder that `icpe data make` has written, whose true tastes are known; or any log, as for `icpe
    train`, to which a world is fitted: tastes come from a model that is trained on the log. In every round users visit,
    follow their list or choose by themselves, and what they consume goes into the log, on which the methods are trained
    again every few rounds. Every simulation has four more arms: an oracle that knows all tastes, random lists, the most
    popular items, and no recommender. All arms share their random numbers. The dial of normal stays at rest; the others
    aim at --goal balanced, or at --niche-share. If you interrupt the simulation, the same command continues it.

    Example: icpe simulate demo --methods normal,icpe --rounds 20 --adoption 0.25,0.5,1 --seeds 5 -o sim
    """
    from icpe.backbones import BACKBONES
    from icpe.cli.progress import progress_bar
    from icpe.methods import METHODS as KNOWN
    from icpe.simulate import simulate as run_simulation

    world, given = _open_world(data, liking, {name: flags.pop(name) for name in _READING})
    loop, named = _loop_settings(dotted.get("loop", {}), quick, flags), parse_names(backbones or "mf", BACKBONES)
    config = _training_settings(dotted, named, flags)
    try:
        with progress_bar("rounds") as report:
            found = run_simulation(
                world,
                parse_names(methods, KNOWN),
                output,
                backbones=named,
                adoption=_parse_adoption(adoption),
                seeds=parse_seeds(seeds or "1"),
                config=config,
                **given,
                workers=workers,
                force=force,
                progress=report,
                **loop,
            )
    except KeyboardInterrupt:
        command = " ".join(word for word in command_line().split(" ") if word != "--force")
        raise click.Abort(f"finished rounds are kept in {output}. Continue with: {command}") from None
    files = _write_page(found)
    if as_json:
        print_json(_as_json(found, files))
        return
    _print(found, files)


def _loop_settings(given: dict[str, Any], quick: bool, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the loop, from dotted flags and from those with a flag of their own."""
    from icpe.cli._declared import find_mistakes, find_section
    from icpe.errors import ConfigError

    section = find_section("loop")
    named = {name: flags[name] for name in _NAMED if flags[name] is not None}
    mistakes = find_mistakes(section, given)
    mistakes += [
        line.replace(section.flag(name), f"--{name.replace('_', '-')}")
        for name, value in named.items()
        for line in find_mistakes(section, {name: value})
    ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return {**(_QUICK if quick else {}), **given, **named}


def _training_settings(dotted: dict[str, dict[str, Any]], backbones: list[str], flags: dict[str, Any]) -> "RunConfig":
    """Return the settings of training, and those that all backbones share."""
    from icpe.backbones import BACKBONES
    from icpe.cli._declared import check_flags
    from icpe.errors import ConfigError
    from icpe.runs.config import RunConfig

    others = {section: values for section, values in dotted.items() if section != "loop"}
    if "seed" in others.get("train", {}):
        raise ConfigError("--train.seed cannot be combined with a simulation, which has several seeds; use --seeds")
    config = RunConfig(plugins=flags["plugins"])
    config = config.updated("train", {name: flags[name] for name in ("goal", "niche_share", "device")})
    for name in backbones:
        BACKBONES.find(name)
        config = check_flags(others, config.updated("backbone", {"name": name}))
    shared = {name: value for name, value in config.backbone.items() if name != "name"}
    return replace(config, backbone=shared)


def _parse_adoption(text: str) -> list[float]:
    from icpe.errors import ConfigError

    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--adoption is {text!r}; expected shares from 0 to 1 separated by commas, such as 0.25,0.5,1"
        ) from None


def _open_world(
    name: str, liking: float | None, reading: dict[str, Any]
) -> tuple["World | Interactions", dict[str, Any]]:
    """Return the built-in world, the one in a folder, or a log, and what was given about fitting a world to it.

    Raises:
        ConfigError: an option about logs was given with a world.
    """
    from icpe.data import World, make_world
    from icpe.errors import ConfigError

    is_world = name == "demo" or (Path(name) / "users.parquet").is_file()
    if not is_world:
        return open_data(name, **reading), {} if liking is None else {"liking": liking}
    given = ["liking"] * (liking is not None) + [option for option, value in reading.items() if value]
    if given:
        flag = _FLAGS.get(given[0], given[0].replace("_", "-"))
        raise ConfigError(f"{name} is a world, which is used as it is, but --{flag} is about logs; leave it out")
    return (make_world() if name == "demo" else World.load(Path(name))), {}


def _write_page(found: "Simulation") -> dict[str, str]:
    """Write the page and the picture, if matplotlib is installed. Return their paths."""
    if importlib.util.find_spec("matplotlib") is None:
        return {}
    from icpe.report.figures.canvas import save_figure
    from icpe.report.figures.simulation import loop_picture
    from icpe.report.pages.simulation import simulation_report

    save_figure(loop_picture(found), found.folder / _PICTURE)
    page = simulation_report(found, command_line())
    return {"report": str(page), "picture": str(found.folder / _PICTURE)}


def _as_json(found: "Simulation", files: dict[str, str]) -> dict[str, Any]:
    from icpe.report.simulation_sentences import headline

    return {
        "folder": str(found.folder),
        **files,
        "headline": [" ".join(filter(None, both)) for both in headline(found)],
        "arms": found.arms,
        "seeds": found.seeds,
        "adoption": found.adoption,
        "settings": found.settings.as_dict(),
        "fit": found.fit,
        "rounds": found.over_time().to_dicts(),
        "groups": found.by_group().to_dicts(),
        "across_adoption": found.across_adoption().to_dicts(),
    }


def _print(found: "Simulation", files: dict[str, str]) -> None:
    from icpe.report.pages.simulation import terminal_text
    from icpe.tables import terminal_width

    table, *sentences = terminal_text(found, terminal_width())
    click.echo(table)
    for one in sentences:
        click.echo("\n" + click.wrap_text(one, 80, "  ", "  "))
    saved = ", ".join([*(Path(one).name for one in files.values()), "measures.parquet", "items.parquet", "rounds"])
    click.echo(f"\nSaved in {found.folder}: {saved}")
