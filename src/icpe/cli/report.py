"""``icpe report``: a page about runs."""

from pathlib import Path

import click

from icpe.cli.options import json_option, print_json


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="An .html file. Default: report.html in the run.")
@click.option("--user", "users", multiple=True, help="Whose lists to show; repeatable. Default: three typical users.")
@json_option
def report(runs: tuple[Path, ...], output: Path | None, users: tuple[str, ...], as_json: bool) -> None:
    """Write a page that shows what a run does, or what several do differently.

    It is one file that needs no network. Runs must be of the same split; the others are compared with the first.

    Example: icpe report normal icpe -o report.html
    """
    from icpe.errors import ConfigError
    from icpe.report.page import NAME, compare_report

    if output is None and len(runs) > 1:
        raise ConfigError("a page about several runs belongs to none of them: name it with -o report.html")
    path = compare_report(runs, output or runs[0] / NAME, users)
    if as_json:
        print_json({"file": str(path), "runs": [str(run) for run in runs]})
    else:
        click.echo(f"written to {path}")
