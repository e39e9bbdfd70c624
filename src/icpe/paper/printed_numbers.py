"""The numbers printed in the paper's tables."""

from functools import cache
from importlib.resources import files

import polars as pl

# The paper's data sets, by their names in the catalogue.
DATASETS = ("lastfm", "gowalla", "yelp2018")


@cache
def all_numbers() -> pl.DataFrame:
    """All printed numbers: ``table, dataset, backbone, label, metric, value``.

    Example:
        >>> all_numbers()["table"].unique().sort().to_list()
        ['Table 1', 'Table 2', 'Table 3', 'Table 4']
    """
    content = files("icpe.paper").joinpath("printed_numbers.csv").read_bytes()
    return pl.read_csv(content)


def printed_table(table: str, dataset: str) -> pl.DataFrame:
    """Rows of a printed table for one data set: ``backbone, label`` and a column per metric. Empty for other data.

    Example:
        >>> printed_table("Table 1", "lastfm").filter(backbone="mf", label="ICPE")["ndcg@20"].item()
        0.0387
    """
    rows = all_numbers().filter(table=table, dataset=dataset)
    return rows.pivot("metric", index=["backbone", "label"], values="value")


def printed_value(table: str, dataset: str, backbone: str, label: str, metric: str) -> float | None:
    """A single printed number, or None if the paper does not have it."""
    found = all_numbers().filter(table=table, dataset=dataset, backbone=backbone, label=label, metric=metric)["value"]
    return float(found.item()) if len(found) else None
