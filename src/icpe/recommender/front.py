"""The front of a model: accuracy and exposure at every setting of its dial, measured in one pass over the scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.metrics import balanced
from icpe.metrics.fronts import accuracy_at, hypervolume
from icpe.metrics.hits import hit_mask
from icpe.ranking.sweep import sweep_top_n, users_at_once, worth_compiling
from icpe.ranking.tables import ScoreTable
from icpe.recommender.shared_ranking import Ranked, my_part, of_all
from icpe.types import BoolArray, FloatArray, IntArray

SETTING = "beta"
MEASURES = ("ndcg", "recall", "balanced_ndcg", "balanced_recall", "apt", "coverage")
# Niche shares at which settings are placed. They are closer together where ordinary models are.
SHARES = (0.01, 0.02, 0.035, 0.05, 0.075, *np.arange(0.1, 0.96, 0.05).round(2).tolist())
_SAMPLE = 200  # users who show which setting leads to which niche share
_REACH = np.geomspace(0.01, 8, 22)  # settings to try, in units in which direction and scores vary equally
_LARGEST = 1e6  # the limit of the setting; a direction that needs more says nothing about the items
_DIGITS = 3  # significant digits of a setting


@dataclass(frozen=True, eq=False)
class Front:
    """Accuracy and exposure of a model at several settings of its dial.

    Attributes:
        table: frame ``beta, ndcg, recall, balanced_ndcg, balanced_recall, apt, coverage``, in the order of ``beta``.
            ``apt`` is the niche share, the mean share of niche items in the lists.
        n: length of the lists.
        effective_size: number of held-out pairs of equal weight that tell as much as the weighted ones behind the
            balanced metrics; below 100 they are uncertain.
    """

    table: pl.DataFrame
    n: int
    effective_size: float

    def as_frame(self) -> pl.DataFrame:
        """Return everything as one frame, in the form of ``front.parquet``."""
        return self.table.with_columns(n=pl.lit(self.n), balanced_pairs=pl.lit(self.effective_size))

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> "Front":
        """Return the front that :meth:`as_frame` wrote."""
        return cls(frame.select(SETTING, *MEASURES), int(frame["n"][0]), float(frame["balanced_pairs"][0]))

    def __getitem__(self, column: str) -> FloatArray:
        values: FloatArray = self.table[column].to_numpy()
        return values

    @cached_property
    def hypervolume(self) -> float:
        """Area below the curve of niche share and NDCG."""
        return hypervolume(self["apt"], self["ndcg"])

    @cached_property
    def balanced_hypervolume(self) -> float:
        """Area below the curve of coverage and balanced NDCG."""
        return hypervolume(self["coverage"], self["balanced_ndcg"])

    def ndcg_at(self, share: float) -> float | None:
        """Return the best NDCG with at least this niche share, or None if no setting reaches it."""
        return accuracy_at(share, self["ndcg"], self["apt"])

    def at(self, beta: float) -> dict[str, float]:
        """Return the measures at a setting, interpolated between the measured ones."""
        return {name: float(np.interp(beta, self[SETTING], self[name])) for name in MEASURES}


class Meter:
    """Measures the lists of many settings on a held-out part.

    Args:
        train: the training part, which decides which items are niche items.
        held: the held-out part, in the same codes.
        n: length of the lists.
    """

    def __init__(self, train: Interactions, held: Interactions, n: int) -> None:
        self.train, self.held, self.n = train, held, n
        self.users = np.flatnonzero(held.user_counts).astype(np.int32)
        self.niche = ~head_mask(train.item_counts)
        self._weights = balanced.item_weights(train, held)
        self._wanted = balanced.Wanted.of(self.users, held, self._weights.weights, n)
        self._plain = balanced.Wanted.of(self.users, held, np.ones(len(train.items)), n)

    def front(
        self, scores: ScoreTable, direction: FloatArray, settings: Sequence[float], hide: Sequence[Interactions]
    ) -> Front:
        """Return the front of these settings, in ascending order."""
        settings = sorted(set(settings))
        shown = np.zeros((len(settings), len(self.train.items) + 1), bool)  # the last column belongs to empty places
        first, end = my_part(self.users, users_at_once(scores.items))
        mine = Ranked.of(scores, self.users[first:end], hide)
        chunks = []
        # All users decide, because the lists of the compiled loop lie in another order in memory, in which sums differ.
        compiled = worth_compiling(len(self.users), scores.items, len(settings))
        for lists in sweep_top_n(mine.scores, mine.users, self.n, direction, settings, mine.hide, compiled):
            users = self.users[first : first + len(lists.users)]
            chunks.append(self._sums(users, lists.items, first))
            for row, items in zip(shown, lists.items, strict=True):
                row[items.ravel()] = True
            first += len(lists.users)
        chunks, shown = of_all(chunks, shown)
        totals: dict[str, FloatArray] = {name: np.zeros(len(settings)) for name in MEASURES}
        for sums in chunks:  # in their order, so that any number of processes gives the same bits
            totals = {name: totals[name] + sums.get(name, 0.0) for name in totals}
        columns = {name: total / len(self.users) for name, total in totals.items()}
        columns["coverage"] = shown[:, :-1].mean(1)
        table = pl.DataFrame({SETTING: settings, **columns})
        return Front(table.select(SETTING, *MEASURES), self.n, self._weights.effective_size)

    def _sums(self, users: IntArray, lists: IntArray, first: int) -> dict[str, FloatArray]:
        """Return the sums of the measures over some users, for each setting.

        Args:
            users: user codes, [users].
            lists: items of their lists, [settings, users, n].
            first: position of the first of them among all users.
        """
        found: dict[str, FloatArray] = {}
        hits = hit_mask(users, lists, self.held)
        some = np.flatnonzero(hits.any((0, 2)))  # users without any hit add nothing, and most have none
        hits, items = hits[:, some], lists[:, some]
        weighted = np.where(hits, self._weights.weights[items], 0.0)
        for prefix, gain, whole in (("", hits.astype(np.float64), self._plain), ("balanced_", weighted, self._wanted)):
            wanted = whole.rows(first + some)
            found[f"{prefix}recall"] = balanced.recall(gain, wanted, self.n) @ wanted.share
            found[f"{prefix}ndcg"] = balanced.ndcg(gain, wanted, self.n) @ wanted.share
        filled = np.maximum((lists >= 0).sum(-1), 1)
        found["apt"] = (np.append(self.niche, False)[lists].sum(-1) / filled).sum(-1)
        return found


def settings_for(
    shares: Sequence[float],
    scores: ScoreTable,
    direction: FloatArray,
    users: IntArray,
    niche: BoolArray,
    n: int,
    hide: Sequence[Interactions],
) -> dict[float, float]:
    """Return the settings that lead to these niche shares, by share. Shares that no setting reaches are left out.

    The relation is measured on a sample of users. The settings that are tried lie in units in which the direction
    varies as much over the items as the scores do, so that they suit every kind of score.
    """
    sample = users[np.unique(np.linspace(0, len(users) - 1, min(_SAMPLE, len(users))).astype(np.int64))]
    ranked = Ranked.of(scores, sample, hide)  # all processes rank the same few users
    block = ranked.scores.block(ranked.users[:32], 0, scores.items)
    block = np.where(np.isfinite(block), block, np.nan)
    spread = float(np.nanmean(np.nanstd(block, axis=1)))
    varies = float(direction.std())
    if not (varies > 0 and spread > 0):
        return {}
    tried = spread / varies * np.concatenate([-_REACH[::-1], [0.0], _REACH])
    found = np.zeros(len(tried))
    for lists in sweep_top_n(ranked.scores, ranked.users, n, direction, tried, ranked.hide):
        filled = np.maximum((lists.items >= 0).sum(-1), 1)
        found += (np.append(niche, False)[lists.items].sum(-1) / filled).sum(-1)
    found = np.minimum.accumulate(found / len(sample))  # it falls with the setting, up to the noise of the sample
    reached = [share for share in shares if found[-1] <= share <= found[0]]
    placed = {share: rounded(np.interp(share, found[::-1], tried[::-1])) for share in reached}
    return {share: setting for share, setting in placed.items() if abs(setting) <= _LARGEST}


def rounded(setting: float) -> float:
    """Return a setting with three significant digits, which people can read and repeat."""
    return float(f"{setting:.{_DIGITS}g}")
