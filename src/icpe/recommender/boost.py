"""Meeting a wish at the least loss of NDCG, by the dial and a boost of all niche items together.

Turning the dial takes places from popular items in favour of less popular ones, on either side of the border between
head and niche items. A boost lifts all niche items alike and leaves the order on both sides as it is. So the same niche
share costs less NDCG on ordinary traffic, but the places go to the best-known niche items.
"""

from collections.abc import Iterator

import numpy as np
import torch

from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import with_bias
from icpe.recommender.dial import Wish, setting_that_keeps
from icpe.recommender.front import SETTING, SHARES, Front
from icpe.recommender.validation import Validator
from icpe.train.dial import dial_direction, niche_direction
from icpe.train.method import TrainingMethod

_TRIED = (
    5  # settings of the dial to which boosts are added: the most accurate one, and the next ones towards head items
)
_AROUND = 0.05  # boosts are measured at the wished niche share and this far from it


@torch.no_grad()
def boosted_setting(validator: Validator, method: TrainingMethod, wish: Wish) -> tuple[float, float]:
    """Return the setting of the dial and the boost that meet a wish at the least loss, measured on validation data.

    A boost of 0 is one of the choices. A boost that the method has already does not count.

    Args:
        validator: what measures fronts on the validation part.
        method: the trained method, in evaluation mode.
        wish: a niche share, or the share of the best NDCG to keep.

    Raises:
        ConfigError: neither the dial nor a boost reaches the wished niche share.
    """
    scores, direction = method.scores(), dial_direction(method, validator.train)
    placed = validator.settings_for(SHARES, scores, direction).values()
    front = validator.meter.front(scores, direction, [*placed, 0.0], validator.hide)
    enough = (wish.keep or 0.0) * float(front["ndcg"].max())
    found = []
    for beta, curve in _curves(validator, method, front, wish):
        if wish.niche_share is None and curve["ndcg"].max() >= enough:
            setting = setting_that_keeps(curve, enough)
        elif wish.niche_share is not None and curve["apt"].min() <= wish.niche_share <= curve["apt"].max():
            setting = wish.choose(curve)
        else:
            continue
        choice = (setting, 0.0) if beta is None else (beta, -setting)
        found.append((curve.at(setting)["apt" if wish.niche_share is None else "ndcg"], choice))
    if not found:
        wish.choose(front)  # raises an error that names the reach of the dial
    return max(found)[1]


def _curves(
    validator: Validator, method: TrainingMethod, front: Front, wish: Wish
) -> Iterator[tuple[float | None, Front]]:
    """Yield the front of the dial with None, then fronts of boosts, each with the setting of the dial it belongs to.

    The settings of these are boosts with a minus sign: as along the dial, larger settings mean fewer niche items.
    """
    yield None, front
    scores, direction = method.scores(), dial_direction(method, validator.train)
    lowered = -niche_direction(method, validator.train)
    share = wish.niche_share
    shares = SHARES if share is None else [min(max(share + step, 0.0), 1.0) for step in (-_AROUND, 0.0, _AROUND)]
    best = int(np.argmax(front["ndcg"]))
    for beta in front[SETTING][best : best + _TRIED].tolist():
        table = with_bias(scores, item_bias(direction, beta))
        placed = validator.settings_for(shares, table, lowered).values()
        boosts = [setting for setting in placed if setting < 0]
        yield beta, validator.meter.front(table, lowered, [*boosts, 0.0], validator.hide)
