"""Lists against what people truly want, which only a generated world knows."""

import math

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.world.world import World
from icpe.recommender import Model, evaluate_part
from icpe.report.table import GROUPS
from icpe.split.parts import recode

MEANING = (
    "True Recall@{n} asks not what people happened to use next but what they would like: of the {n} items a user would "
    "truly like best among those not in the log, the share that is in the list of {n}; for head and niche items, of "
    "those among the {n} that are head or niche, averaged over the users who have any."
)


def true_recall(model: Model, world: World, train: Interactions, n: int = 20) -> dict[str, float | None]:
    """``recall@n``, ``recall_head@n`` and ``recall_niche@n`` of each user's n truly best-liked items not in the log.

    Lists leave out what is in the log too. None stands where there is nothing to average.

    Args:
        model: trained on ``train``.
        world: whose log was split.
        train: its training part, which tells head from niche.
        n: length of the lists, and number of items wanted.
    """
    wanted = recode(world.wanted(n).select(col.USER, col.ITEM), train)
    values = evaluate_part(model, wanted, train, [world.log], [n]).values
    found = {name: values[name] for name in (f"recall{end}@{n}" for end in GROUPS.values())}
    return {name: None if math.isnan(value) else value for name, value in found.items()}
