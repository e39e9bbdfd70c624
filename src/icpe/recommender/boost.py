"""Meeting a wish at the least loss of NDCG, by the dial and a boost of all niche items together.

Turning the dial takes places from popular items in favour of less popular ones, on either side of the border between
head and niche items. A boost lifts all niche items alike and leaves the order on both sides as it is. So the same niche
share costs less NDCG on ordinary traffic, but the places go to the best-known niche items.
"""

from collections.abc import Iterator

import numpy as np
import torch

from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import ScoreTable, with_bias
from icpe.recommender.dial import Wish, setting_that_keeps
from icpe.recommender.front import SETTING, SHARES, Front
from icpe.recommender.validation import Validator
from icpe.train.dial import dial_direction, niche_direction
from icpe.train.method import TrainingMethod
from icpe.types import FloatArray

# Settings of the dial to which boosts are added: the most accurate one, and the next ones towards head items.
_TRIED = 5
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
    boosts = _boosts(validator, scores, direction, -niche_direction(method, validator.train), front, wish)
    for beta, curve in [(None, front), *boosts]:
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


def _boosts(
    validator: Validator, scores: ScoreTable, direction: FloatArray, lowered: FloatArray, front: Front, wish: Wish
) -> Iterator[tuple[float, Front]]:
    """Yield settings of the dial, each with a front of boosts.

    Args:
        validator: what measures fronts on the validation part.
        scores: the scores without dial and boost.
        direction: the direction of the dial.
        lowered: the direction of the boost with a minus sign. A setting along it is a boost with a minus sign, too, so
            that larger settings mean fewer niche items, as they do along the dial.
        front: the front of the dial alone.
        wish: what to reach.
    """
    share = wish.niche_share
    shares = SHARES if share is None else [min(max(share + step, 0.0), 1.0) for step in (-_AROUND, 0.0, _AROUND)]
    best = int(np.argmax(front["ndcg"]))
    for beta in front[SETTING][best : best + _TRIED].tolist():
        table = with_bias(scores, item_bias(direction, beta))
        placed = validator.settings_for(shares, table, lowered).values()
        settings = [setting for setting in placed if setting < 0]
        yield beta, validator.meter.front(table, lowered, [*settings, 0.0], validator.hide)
