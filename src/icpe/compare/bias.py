"""The bias metrics of an audit for all runs of a comparison, on demand."""

from dataclasses import replace

import polars as pl

from icpe.compare._files import write_table
from icpe.compare._state import Grid
from icpe.compare.tables import table_of
from icpe.recommender.evaluation import evaluate_part
from icpe.runs.load import load
from icpe.runs.measure import without_nan

BIAS_METRICS = (
    "weighted_apt",
    "entropy",
    "amplification",
    "pop_rsp",
    "pop_reo",
    "popularity_lift",
    "popularity_lift_niche_users",
    "popularity_lift_blockbuster_users",
    "popularity_jsd",
    "ee_l",
    "recall_niche_users",
    "recall_blockbuster_users",
)


def with_bias(grid: Grid) -> Grid:
    """Return the grid with the bias metrics of every finished run, which are measured on the saved models."""
    rows = []
    for cell, seed in grid.finished():
        config = cell.run_config(seed)
        model = load(grid.run_folder(cell, seed), plugins=config.plugins)
        found = without_nan(evaluate_part(model, config.open_parts(), "test", config.depths, bias=True).values)
        chosen = {f"{name}@{n}": found[f"{name}@{n}"] for n in config.depths for name in BIAS_METRICS}
        rows.append({"label": cell.label, "backbone": cell.backbone, "seed": seed, **chosen})
    if not rows:
        return grid
    measured = pl.DataFrame(rows, infer_schema_length=None)
    return replace(grid, results=grid.results.join(measured, on=["label", "backbone", "seed"], how="left"))


def bias_metrics_of(grid: Grid) -> list[str]:
    """The bias metrics in the results at their first list length; none unless :func:`with_bias` added them."""
    known = [name for name in grid.results.columns if name.partition("@")[0] in BIAS_METRICS]
    return [name for name in known if name.partition("@")[2] == known[0].partition("@")[2]]


def write_bias_table(grid: Grid, subject: str | None) -> None:
    """Write the table of the bias metrics, ``bias.md`` and so on, into the folder of the comparison."""
    if metrics := bias_metrics_of(grid):
        write_table(table_of(grid, metrics, subject), grid.folder, "bias")
