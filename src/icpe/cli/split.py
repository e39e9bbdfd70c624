"""``icpe split``: train, validation and test parts with a manifest."""

from pathlib import Path
from typing import Any

import click

from icpe.cli.options import data_options, json_option, open_data, print_json, seed_option


def split_options(command: Any) -> Any:
    """Add the options that choose and set a split."""
    for decorate in reversed(
        (
            click.option(
                "--split",
                "kind",
                type=click.Choice(["unbiased", "chronological", "random"]),
                default="unbiased",
                show_default=True,
                help="Kind of split.",
            ),
            click.option(
                "--split.mode",
                "mode",
                type=click.Choice(["item_quota", "ips"]),
                help="Of the unbiased split. Default: item_quota.",
            ),
            click.option("--split.cap", "cap", type=float, help="Of mode ips: percentile that limits the weights."),
            click.option(
                "--split.train", "train", type=float, default=0.8, show_default=True, help="Share for training."
            ),
            click.option(
                "--split.valid",
                "valid",
                type=float,
                default=0.1,
                show_default=True,
                help="Share for validation; the rest is test.",
            ),
            seed_option,
        )
    ):
        command = decorate(command)
    return command


def make_split(log: Any, kind: str, mode: str | None, cap: float | None, train: float, valid: float, seed: int) -> Any:
    """The parts that the options of :func:`split_options` describe."""
    from icpe import split as splits
    from icpe.errors import ConfigError

    if kind != "unbiased" and (mode is not None or cap is not None):
        raise ConfigError(f"--split.mode and --split.cap belong to the unbiased split, not to {kind!r}")
    if kind == "chronological":
        return splits.chronological(log, train=train, valid=valid)
    if kind == "random":
        return splits.random(log, seed, train=train, valid=valid)
    return splits.unbiased(log, seed, mode=mode or "item_quota", train=train, valid=valid, cap=cap)  # type: ignore[arg-type]


@click.command()
@data_options
@split_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for train, valid and test as Parquet and split.json.",
)
@click.option("--force", is_flag=True, help="Replace a split that is there.")
@json_option
def split(
    kind: str,
    mode: str | None,
    cap: float | None,
    train: float,
    valid: float,
    seed: int,
    output: Path | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Cut a log into training, validation and test data.

    The unbiased split spreads held-out interactions evenly over items, so that showing everyone the hits does not pay.

    Example: icpe split events.csv --k-core 10 --seed 0 -o parts
    """
    parts = make_split(open_data(**options), kind, mode, cap, train, valid, seed)
    if output is not None:
        parts.save(output, force)
    if as_json:
        print_json(parts.manifest)
    else:
        click.echo(parts.as_text())
        if output is not None:
            click.echo(f"\n  written to {output}")
