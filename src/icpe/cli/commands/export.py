"""``icpe export``: the model of a run in formats that other systems read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icpe.cli._ranking import RankingCommand, parse_ranking
from icpe.cli.options import RunFolder, beta_option, json_option, known_plugin_option, print_json

if TYPE_CHECKING:
    from icpe.export import Export
    from icpe.recommender.model import Model


@click.command(cls=RankingCommand)
@click.argument("run", type=RunFolder())
@click.option(
    "--to",
    "kind",
    type=click.Choice(["vectors", "faiss", "onnx"]),
    required=True,
    help="Vectors as Parquet and safetensors, a Faiss index, or one ONNX graph that returns lists.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the export.")
@click.option(
    "--index",
    type=click.Choice(["flat", "hnsw"]),
    help="Kind of the Faiss index: flat is exact; hnsw is faster and misses a few items. Default: flat up to 200,000 "
    "items.",
)
@click.option(
    "-n",
    "n",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Length of the lists for which the recall of hnsw is measured.",
)
@beta_option
@click.option("--force", is_flag=True, help="Replace an export in the folder.")
@known_plugin_option
@json_option
@click.pass_obj
def export(
    dotted: dict[str, dict[str, Any]],
    /,
    run: Path,
    kind: str,
    output: Path,
    index: Any,
    n: int,
    beta: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Export the model of a run for another system: vectors, a Faiss index or an ONNX graph.

    The dial stays free: with vectors and Faiss, the last coordinate of a query is its setting, and the ONNX graph takes
    it as an input. --beta is only the setting that the exported users begin with.

    Example: icpe export run --to vectors -o vectors
    """
    from icpe.errors import ConfigError
    from icpe.runs.load import load

    if index is not None and kind != "faiss":
        raise ConfigError(f"--index is for --to faiss; leave it out with --to {kind}")
    settings = parse_ranking(run, dotted, beta)
    model = load(run)
    done = _export(model.adjusted(**settings) if settings else model, kind, output, index, n, force)
    if as_json:
        print_json({"folder": str(done.folder), "files": list(done.files), **done.description})
    else:
        click.echo("\n".join(_as_lines(done)))


def _export(model: "Model", kind: str, output: Path, index: Any, n: int, force: bool) -> "Export":
    from icpe.cli.progress import progress_bar
    from icpe.export import to_faiss, to_onnx, to_vectors

    if kind == "vectors":
        return to_vectors(model, output, force=force)
    if kind == "onnx":
        return to_onnx(model, output, force=force)
    with progress_bar("items") as report:
        return to_faiss(model, output, index=index, n=n, force=force, progress=report)


def _as_lines(done: "Export") -> list[str]:
    """Return what was exported, and how to use it."""
    said = done.description
    lines = [f"{said['users']:,} users and {said['items']:,} items in {done.folder}: {', '.join(done.files)}"]
    dial = said["dial"]
    lines.append(f"The dial is at {dial['beta']:g}. {dial['rule']}")
    if "recall" in said:
        for one in said["recall"]["at"]:
            setting, (name, value) = one["beta"], next((k, v) for k, v in one.items() if k != "beta")
            lines.append(
                f"{name} of the index with the dial at {setting:g}: {value:.3f} ({said['recall']['users']} users)"
            )
    return lines
