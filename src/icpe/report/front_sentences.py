"""Sentences that say what a setting of the dial costs."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from icpe.recommender.front import Front

_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)  # niche shares whose price is named
_DEAR = 0.1  # share of the best accuracy from which a loss is worth a warning


def describe_choice(front: "Front", beta: float, part: str = "validation") -> str:
    r"""Return a sentence with the setting, its accuracy and exposure, and the price of more places for niche items.

    Args:
        front: the front of a model.
        beta: the setting.
        part: name of the part that the front was measured on.

    Example:
        >>> import polars as pl
        >>> from icpe.recommender.front import MEASURES, Front
        >>> columns = {name: [0.1, 0.4] for name in MEASURES} | {"apt": [0.5, 0.1]}
        >>> front = Front(pl.DataFrame({"beta": [0.0, 1.0]} | columns), 20, 500.0)
        >>> print(describe_choice(front, 1.0).replace(". ", ".\n"))
        The dial is at beta 1: NDCG .4000 on the validation part, with 10 % of the places for niche items.
        20 % of the places would cost 19 % of this NDCG, 40 % would cost 56 %.
    """
    here, best = front.at(beta), int(np.argmax(front["ndcg"]))
    found = (
        f"The dial is at beta {beta:g}: NDCG {number(here['ndcg'])} on the {part} part, with "
        f"{percent(here['apt'])} of the places for niche items."
    )
    if here["ndcg"] < front["ndcg"][best] * 0.995:
        found += (
            f" This keeps {percent(here['ndcg'] / front['ndcg'][best])} of the best NDCG, "
            f"{number(front['ndcg'][best])} at beta {front['beta'][best]:g} with {percent(front['apt'][best])} of the "
            "places."
        )
    prices = []
    for share in _SHARES:
        accuracy = front.ndcg_at(share)
        if share > here["apt"] + 0.02 and accuracy is not None and accuracy < here["ndcg"]:
            prices.append(f"would cost {percent(1 - accuracy / here['ndcg'])}")
            prices[-1] = f"{percent(share)} {'of the places ' if len(prices) == 1 else ''}{prices[-1]}"
    if prices:
        first, *rest = prices
        found += f" {', '.join([f'{first} of this NDCG', *rest])}."
    return found


def describe_loss(front: "Front", beta: float) -> str:
    """Return a warning if a setting loses more than a tenth of the best NDCG on the validation part, otherwise ""."""
    here, best = front.at(beta), int(np.argmax(front["ndcg"]))
    loss = 1 - here["ndcg"] / max(front["ndcg"][best], 1e-12)
    if loss <= _DEAR:
        return ""
    return (
        f"beta {beta:g} was given and loses {percent(loss)} of the NDCG that beta {front['beta'][best]:g} reaches on "
        f"the validation part with {percent(front['apt'][best])} of the places for niche items. Leave beta out to let "
        "the validation choose it"
    )


def describe_boost(here: dict[str, float], boost: float, unboosted: "Front") -> str:
    """Return a sentence with the boost of niche items, and what it saves and costs.

    Args:
        here: the measures at the chosen setting.
        boost: the boost.
        unboosted: the front of the same model without the boost.
    """
    found = f"Ranking adds a boost of {boost:g} to niche items."
    accuracy, share = unboosted.ndcg_at(here["apt"]), percent(here["apt"])
    if accuracy is None:
        return f"{found} Without it, no setting of the dial gives them {share} of the places."
    setting = float(unboosted["beta"][int(np.argmin(np.abs(unboosted["apt"] - here["apt"])))])
    return (
        f"{found} Without it, the dial gives them {share} of the places at NDCG {number(accuracy)} instead of "
        f"{number(here['ndcg'])}, and the lists show {percent(unboosted.at(setting)['coverage'])} of all items instead "
        f"of {percent(here['coverage'])}."
    )


def hint_at_boost(share: float | None, front: "Front") -> str:
    """Return a sentence that names the boost where a wished niche share costs more than a tenth of the best NDCG."""
    accuracy = None if share is None else front.ndcg_at(share)
    if accuracy is None or accuracy >= (1 - _DEAR) * front["ndcg"].max():
        return ""
    return (
        "With --boost, the same share may cost less NDCG on ordinary traffic, because it raises all niche items alike; "
        "the lists then show fewer different items."
    )


def number(value: float) -> str:
    """Return an accuracy with four digits and without the leading zero.

    Example:
        >>> number(0.05), number(1.0)
        ('.0500', '1.0000')
    """
    return f"{value:.4f}".removeprefix("0")


def percent(value: float) -> str:
    """Return a share as a whole percentage.

    Example:
        >>> percent(0.125)
        '12 %'
    """
    return f"{100 * value:.0f} %"
