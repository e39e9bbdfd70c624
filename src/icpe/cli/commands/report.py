"""``icpe report``: a page about runs."""

from pathlib import Path

import click

from icpe.cli.options import RunFolder, by_option, json_option, known_plugin_option, no_verify_option, print_json


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunFolder())
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The page, an .html file. Default: report.html in the run."
)
@click.option(
    "--user", "users", multiple=True, help="User whose lists are shown. Repeatable. Default: three typical users."
)
@by_option
@known_plugin_option
@no_verify_option
@json_option
def report(
    runs: tuple[Path, ...],
    output: Path | None,
    users: tuple[str, ...],
    by: tuple[str, ...],
    verify: bool,
    as_json: bool,
) -> None:
    """Write a page that shows what a run does, or how several runs differ.

    The page is one file and needs no network. All runs must have the same split; the first is compared with the others.

    Example: icpe report normal icpe -o report.html
    """
    from icpe.errors import ConfigError
    from icpe.report.pages.runs import NAME, runs_report

    if output is None and len(runs) > 1:
        raise ConfigError("a page about several runs needs a file name; give one with -o report.html")
    path = runs_report(runs, output or runs[0] / NAME, users, verify, by)
    if as_json:
        print_json({"file": str(path), "runs": [str(run) for run in runs]})
    else:
        click.echo(f"The page is {path}")
