"""Figure 10 and Table 4: one user's lists, and how popular the items of each cluster are."""

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.coding import positions
from icpe.data.datasets.tags import item_tags
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import IcpeError
from icpe.paper import numbers as paper
from icpe.paper.finding import Claim, Finding
from icpe.paper.setting import BACKBONES, Setting
from icpe.paper.variants import noted
from icpe.recommender import Model
from icpe.recommender.lists import typed_ids
from icpe.rng import stream

_LENGTH = 5
_MOST_TAGS = 3
_RATIO = 1.5  # between neighbours, from which on their popularity is called different; the paper's smallest is 1.3


def case(setting: Setting) -> Finding:
    """Two top-5 lists of one user, with marks, weights and shared tags; mean interactions per cluster."""
    backbone = setting.graph
    cells = [setting.cell("Normal", "normal", backbone), setting.cell("ICPE", "icpe", backbone)]
    grid = setting.run(cells)
    seed, parts = setting.seeds[0], setting.parts
    models = {cell.label: setting.model(grid, cell, seed) for cell in cells}
    if None in models.values():
        raise IcpeError("the case study compares Normal and ICPE, and one of them could not be trained")
    user = _user(setting, parts.train, parts.test)
    tags = item_tags(parts.train, setting.dataset, setting.base.data.get("data_dir"))
    lists = pl.concat(
        [_listed(label, model, user, parts.test, tags) for label, model in models.items() if model is not None]
    )
    history = _history(models["ICPE"], user)
    sizes = _cluster_table(setting, [noted(grid.run_folder(cells[1], one)) for one in grid.seeds])
    found = {label: lists.filter(label=label) for label in models}
    niche = {label: int((~rows["head"]).sum()) for label, rows in found.items()}
    hits = {label: int(rows["in_test"].sum()) for label, rows in found.items()}
    common = len(set(found["Normal"][col.ITEM].to_list()) & set(found["ICPE"][col.ITEM].to_list()))
    claims = [
        Claim(
            "for one user, ICPE's list of five has niche items where Normal's has none, and the lists share several.",
            f"user {user}: {niche['Normal']} niche items with Normal, {niche['ICPE']} with ICPE, {common} in both; "
            f"{hits['Normal']} and {hits['ICPE']} are in the test part. One user proves nothing.",
            niche["ICPE"] > niche["Normal"] and common > 1,
        ),
        *_cluster_claims(setting, sizes),
    ]
    title = f"One user's lists on {BACKBONES[backbone]}, and the clusters (paper Fig. 10, Table 4)"
    return Finding("case", title, claims, setting.caption(grid), {"case": lists, "history": history, "sizes": sizes})


def _user(setting: Setting, train: Interactions, test: Interactions) -> Any:
    """Whose lists: the one asked for, or one drawn from those with a test item."""
    if setting.user is not None:
        return typed_ids([setting.user], train.users, "user")[0]
    eligible = np.flatnonzero(test.user_counts)
    return train.users[int(stream(setting.seeds[0], "case").choice(eligible))]


def _listed(label: str, model: Model, user: Any, test: Interactions, tags: dict[Any, set[str]]) -> pl.DataFrame:
    log = model.log
    listed = model.recommend([user], _LENGTH)
    codes = positions(listed[col.ITEM], log.items)
    code = positions(pl.Series([user], dtype=log.users.dtype), log.users)[0]
    own = [log.items[int(item)] for item in log.item[log.user == code]]
    mine: set[str] = set().union(*(tags.get(item, set()) for item in own))
    wanted = set(test.item[test.user == code].tolist())
    shared = [", ".join(sorted(tags.get(item, set()) & mine)[:_MOST_TAGS]) for item in listed[col.ITEM]]
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
    """What the user has used in training, with the weight ICPE gives each item."""
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


def _cluster_table(setting: Setting, runs: list[list[dict[str, Any]]]) -> pl.DataFrame:
    """``seed, cluster, items, interactions, weight`` at the last validation of each run."""
    rows = [
        {"seed": seed, "cluster": number, "items": size, "interactions": popularity, "weight": weight}
        for seed, curve in zip(setting.seeds, runs, strict=True)
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


def _cluster_claims(setting: Setting, sizes: pl.DataFrame) -> list[Claim]:
    if sizes.is_empty():
        return []
    mean = sizes.group_by("cluster").agg(pl.col("interactions").mean()).sort("cluster")["interactions"].to_list()
    printed = [
        paper.value("Table 4", setting.dataset, "lightgcn", "ICPE", f"interactions of cluster {number}")
        for number in range(1, 5)
    ]
    theirs = f" ({' / '.join(f'{one:.1f}' for one in printed if one is not None)})" if None not in printed else ""
    ratios = [one / other for one, other in pairwise(mean) if other]
    return [
        Claim(
            f"clusters differ clearly in the mean number of interactions of an item{theirs}.",
            f"{' / '.join(f'{one:.1f}' for one in mean)}; the smallest ratio of neighbours is "
            f"{min(ratios, default=1.0):.2f}.",
            len(ratios) > 0 and min(ratios) >= _RATIO,
        )
    ]
