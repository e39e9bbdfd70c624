"""``icpe evaluate``: the metrics of a saved run."""

from pathlib import Path
from typing import Any

import click

from icpe.cli._flag_names import naming_flags
from icpe.cli._ranking import RankingCommand, parse_ranking
from icpe.cli.commands.train import as_text
from icpe.cli.options import (
    RunFolder,
    beta_option,
    json_option,
    known_plugin_option,
    no_verify_option,
    print_json,
    run_data_option,
)


@click.command(cls=RankingCommand)
@click.argument("run", type=RunFolder())
@click.option(
    "-n", "depths", type=click.IntRange(min=1), multiple=True, help="List length; repeatable. Default: as in training."
)
@click.option(
    "--audit",
    "with_audit",
    is_flag=True,
    help="Add the bias metrics of `icpe audit`, with 95 % intervals over users.",
)
@run_data_option
@beta_option
@known_plugin_option
@no_verify_option
@json_option
@click.pass_obj
def evaluate(
    dotted: dict[str, dict[str, Any]],
    /,
    run: Path,
    depths: tuple[int, ...],
    with_audit: bool,
    data_dir: Path | None,
    beta: float | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Evaluate a saved model on its own validation and test parts.

    Settings that only change the ranking can be changed without training again, such as --method.beta of ICPE;
    `icpe evaluate RUN --help-settings` lists them.

    Example: icpe evaluate run -n 10 -n 20

    What the model does to niche items and to people who like them: icpe evaluate run --audit
    """
    from icpe.runs.saved import evaluate_run

    ranking = parse_ranking(run, dotted, beta)
    with naming_flags(n="-n"):
        result = evaluate_run(run, list(depths) or None, data_dir, ranking, verify=verify, bias=with_audit)
    if as_json:
        print_json(result)
    else:
        click.echo(as_text(result))
