"""Growth of the log of a generated world: visits, exposure, herding and promotion."""

from collections.abc import Callable, Mapping

import numpy as np

from icpe.data.lookup import contains
from icpe.types import BoolArray, FloatArray, IntArray

_ACTIVITY_SPREAD = 1.0
_LEAST_PER_USER = 10
_LEAST_PER_ITEM = 5

HERDING = 0.9
"""Default share of exposure that follows popularity in the last round. It rises from 0 in the first round."""

_HERDING_POWER = 1.5  # above 1 popular items gain more than their share, as with charts and "trending" lists
_HIT = 8.0  # times the mean; beyond it the gain is proportional, or one item would finally take everything

_START = 1_640_995_200  # 2022-01-01 in Unix seconds
_ROUNDS = 52
_ROUND_SECONDS = 14 * 24 * 3600
_ATTEMPTS = 8  # number of items shown to a waiting visit within one round
_LAST_ATTEMPTS = 40


def make_visits(users: int, items: int, interactions: int, rng: np.random.Generator) -> IntArray:
    """The user of each visit, int32 [interactions], in random order; active users visit more often."""
    most = items // 2  # so that every user has a choice and wants items that are not in the log
    count = np.full(users, max(1, min(_LEAST_PER_USER, interactions // users // 2)))
    activity = rng.lognormal(sigma=_ACTIVITY_SPREAD, size=users)
    while left := interactions - int(count.sum()):
        open_to_more = np.where(count < most, activity, 0.0)
        count = np.minimum(count + rng.multinomial(left, open_to_more / open_to_more.sum()), most)
    return rng.permutation(np.repeat(np.arange(users, dtype=np.int32), count))


class Growth:
    """The growing log: its rows so far, the visits waiting for an item, and the items waiting for promotion."""

    def __init__(
        self,
        tastes: FloatArray,
        traits: FloatArray,
        appeal: FloatArray,
        exposure: FloatArray,
        interactions: int,
        streams: Mapping[str, np.random.Generator],
        herding: float = HERDING,
    ) -> None:
        # One row per trait, so that preferences are summed in the same order as by ``World.preference``.
        self.tastes, self.traits = np.ascontiguousarray(tastes.T), np.ascontiguousarray(traits.T)
        self.appeal, self.exposure, self.streams, self.herding = appeal, exposure, streams, herding
        self.items = len(appeal)
        self.user = np.empty(interactions, np.int32)
        self.item = np.empty(interactions, np.int32)
        self.timestamp = np.empty(interactions, np.int64)
        self.size = 0
        self.popularity = np.zeros(self.items, np.int64)
        # Pairs as sorted integers. Those of the current round are separate, because merging into all pairs is slow.
        self.past = self.recent = np.empty(0, np.int64)
        self.waiting = self.promoted = np.empty(0, np.int32)

    def run(self, visits: IntArray, progress: Callable[[int, int], None] | None) -> None:
        """Run all rounds, after which every visit has ended with an item."""
        # Without promotion the least exposed items would not occur at all, and no method could learn who likes them.
        times = min(_LEAST_PER_ITEM, len(visits) // (4 * self.items))
        promotions = self.streams["promotion"].permutation(np.repeat(np.arange(self.items, dtype=np.int32), times))
        # Promotion ends before the last rounds, so that the last promoted items still find users who want them.
        portions = np.array_split(promotions, _ROUNDS - _ROUNDS // 10) + [promotions[:0]] * (_ROUNDS // 10)
        for number, (arrivals, portion) in enumerate(zip(np.array_split(visits, _ROUNDS), portions, strict=True)):
            self.waiting = np.concatenate([arrivals, self.waiting])
            self.promoted = np.concatenate([self.promoted, portion])
            self._run_round(number)
            if progress is not None:
                progress(self.size, len(visits))

    def _run_round(self, number: int) -> None:
        start = self.size
        last = number == _ROUNDS - 1
        reach = np.cumsum(self._exposure_now(self.herding * (number / (_ROUNDS - 1)) ** 0.5))
        for _ in range(_LAST_ATTEMPTS if last else _ATTEMPTS):
            self._show(reach)
        while (
            last and self.waiting.size
        ):  # the few users who like nothing take a random new item, so that the loop ends
            shown = self.streams["shown"].integers(self.items, size=len(self.waiting), dtype=np.int32)
            self._take(shown, np.ones(len(shown), bool))
        made = slice(start, self.size)
        self.past = np.sort(np.concatenate([self.past, self.recent]), kind="stable")  # merges two sorted runs
        self.recent = self.recent[:0]
        self.popularity += np.bincount(self.item[made], minlength=self.items)
        second = self.streams["time"].integers(_ROUND_SECONDS, size=self.size - start)
        self.timestamp[made] = (_START + number * _ROUND_SECONDS + second) * 1_000_000

    def _exposure_now(self, herding: float) -> FloatArray:
        followed = self.popularity * np.minimum(self.popularity, _HIT * self.popularity.mean()) ** (_HERDING_POWER - 1)
        return np.asarray((1 - herding) * self.exposure + herding * followed / max(followed.sum(), 1.0))

    def _show(self, reach: FloatArray) -> None:
        """Show an item to each waiting visit. Users who want it and do not have it yet take it."""
        size = len(self.waiting)
        place = self.streams["shown"].random(size) * reach[-1]
        shown = np.searchsorted(reach, place, side="right").astype(np.int32)
        promoted = min(len(self.promoted), size // 2)
        shown[:promoted] = self.promoted[:promoted]
        preference = self.appeal[shown]
        for taste, trait in zip(self.tastes, self.traits, strict=True):
            preference += taste[self.waiting] * trait[shown]
        # Logistic noise below the preference is an event of probability sigmoid(preference).
        taken = self._take(shown, self.streams["accepted"].logistic(size=size) < preference)
        again = shown[:promoted][~taken[:promoted]]
        self.promoted = np.concatenate([self.promoted[promoted:], again])

    def _take(self, shown: IntArray, wanted: BoolArray) -> BoolArray:
        """Append the wanted pairs that are new and end their visits. Returns the mask of these visits."""
        rows = np.flatnonzero(wanted)
        pairs, first = np.unique(self.waiting[rows] * np.int64(self.items) + shown[rows], return_index=True)
        fresh = ~(contains(self.past, pairs) | contains(self.recent, pairs))
        rows, pairs = rows[first[fresh]], pairs[fresh]
        made = slice(self.size, self.size + len(rows))
        self.user[made], self.item[made] = self.waiting[rows], shown[rows]
        self.size += len(rows)
        self.recent = np.sort(np.concatenate([self.recent, pairs]), kind="stable")
        taken = np.zeros(len(shown), bool)
        taken[rows] = True
        self.waiting = self.waiting[~taken]
        return taken
