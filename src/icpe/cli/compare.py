"""``icpe compare``: methods × backbones × seeds side by side."""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._compare_shown import shown
from icpe.cli.dotted import DottedCommand
from icpe.cli.options import (
    config_option,
    depths_option,
    device_option,
    json_option,
    print_json,
    reading_options,
    split_options,
    test_option,
    train_option,
    valid_option,
    workers_option,
)
from icpe.cli.train import make_config

if TYPE_CHECKING:
    from icpe.compare.grid import Cell, Grid

__all__ = ["compare", "parse_seeds", "shown"]


@click.command(cls=DottedCommand)
@click.argument("data", required=False)
@click.option("--methods", help="Names with commas between, or all.")
@click.option("--backbones", help="Names with commas between, or all. Default: mf.")
@click.option("--seeds", help="How many (5 means 0 to 4), or which: 0-4, 0,3,7. Default: 5, or those of --cells.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder of the comparison.")
@click.option("--cells", type=click.Path(path_type=Path), help="A TOML file with what to compare, for --methods.")
@click.option("--only", multiple=True, help="Of --cells, those with this label; repeatable.")
@click.option("--subject", default="icpe", show_default=True, help="Label or method that is tested against the others.")
@click.option("--preset", help="Tuned settings by name or .toml file; methods it does not have are marked as untuned.")
@workers_option
@click.option("--storage", help="A database by its URL, through which several machines share the runs.")
@click.option("--keep-checkpoints", is_flag=True, help="Of finished runs too; they take much space.")
@device_option
@config_option
@train_option
@valid_option
@test_option
@split_options
@depths_option
@reading_options
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
    workers: int,
    storage: str | None,
    keep_checkpoints: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Train methods on backbones with several seeds, and compare them with tests.

    DATA is as of `icpe train`, and dotted flags are settings of all: --train.epochs 50. Everything goes into one
    folder: runs, results.parquet with the values of every user, tables as text, Markdown, LaTeX and CSV. A comparison
    that was stopped goes on when the same command is given again; runs that failed are tried again then.

    Example: icpe compare lastfm --methods normal,macr,icpe --backbones mf --seeds 5 -o cmp
    """
    from icpe.compare.grid import run_grid

    rows, found = _cells(dotted, methods, backbones, cells, only, flags)
    numbers = parse_seeds(seeds) if seeds is not None else found or list(range(5))
    try:
        with shown(rows, numbers) as show:
            grid = run_grid(
                rows,
                numbers,
                output,
                workers=workers,
                storage=storage,
                on_event=show,
                keep_checkpoints=keep_checkpoints,
                subject=subject,
            )
    except KeyboardInterrupt:
        click.echo(f"all that was trained is kept in {output}; the same command goes on from there", err=True)
        raise
    _write_report(grid, subject)
    if as_json:
        print_json(_as_json(grid, subject))
    else:
        click.echo(_as_text(grid, subject))
    return 1 if grid.failures else 0


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
        raise ConfigError("a comparison has several seeds: give --seeds, and leave --train.seed out")
    if (methods is None) == (path is None):
        raise ConfigError("what shall be compared? Give --methods NAMES or --cells FILE, one of them")
    if path is None:
        if only:
            raise ConfigError("--only chooses from --cells FILE; here --methods says what is compared")
        return _from_names(dotted, str(methods), backbones or "mf", flags), None
    for name, value in (("--backbones", backbones), ("--preset", flags["preset"]), ("--config", flags["config"])):
        if value is not None:
            raise ConfigError(f"{name} goes with --methods; {path} says itself what its cells are")
    return _from_file(dotted, path, only, flags)


def _from_names(dotted: dict[str, dict[str, Any]], methods: str, backbones: str, flags: dict[str, Any]) -> list["Cell"]:
    """One for each method and backbone; settings of the preset where it has them."""
    from icpe.backbones import BACKBONES
    from icpe.compare.grid import Cell
    from icpe.compare.tables import FLOORS
    from icpe.errors import ConfigError
    from icpe.methods import METHODS, find_method

    preset, cells, refused = flags["preset"], [], None
    for backbone in _names(backbones, BACKBONES):
        for method in _names(methods, METHODS):
            chosen = {**flags, "preset": None, "seed": None}
            label, tuned = find_method(method).label, method in FLOORS
            config = make_config(dotted, method=method, backbone=backbone, **chosen)
            if preset is not None and not tuned:
                asked = config.updated("method", {"preset": preset})
                try:
                    asked.expanded()
                    config, tuned = asked, True
                except ConfigError as error:
                    refused = error
            cells.append(Cell(label, config, tuned))
    if refused is not None and not any(cell.tuned and cell.method not in FLOORS for cell in cells):
        raise refused
    return cells


def _from_file(
    dotted: dict[str, dict[str, Any]], path: Path, only: Sequence[str], flags: dict[str, Any]
) -> tuple[list["Cell"], list[int] | None]:
    """Cells of a file, with what the flags say of all."""
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
            config = cell.config
            for section in SECTIONS:
                config = config.updated(section, getattr(given, section))
            changed.append(replace(cell, config=config))
    return changed, seeds


def _names(text: str, known: dict[str, Any]) -> list[str]:
    return list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]


def parse_seeds(text: str) -> list[int]:
    """Seeds from ``5`` (so many), ``0-4`` or ``0,3,7``.

    Example:
        >>> parse_seeds("3"), parse_seeds("2-4"), parse_seeds("0,3,7"), parse_seeds("7,")
        ([0, 1, 2], [2, 3, 4], [0, 3, 7], [7])
    """
    from icpe.errors import ConfigError

    if text.strip().isdecimal():
        if int(text) == 0:
            raise ConfigError("--seeds is 0, which is no seed at all; a number alone says how many (for seed 0: 0-0)")
        return list(range(int(text)))
    seeds: list[int] = []
    for piece in (piece.strip() for piece in text.split(",") if piece.strip()):
        first, _, last = piece.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise ConfigError(f"--seeds is {text!r}; expected a number such as 5, or seeds such as 0-4 or 0,3,7")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _write_report(grid: "Grid", subject: str) -> None:
    """The page, where matplotlib is there; without it, or if something is wrong with it, the tables are enough."""
    from icpe.errors import IcpeError

    if importlib.util.find_spec("matplotlib") is None:
        return
    from icpe.report.comparison import comparison_report

    try:
        comparison_report(grid, grid.folder / "report.html", subject)
    except IcpeError as error:
        click.echo(f"no report.html: {error}", err=True)


def _as_text(grid: "Grid", subject: str) -> str:
    from icpe.compare.tables import table_of

    left = len(grid.cells) * len(grid.seeds) - grid.results.height - len(grid.failures)
    lines = [table_of(grid, subject=subject).as_text()]
    if left:
        lines.append(
            f"{left} runs are done or on their way on other machines: copy their runs/ into {grid.folder / 'runs'} and "
            "give the command again\n"
        )
    page = "report.html, " if (grid.folder / "report.html").exists() else ""
    files = f"{page}table.md, table.tex, differences.md, results.parquet"
    return "\n".join([*lines, f"Everything is in {grid.folder}: {files}"])


def _as_json(grid: "Grid", subject: str) -> dict[str, Any]:
    from icpe.compare.tables import table_of

    table = table_of(grid, subject=subject)
    return {
        "folder": str(grid.folder),
        "seeds": grid.seeds,
        "rows": table.frame().to_dicts(),
        "comparisons": [asdict(one) for one in table.comparisons],
        "caption": table.caption,
        "failures": [asdict(one) for one in grid.failures],
    }
