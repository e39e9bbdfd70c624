"""``icpe simulate``: the feedback loop of recommenders that are trained on what their own lists have caused."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._names import DATA, METHODS, parse_names
from icpe.cli._seeds import parse_seeds, seeds_option
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    backbone_option,
    command_line,
    device_option,
    json_option,
    make_goal_options,
    plugin_option,
    print_json,
    workers_option,
)

if TYPE_CHECKING:
    from icpe.data import World
    from icpe.runs.config import RunConfig
    from icpe.simulate import Simulation

_QUICK = {"rounds": 6, "retrain": 3}
_PICTURE = "loop.svg"


@click.command(cls=DottedCommand, sections=("loop", "backbone", "train"))
@click.argument("world", type=DATA)
@click.option("--methods", type=METHODS, required=True, help="Names of methods separated by commas, or all.")
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds, the same as --loop.rounds. Default: 20.")
@click.option(
    "--adoption",
    default="0.5",
    show_default=True,
    metavar="SHARES",
    help="Share of the visits that follow the list, or several separated by commas. 0 is always added, at no cost.",
)
@seeds_option("1")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder of the simulation.")
@click.option("--quick", is_flag=True, help="Play 6 rounds and train twice, unless other flags say otherwise.")
@click.option("--force", is_flag=True, help="Replace another simulation in the folder.")
@backbone_option
@make_goal_options("balanced, but always none for normal, popularity and random")
@device_option
@workers_option
@plugin_option
@json_option
@click.pass_obj
def simulate(
    dotted: dict[str, dict[str, Any]],
    /,
    world: str,
    methods: str,
    rounds: int | None,
    adoption: str,
    seeds: str | None,
    output: Path,
    quick: bool,
    force: bool,
    workers: int,
    as_json: bool,
    **flags: Any,
) -> None:
    """Simulate how recommenders change what people consume, round by round.

    WORLD is demo or a folder that `icpe data make` has written; its true tastes are known. In every round users visit,
    follow their list or choose by themselves, and what they consume goes into the log, on which the methods are trained
    again every few rounds. Every simulation has four more arms: an oracle that knows all tastes, random lists, the most
    popular items, and no recommender. All arms share their random numbers. The dial of normal stays at rest; the others
    aim at --goal balanced, or at --niche-share. If you interrupt the simulation, the same command continues it.

    Example: icpe simulate demo --methods normal,icpe --rounds 20 --adoption 0.25,0.5,1 --seeds 5 -o sim
    """
    from icpe.cli.progress import progress_bar
    from icpe.methods import METHODS as KNOWN
    from icpe.simulate import simulate as run_simulation

    loop, config = _settings(dotted, rounds, quick, flags)
    try:
        with progress_bar("rounds") as report:
            found = run_simulation(
                _open_world(world),
                parse_names(methods, KNOWN),
                output,
                adoption=_parse_adoption(adoption),
                seeds=parse_seeds(seeds or "1"),
                config=config,
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


def _settings(
    dotted: dict[str, dict[str, Any]], rounds: int | None, quick: bool, flags: dict[str, Any]
) -> tuple[dict[str, Any], "RunConfig"]:
    """Return the settings of the loop, and those of backbones and training."""
    from icpe.cli._declared import check_flags, find_mistakes, find_section
    from icpe.errors import ConfigError
    from icpe.runs.config import RunConfig

    others = {section: values for section, values in dotted.items() if section != "loop"}
    if "seed" in others.get("train", {}):
        raise ConfigError("--train.seed cannot be combined with a simulation, which has several seeds; use --seeds")
    given = dotted.get("loop", {})
    if mistakes := find_mistakes(find_section("loop"), given):
        raise ConfigError("\n".join(mistakes))
    named = {} if rounds is None else {"rounds": rounds}
    config = RunConfig().updated("backbone", {"name": flags["backbone"]})
    config = config.updated("train", {name: flags[name] for name in ("goal", "niche_share", "device")})
    for section, values in others.items():
        config = config.updated(section, values)
    config = replace(check_flags(others, config), plugins=flags["plugins"])
    return {**(_QUICK if quick else {}), **given, **named}, config


def _parse_adoption(text: str) -> list[float]:
    from icpe.errors import ConfigError

    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--adoption is {text!r}; expected shares from 0 to 1 separated by commas, such as 0.25,0.5,1"
        ) from None


def _open_world(name: str) -> "World":
    """Return the built-in world, or the one in a folder.

    Raises:
        ConfigError: the name is not one of a world.
    """
    from icpe.data import World, make_world
    from icpe.errors import ConfigError

    if name == "demo":
        return make_world()
    if not (Path(name) / "users.parquet").is_file():
        raise ConfigError(
            f"{name} is not a world: a simulation needs true tastes, which a log does not have. Use demo, or generate "
            "a world of any size: icpe data make -o world"
        )
    return World.load(Path(name))


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
        click.echo("\n" + click.wrap_text(one, 88, "  ", "  "))
    saved = ", ".join([*(Path(one).name for one in files.values()), "measures.parquet", "items.parquet", "rounds"])
    click.echo(f"\nSaved in {found.folder}: {saved}")
