"""The numbers the paper prints, as data."""

from functools import cache
from importlib.resources import files

import polars as pl

# The paper's data sets, by the names of the catalogue.
DATASETS = ("lastfm", "gowalla", "yelp2018")


@cache
def printed() -> pl.DataFrame:
    """All of them: ``table, dataset, backbone, label, metric, value``.

    Example:
        >>> printed()["table"].unique().sort().to_list()
        ['Table 1', 'Table 2', 'Table 3', 'Table 4']
    """
    content = files("icpe.paper").joinpath("numbers.csv").read_bytes()
    return pl.read_csv(content)


def of_table(table: str, dataset: str) -> pl.DataFrame:
    """What a table says of a data set: ``backbone, label`` and a column per metric; empty for other data.

    Example:
        >>> of_table("Table 1", "lastfm").filter(backbone="mf", label="ICPE")["ndcg@20"].item()
        0.0387
    """
    rows = printed().filter(table=table, dataset=dataset)
    return rows.pivot("metric", index=["backbone", "label"], values="value")


def value(table: str, dataset: str, backbone: str, label: str, metric: str) -> float | None:
    """One number, or None where the paper has none."""
    found = printed().filter(table=table, dataset=dataset, backbone=backbone, label=label, metric=metric)["value"]
    return float(found.item()) if len(found) else None
