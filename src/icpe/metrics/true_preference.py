"""Recall of the items that people truly prefer, which only a generated world knows."""

import math

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.world import World
from icpe.metrics.evaluation import evaluate, evaluate_lists
from icpe.ranking import Lists, ScoreTable
from icpe.split.parts import recode


def true_recall(
    recommendations: ScoreTable | Lists, world: World, train: Interactions, n: int = 20
) -> dict[str, float | None]:
    """``recall@n``, ``recall_head@n`` and ``recall_niche@n`` of each user's n truly most preferred items.

    Items of the world's log do not count as preferred. A score table is ranked without them; lists are taken as they
    are and should not contain them. A value is None when there is nothing to average.

    Args:
        recommendations: The scores of a model, or finished lists in the codes of ``train``.
        world: The generated world.
        train: The training part of its log, which decides what is head and niche.
        n: Length of the lists and number of preferred items.
    """
    wanted = recode(world.wanted(n).select(col.USER, col.ITEM), train)
    if isinstance(recommendations, Lists):
        values = evaluate_lists(recommendations, wanted, train, [n]).values
    else:
        values = evaluate(recommendations, wanted, train, [world.log], [n]).values
    found = {name: values[name] for name in (f"recall@{n}", f"recall_head@{n}", f"recall_niche@{n}")}
    return {name: None if math.isnan(value) else value for name, value in found.items()}
