"""Choosing a setting of the dial by a wish."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from icpe.errors import ConfigError
from icpe.recommender.front import SETTING, Front, rounded
from icpe.types import FloatArray

Goal = Literal["traffic", "balanced"]
CRITERIA: dict[str, str] = {"traffic": "ndcg", "balanced": "balanced_ndcg"}


@dataclass(frozen=True)
class Wish:
    """What the dial should achieve. Exactly one of the attributes besides ``boost`` has a value.

    Attributes:
        niche_share: this share of the places for niche items.
        keep: as many places for niche items as possible with at least this share of the best NDCG.
        goal: the best NDCG on the validation part as it is (``traffic``), or for all items alike (``balanced``).
        beta: this setting.
        boost: whether a boost of all niche items may help to meet the wish, which is then one of the first two.

    Example:
        >>> Wish(niche_share=0.4).as_dict()
        {'niche_share': 0.4}
    """

    niche_share: float | None = None
    keep: float | None = None
    goal: Goal | None = None
    beta: float | None = None
    boost: bool = False

    def __post_init__(self) -> None:
        given = {name: value for name, value in self.as_dict().items() if name != "boost"}
        if len(given) != 1:
            found = ", ".join(f"{name}={value!r}" for name, value in given.items()) or "none"
            raise ConfigError(f"a wish is one of niche_share, keep, goal and beta; found {found}")
        if self.goal is not None and self.goal not in get_args(Goal):
            raise ConfigError(f"goal is {self.goal!r}; expected one of {', '.join(get_args(Goal))}")
        for name, example in (("niche_share", 0.4), ("keep", 0.95)):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value <= 1):
                raise ConfigError(f"{name} is {value!r}; expected a share from 0 to 1, such as {example}")
        if self.beta is not None and not _is_number(self.beta):
            raise ConfigError(f"beta is {self.beta!r}; expected a finite number")
        if not isinstance(self.boost, bool):
            raise ConfigError(f"boost is {self.boost!r}; expected True or False")
        if self.boost and self.niche_share is None and self.keep is None:
            raise ConfigError(f"boost helps to meet niche_share or keep; found {next(iter(given))}")

    def as_dict(self) -> dict[str, Any]:
        """Return the wish by name."""
        every = {"niche_share": self.niche_share, "keep": self.keep, "goal": self.goal, "beta": self.beta}
        return {name: value for name, value in every.items() if value is not None} | (
            {"boost": True} if self.boost else {}
        )

    def choose(self, front: Front) -> float:
        """Return the setting of the dial that meets the wish best, without a boost.

        Raises:
            ConfigError: no setting of the front reaches the wished niche share.
        """
        if self.beta is not None:
            return self.beta
        if self.niche_share is not None:
            return _setting_with_share(front, self.niche_share)
        if self.keep is not None:
            return setting_that_keeps(front, self.keep * front["ndcg"].max())
        return float(front[SETTING][int(np.argmax(front[CRITERIA[self.goal or "traffic"]]))])


def _setting_with_share(front: Front, share: float) -> float:
    settings, shares = front[SETTING], front["apt"]
    if not shares.min() <= share <= shares.max():
        raise ConfigError(
            f"no setting of the dial gives niche items a share of {share:g}; it reaches from {shares.min():.3f} to "
            f"{shares.max():.3f}. Wish for a share in this range"
        )
    crossings = _crossings(settings, shares, share)
    # Exposure can change its direction at the ends of a curve. Among several crossings, take the most accurate one.
    return max(crossings, key=lambda setting: front.at(setting)["ndcg"])


def setting_that_keeps(front: Front, enough: float) -> float:
    """Return the setting with the most places for niche items among those with at least this NDCG."""
    settings, accuracy = front[SETTING], front["ndcg"]
    allowed = [*settings[accuracy >= enough].tolist(), *_crossings(settings, accuracy, enough)]
    return float(max(allowed, key=lambda setting: front.at(setting)["apt"]))


def _crossings(settings: FloatArray, values: FloatArray, wanted: float) -> list[float]:
    """Return all settings at which the curve, straight from point to point, has the wanted value."""
    found = [float(setting) for setting, value in zip(settings, values, strict=True) if value == wanted]
    for left in np.flatnonzero((values[1:] - wanted) * (values[:-1] - wanted) < 0):
        way = (wanted - values[left]) / (values[left + 1] - values[left])
        found.append(rounded(settings[left] + way * (settings[left + 1] - settings[left])))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))
