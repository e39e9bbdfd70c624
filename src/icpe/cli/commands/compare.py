"""``icpe compare``: methods × backbones × seeds side by side."""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._engine import parse_workers, training_engine_options
from icpe.cli._names import backbones_option, methods_option, parse_names
from icpe.cli._seeds import parse_seeds, seeds_option
from icpe.cli.commands.train import make_config
from icpe.cli.compare_progress import comparison_progress
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    data_argument,
    echo_paragraph,
    goal_options,
    json_option,
    print_json,
    training_options,
)

if TYPE_CHECKING:
    from icpe.compare.grid import Cell, Grid


@click.command(cls=DottedCommand)
@data_argument(required=False)
@methods_option
@backbones_option
@seeds_option("5, or the seeds of --cells")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder of the comparison.")
@click.option(
    "--cells", type=click.Path(path_type=Path), help="TOML file that lists what to compare, instead of --methods."
)
@click.option("--only", multiple=True, help="Compare only the cells of --cells with this label; repeatable.")
@click.option("--subject", default="icpe", show_default=True, help="Label or method to test against the others.")
@click.option(
    "--preset", help="Tuned settings: a name or a .toml file. Methods without settings in it are marked as not tuned."
)
@training_engine_options
@click.option("--keep-checkpoints", is_flag=True, help="Keep the checkpoints of finished runs, which take much space.")
@click.option(
    "--audit",
    "with_audit",
    is_flag=True,
    help="Add a table of the bias metrics of `icpe audit`, measured after training.",
)
@goal_options
@training_options
@json_option
@click.pass_obj
def compare(
    dotted: dict[str, dict[str, Any]],
    /,
    methods: str | None,
    backbones: str | None,
    seeds: str | None,
    output: Path,
    cells: Path | None,
    only: tuple[str, ...],
    subject: str,
    workers: int | None,
    engine: str,
    address: str | None,
    keep_checkpoints: bool,
    with_audit: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train methods on backbones with several seeds and compare the results with statistical tests.

    DATA is the same as for `icpe train`. Dotted flags apply to all methods: --train.epochs 50. One folder receives
    everything: runs, results.parquet with the metrics of every user, and tables as text, Markdown, LaTeX and CSV. The
    same command continues a comparison that was stopped and tries failed runs again.

    Example: icpe compare lastfm --methods normal,macr,icpe --backbones mf --seeds 5 -o cmp
    """
    from icpe.compare.bias import with_bias, write_bias_table
    from icpe.compare.grid import run_grid
    from icpe.report.comparison_sentences import undertrained

    rows, found = _cells(dotted, methods, backbones, cells, only, flags)
    _check_subject(rows, subject, "--methods" if cells is None else str(cells))
    numbers = parse_seeds(seeds) if seeds is not None else found or list(range(5))
    try:
        with comparison_progress(rows, numbers) as show:
            grid = run_grid(
                rows,
                numbers,
                output,
                workers=parse_workers(engine, address, workers),
                on_event=show,
                keep_checkpoints=keep_checkpoints,
                subject=subject,
            )
    except KeyboardInterrupt:
        click.echo(
            f"finished runs and checkpoints are kept in {output}; the same command continues from there", err=True
        )
        raise
    _write_report(grid, subject)
    if with_audit:
        grid = with_bias(grid)
        write_bias_table(grid, subject)
    if as_json:
        print_json(_as_json(grid, subject))
    else:
        click.echo(_as_text(grid, subject))
        for note in (undertrained(grid.results), _left_out(grid)):
            if note:
                click.echo()
                echo_paragraph(note)
    return 1 if grid.failures else 0


def _check_subject(rows: "Sequence[Cell]", subject: str, place: str) -> None:
    """Refuse a subject that the command line names and that is not compared. The default need not be there."""
    from icpe.compare.significance import find_subject
    from icpe.errors import ConfigError

    source = click.get_current_context().get_parameter_source("subject")
    if source is not click.core.ParameterSource.DEFAULT and find_subject(rows, subject) is None:
        compared = ", ".join(dict.fromkeys(cell.method if place == "--methods" else cell.label for cell in rows))
        raise ConfigError(
            f"--subject is {subject!r}, but this command compares {compared}. Name one of these, or add {subject!r} to "
            f"{place}"
        )


def _cells(
    dotted: dict[str, dict[str, Any]],
    methods: str | None,
    backbones: str | None,
    path: Path | None,
    only: Sequence[str],
    flags: dict[str, Any],
) -> tuple[list["Cell"], list[int] | None]:
    from icpe.errors import ConfigError

    if "seed" in dotted.get("train", {}):
        raise ConfigError("--train.seed cannot be combined with a comparison, which has several seeds; use --seeds")
    if (methods is None) == (path is None):
        raise ConfigError("a comparison needs either --methods NAMES or --cells FILE")
    if path is None:
        if only:
            raise ConfigError("--only selects from --cells FILE and cannot be combined with --methods")
        return _from_names(dotted, str(methods), backbones or "mf", flags), None
    for name, value in (("--backbones", backbones), ("--preset", flags["preset"]), ("--config", flags["config"])):
        if value is not None:
            raise ConfigError(f"{name} cannot be combined with --cells; write it into {path} instead")
    return _from_file(dotted, path, only, flags)


def _from_names(dotted: dict[str, dict[str, Any]], methods: str, backbones: str, flags: dict[str, Any]) -> list["Cell"]:
    """Return a cell for each method and backbone, with the settings of the preset if it has some."""
    from icpe.backbones import BACKBONES
    from icpe.cli._declared import check_flags
    from icpe.compare.grid import Cell
    from icpe.compare.names import BASELINES
    from icpe.errors import ConfigError
    from icpe.methods import METHODS

    preset, cells, refused = flags["preset"], [], None
    for backbone in parse_names(backbones, BACKBONES):
        for method in parse_names(methods, METHODS):
            chosen = {**flags, "preset": None, "seed": None}
            label, tuned = METHODS.find(method).label, method in BASELINES
            if tuned:  # a dial would turn popularity and random into each other
                chosen |= {"goal": None, "niche_share": None}
            config = check_flags(dotted, make_config(dotted, method=method, backbone=backbone, **chosen))
            if preset is not None and not tuned:
                asked = config.updated("method", {"preset": preset})
                try:
                    asked.expanded()
                    config, tuned = asked, True
                except ConfigError as error:
                    refused = error
            cells.append(Cell(label, config, tuned))
    if refused is not None and not any(cell.tuned and cell.method not in BASELINES for cell in cells):
        raise refused
    return cells


def _from_file(
    dotted: dict[str, dict[str, Any]], path: Path, only: Sequence[str], flags: dict[str, Any]
) -> tuple[list["Cell"], list[int] | None]:
    """Return the cells of a file, changed by the flags, and the seeds of the file."""
    from icpe.compare.study_file import read_cells
    from icpe.errors import ConfigError
    from icpe.runs.config import SECTIONS

    cells, seeds = read_cells(path)
    labels = [cell.label for cell in cells]
    for label in only:
        if label not in labels:
            raise ConfigError(f"{path} has no cell {label!r}; it has {', '.join(labels)}")
    given = make_config(dotted, method=None, backbone=None, seed=None, **flags)
    changed = []
    for cell in cells:
        if not only or cell.label in only:
            config = replace(cell.config, plugins=given.plugins)
            for section in SECTIONS:
                config = config.updated(section, getattr(given, section))
            changed.append(replace(cell, config=config))
    return changed, seeds


def _write_report(grid: "Grid", subject: str) -> None:
    """Write the page, if matplotlib is installed. A page that fails does not make the comparison fail."""
    from icpe.errors import IcpeError

    if importlib.util.find_spec("matplotlib") is None:
        return
    from icpe.report.pages.comparison import comparison_report

    try:
        comparison_report(grid, grid.folder / "report.html", subject)
    except IcpeError as error:
        click.echo(f"report.html was not written: {error}", err=True)


def _as_text(grid: "Grid", subject: str) -> str:
    from icpe.compare.bias import bias_metrics_of
    from icpe.compare.tables import front_metrics_of, table_of
    from icpe.tables import terminal_width

    width, fronts, bias = terminal_width(), front_metrics_of(grid), bias_metrics_of(grid)
    tables = [table_of(grid, metrics, subject).as_text(width) for metrics in (None, fronts, bias) if metrics != []]
    page = "report.html, " if (grid.folder / "report.html").exists() else ""
    further = "fronts.md, " * bool(fronts) + "bias.md, " * bool(bias)
    files = f"{page}table.md, table.tex, {further}differences.md, results.parquet"
    return "\n".join([*tables, f"Saved in {grid.folder}: {files}"])


def _left_out(grid: "Grid") -> str:
    """Return a sentence about earlier runs in the folder that the tables do not show, or ""."""
    from icpe.runs.folder import RESULT

    shown = {grid.run_folder(cell, seed) for cell in grid.cells for seed in grid.seeds}
    earlier = [path.parent for path in sorted(grid.folder.glob(f"runs/*/{RESULT}")) if path.parent not in shown]
    if not earlier:
        return ""
    runs = "1 earlier run" if len(earlier) == 1 else f"{len(earlier)} earlier runs"
    return (
        f"{grid.folder} also holds {runs} that this command does not name, such as {earlier[0].name}. The tables leave "
        "them out; name them too, or compare in another folder."
    )


def _as_json(grid: "Grid", subject: str) -> dict[str, Any]:
    from icpe.compare.bias import bias_metrics_of
    from icpe.compare.tables import front_metrics_of, metrics_of, table_of

    metrics = [*metrics_of(grid, None), *front_metrics_of(grid), *bias_metrics_of(grid)]
    table = table_of(grid, metrics, subject)
    return {
        "folder": str(grid.folder),
        "seeds": grid.seeds,
        "rows": table.frame().to_dicts(),
        "comparisons": [asdict(one) for one in table.comparisons],
        "caption": table.caption,
        "failures": [asdict(one) for one in grid.failures],
    }
