"""Figure 10 and Table 4: the lists of one user, and the popularity of the items of each cluster."""

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.datasets import item_tags
from icpe.data.interactions import Interactions
from icpe.data.lookup import positions
from icpe.data.popularity import head_mask
from icpe.errors import IcpeError
from icpe.paper.finding import Claim, Finding
from icpe.paper.printed_numbers import printed_value
from icpe.paper.reproduction import BACKBONES, Reproduction
from icpe.paper.studies.niche_weights import icpe_records
from icpe.recommender import Model
from icpe.recommender.ids import parse_ids
from icpe.rng import stream

_LENGTH = 5
_TAGS_SHOWN = 3
_RATIO = 1.5  # of neighbouring clusters that "differ clearly" in popularity; the smallest ratio in the paper is 1.3


def case(reproduction: Reproduction) -> Finding:
    """Figure 10 and Table 4: two top-5 lists of one user, and the mean popularity of items in each cluster."""
    backbone = reproduction.main_backbone
    cells = [reproduction.cell("Normal", "normal", backbone), reproduction.cell("ICPE", "icpe", backbone)]
    grid = reproduction.run(cells)
    seed, parts = reproduction.seeds[0], reproduction.parts
    models = {cell.label: reproduction.model(grid, cell, seed) for cell in cells}
    if None in models.values():
        raise IcpeError("the case study needs a run of Normal and a run of ICPE, but one of them could not be trained")
    user = _user(reproduction, parts.train, parts.test)
    tags = item_tags(parts.train, reproduction.dataset, reproduction.base.data.get("data_dir"))
    lists = pl.concat(
        [_listed(label, model, user, parts.test, tags) for label, model in models.items() if model is not None]
    )
    history = _history(models["ICPE"], user)
    sizes = _cluster_table(reproduction, [icpe_records(grid.run_folder(cells[1], one)) for one in grid.seeds])
    found = {label: lists.filter(label=label) for label in models}
    niche = {label: int((~rows["head"]).sum()) for label, rows in found.items()}
    hits = {label: int(rows["in_test"].sum()) for label, rows in found.items()}
    common = len(set(found["Normal"][col.ITEM].to_list()) & set(found["ICPE"][col.ITEM].to_list()))
    claims = [
        Claim(
            "for one user, ICPE's top five have niche items while Normal's have none, and both lists share items.",
            f"user {user}: {niche['Normal']} niche items with Normal, {niche['ICPE']} with ICPE, {common} in both; "
            f"{hits['Normal']} and {hits['ICPE']} are in the test part. A single user proves nothing.",
            niche["ICPE"] > niche["Normal"] and common > 1,
        ),
        *cluster_claims(reproduction.dataset, sizes),
    ]
    title = f"Lists of one user on {BACKBONES[backbone]}, and the clusters (paper Fig. 10, Table 4)"
    return Finding(
        "case", title, claims, reproduction.caption(grid), {"case": lists, "history": history, "sizes": sizes}
    )


def _user(reproduction: Reproduction, train: Interactions, test: Interactions) -> Any:
    """The requested user, or a random user with a test item."""
    if reproduction.user is not None:
        return parse_ids([reproduction.user], train.users, "user")[0]
    eligible = np.flatnonzero(test.user_counts)
    return train.users[int(stream(reproduction.seeds[0], "case").choice(eligible))]


def _listed(label: str, model: Model, user: Any, test: Interactions, tags: dict[Any, set[str]]) -> pl.DataFrame:
    log = model.log
    listed = model.recommend([user], _LENGTH)
    codes = positions(listed[col.ITEM], log.items)
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    own = [log.items[int(item)] for item in log.item[log.user == code]]
    mine: set[str] = set().union(*(tags.get(item, set()) for item in own))
    wanted = set(test.item[test.user == code].tolist())
    shared = [", ".join(sorted(tags.get(item, set()) & mine)[:_TAGS_SHOWN]) for item in listed[col.ITEM]]
    return pl.DataFrame(
        {
            "label": [label] * len(listed),
            col.USER: listed[col.USER],
            col.RANK: listed[col.RANK],
            col.ITEM: listed[col.ITEM],
            col.NAME: log.item_names(listed[col.ITEM]).cast(pl.String),
            "head": head_mask(log.item_counts)[codes],
            "popularity": log.item_counts[codes],
            "in_test": [int(one) in wanted for one in codes],
            "shared_tags": shared,
        }
    )


def _history(model: Model | None, user: Any) -> pl.DataFrame:
    """Training items of the user, with the weight that ICPE gives each of them."""
    assert model is not None
    log: Interactions = model.log
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    items = log.item[log.user == code]
    weight = getattr(getattr(model.method, "clusters", None), "item_weight", None)
    frame = pl.DataFrame(
        {
            col.ITEM: log.items.gather(items),
            col.NAME: log.item_names(log.items.gather(items)).cast(pl.String),
            "head": head_mask(log.item_counts)[items],
            "popularity": log.item_counts[items],
            "weight": np.full(len(items), np.nan) if weight is None else weight.double().numpy()[items],
        }
    )
    return frame.sort("popularity", descending=True)


def _cluster_table(reproduction: Reproduction, runs: list[list[dict[str, Any]]]) -> pl.DataFrame:
    """Frame ``seed, cluster, items, interactions, weight`` at the last validation of each run."""
    rows = [
        {"seed": seed, "cluster": number, "items": size, "interactions": popularity, "weight": weight}
        for seed, curve in zip(reproduction.seeds, runs, strict=True)
        if curve
        for number, (size, popularity, weight) in enumerate(
            zip(curve[-1]["size"], curve[-1]["popularity"], curve[-1]["weight"], strict=True), 1
        )
    ]
    return pl.DataFrame(
        rows,
        schema={
            "seed": pl.Int64,
            "cluster": pl.Int64,
            "items": pl.Int64,
            "interactions": pl.Float64,
            "weight": pl.Float64,
        },
    )


def cluster_claims(dataset: str, sizes: pl.DataFrame) -> list[Claim]:
    """Claim that neighbouring clusters differ in popularity. Empty without clusters.

    Args:
        dataset: name of the data set, used to look up the paper's numbers.
        sizes: ``cluster, interactions``, the mean number of interactions of an item, for each seed.
    """
    if sizes.is_empty():
        return []
    mean = sizes.group_by("cluster").agg(pl.col("interactions").mean()).sort("cluster")["interactions"].to_list()
    printed = [
        printed_value("Table 4", dataset, "lightgcn", "ICPE", f"interactions of cluster {number}")
        for number in range(1, 5)
    ]
    theirs = f" ({' / '.join(f'{one:.1f}' for one in printed if one is not None)})" if None not in printed else ""
    ratios = [one / other for one, other in pairwise(mean) if other]
    return [
        Claim(
            f"clusters differ clearly in the mean number of interactions per item{theirs}.",
            f"{' / '.join(f'{one:.1f}' for one in mean)}; the smallest ratio of neighbouring clusters is "
            f"{min(ratios, default=1.0):.2f}.",
            len(ratios) > 0 and min(ratios) >= _RATIO,
        )
    ]
