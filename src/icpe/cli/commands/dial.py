"""``icpe dial``: the price of every amount of debiasing, and the setting that meets a wish."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._flag_names import Share
from icpe.cli.options import (
    RunFolder,
    echo_paragraph,
    json_option,
    known_plugin_option,
    no_verify_option,
    print_json,
    run_data_option,
)

if TYPE_CHECKING:
    from icpe.recommender.dial import Wish


@click.command()
@click.argument("run", type=RunFolder())
@click.option("--niche-share", type=Share(0.4), help="Give niche items this share of the places.")
@click.option(
    "--keep",
    type=Share(0.95),
    help="Give niche items as many places as possible, but keep this share of the best NDCG.",
)
@click.option(
    "--goal",
    type=click.Choice(["traffic", "balanced"]),
    help="Take the best NDCG on the validation part as it is (traffic), or with all items counted alike (balanced).",
)
@click.option("--beta", type=float, help="Take this setting.")
@click.option(
    "--boost",
    is_flag=True,
    help="Meet --niche-share or --keep at the least loss of NDCG, by also raising all niche items alike.",
)
@click.option("--save", is_flag=True, help="Keep the setting in the run and its refit, so that other commands use it.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the front into this .svg, .png or .pdf file.")
@run_data_option
@known_plugin_option
@no_verify_option
@json_option
def dial(
    run: Path, save: bool, plot: Path | None, data_dir: Path | None, verify: bool, as_json: bool, **wish: Any
) -> None:
    """Show accuracy and exposure at every setting of the dial, and choose one by a wish.

    The dial says how much of the pull of popularity ranking puts back. Turning it needs no training. All settings are
    measured and chosen on the validation part; the test part shows what the choice achieves on data that had no part
    in it. Without a wish, the setting stays as it is. With --boost, a niche share costs less NDCG, and its places go to
    fewer different niche items.

    Example: icpe dial run --niche-share 0.4 --save
    """
    from icpe.cli.front_text import as_table
    from icpe.errors import ConfigError
    from icpe.report.front_sentences import describe_boost, describe_choice, hint_at_boost
    from icpe.runs.folder import LIVE
    from icpe.runs.saved import dial_run

    given = _wish(wish)
    if save and given is None:
        raise ConfigError("--save keeps a choice: add --niche-share, --keep, --goal or --beta")
    if plot is not None:
        from icpe.report.figures import check_suffix

        check_suffix(plot)
    found = dial_run(run, given, save, data_dir, verify=verify)
    if plot is not None:
        from icpe.report.figures import save_figure
        from icpe.report.figures.fronts import front_of_model

        save_figure(front_of_model(found.front, found.model.beta), plot)
    if as_json:
        print_json(found.as_dict())
        return
    if plot is not None:
        click.echo(f"The front is drawn in {plot}.\n")
    click.echo(as_table(found.front, found.model.beta))
    click.echo()
    echo_paragraph(describe_choice(found.front, found.model.beta))
    if found.unboosted is not None:
        echo_paragraph(describe_boost(found.front.at(found.model.beta), found.model.boost, found.unboosted))
    elif given is not None and (hint := hint_at_boost(given.niche_share, found.front)):
        echo_paragraph(hint)
    if "test" in found.metrics:
        click.echo(f"On the test part: {_summary(found.metrics['test'])}.")
    if save:
        live = f" and {run / LIVE}" if (run / LIVE).is_dir() else ""
        click.echo(f"Saved in {run}{live}; recommend, evaluate and report use this setting.")


def _wish(values: dict[str, Any]) -> "Wish | None":
    """Return the wish that the flags express, or None without one.

    Raises:
        ConfigError: there are several wishes, or a value is out of range. The message names the flags.
    """
    from icpe.errors import ConfigError
    from icpe.recommender.dial import Wish

    boost = values.pop("boost")
    given = {name: value for name, value in values.items() if value is not None}
    flags = [f"--{name.replace('_', '-')}" for name in given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(flags)} are different wishes; give only one of them")
    if boost and not given.keys() & {"niche_share", "keep"}:
        raise ConfigError("--boost helps to meet --niche-share or --keep; add one of them")
    if not given:
        return None
    try:
        return Wish(**given, boost=boost)
    except ConfigError as error:
        (name,) = given
        raise ConfigError(str(error).replace(name, flags[0], 1)) from None


def _summary(metrics: dict[str, float | None]) -> str:
    """Return the main metrics in one line."""
    from icpe.report.front_sentences import number, percent

    length = next(name.partition("@")[2] for name in metrics if name.startswith("recall@"))
    shown = (("recall", "Recall", number), ("ndcg", "NDCG", number), ("apt", "niche share", percent))
    found = [(label, form, metrics[f"{name}@{length}"]) for name, label, form in shown]
    return ", ".join(f"{label} {form(value)}" for label, form, value in found if value is not None)
