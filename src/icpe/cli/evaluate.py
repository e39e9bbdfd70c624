"""``icpe evaluate``: the metrics of a saved run again."""

from pathlib import Path

import click

from icpe.cli.options import beta_option, json_option, print_json
from icpe.cli.train import as_text


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-n", "depths", type=click.IntRange(min=1), multiple=True, help="List lengths. Default: the run's.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Look here first for the data of the run.",
)
@beta_option
@json_option
def evaluate(run: Path, depths: tuple[int, ...], data_dir: Path | None, beta: float | None, as_json: bool) -> None:
    """Measure a saved model on the parts it was made with.

    Example: icpe evaluate run -n 10 -n 20
    """
    from icpe.runs.run import evaluate_run

    result = evaluate_run(run, list(depths) or None, data_dir, {} if beta is None else {"beta": beta})
    if as_json:
        print_json(result)
    else:
        click.echo(as_text(result, None))
