"""Cross pairwise ranking: observed pairs compared with the same pairs after an exchange of their items."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import DataError
from icpe.methods.base import Method
from icpe.settings import setting
from icpe.train.abilities import CustomSampling, Diagnostics, FoldIn
from icpe.train.batch import Batch, Negatives, SampledBatch
from icpe.train.drawing import SeenPairs
from icpe.train.method import MethodSettings
from icpe.types import IntArray

_TRIES = 1000  # rounds of drawing after which the data count as having no samples
_PROBES = 4096  # draws that estimate the share of accepted ones at the start


class CPRSettings(MethodSettings):
    """Settings of :class:`CPR`."""

    max_pairs: int = setting(3, "Largest number k of pairs in a sample.", least=2, search=(2, 3, 4))
    only_max_pairs: bool = setting(
        False, "Whether all samples have the largest number of pairs, instead of any number from 2 up to it."
    )
    ratio: float = setting(
        3.0,
        "How many times as many samples have k pairs as have k + 1 pairs (r).",
        above=0.0,
        search=(2.0, 3.0, 5.0, 7.0),
    )
    oversampling: float | None = setting(
        None,
        "How many times as many samples are drawn as are learned from, which are the hardest ones (ρ); 1 learns from "
        "all. Default: 3, or 1 where the score is not an inner product.",
        least=1.0,
        search=(1.0, 2.0, 3.0, 5.0, 8.0),
    )

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the oversampling filled in."""
        settings = super().completed(backbone)
        if settings.oversampling is not None:
            return settings
        # Without inner products every score costs a pass through the backbone's layers.
        return settings.replace(oversampling=3.0 if backbone.inner_product else 1.0)


class CPR(CustomSampling, Diagnostics, FoldIn, Method):
    """Cross pairwise ranking (Wan et al. 2022).

    A sample consists of k observed pairs (u_1, i_1) … (u_k, i_k) such that no user has used the item of the next pair.
    Their scores should exceed those after the exchange: x = (1/k)·Σ_t s(u_t, i_t) − (1/k)·Σ_t s(u_t, i_{t+1}), where
    the last pair is followed by the first, and the loss is the mean of softplus(−x). Everything that depends on a user
    or an item alone, such as exposure, cancels. No negatives are sampled.

    A step has as many samples as the batch size of the loop. They are drawn from all training pairs with replacement;
    the shuffled positives of the step are not used.

    Example:
        >>> from icpe.backbones import MF, NeuMF
        >>> CPR(MF()).settings.oversampling, CPR(NeuMF()).settings.oversampling
        (3.0, 1.0)
    """

    name: ClassVar[str] = "cpr"
    Settings = CPRSettings
    settings: CPRSettings

    @property
    def negatives(self) -> Negatives:
        """None: the items of other users take their place."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Build the backbone, and estimate how many draws are accepted as samples."""
        super().build(train, rng)
        self._train, self._seen = train, SeenPairs(train)
        # The shares depend on the data and not on the run, so they have a generator of their own.
        probe = np.random.default_rng(0)
        self.accepted = {k: len(self._propose(k, _PROBES, probe)) / _PROBES for k in self._lengths}

    @property
    def _lengths(self) -> range:
        """The numbers of pairs that samples have."""
        longest = self.settings.max_pairs
        return range(longest if self.settings.only_max_pairs else 2, longest + 1)

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return samples in place of the positives; labels are the number to keep, then the number of each length."""
        size = len(batch.users)
        parts = shares(size, len(self._lengths), self.settings.ratio)
        # Rounded first, because 1.1 · 10 is slightly more than 11 in floating point.
        counts = [math.ceil(round((self.settings.oversampling or 1.0) * part, 6)) for part in parts]
        found = [self.draw_samples(k, count, rng).ravel() for k, count in zip(self._lengths, counts, strict=True)]
        rows = np.concatenate(found)
        users, items = self._train.user[rows].astype(np.int64), self._train.item[rows].astype(np.int64)
        return replace(batch, users=users, items=items, rows=rows, labels=np.array([size, *counts], np.int64))

    def draw_samples(self, k: int, count: int, rng: np.random.Generator) -> IntArray:
        """Return the positions in the training data of the pairs of ``count`` samples, int64 [count, k].

        Raises:
            DataError: the training data have hardly any samples.
        """
        found: list[IntArray] = [np.empty((0, k), np.int64)]
        missing = count
        for _ in range(_TRIES):
            if missing == 0:
                return np.concatenate(found)
            draws = int(1.05 * missing / max(self.accepted[k], 0.05)) + 4  # one round is usually enough
            found.append(self._propose(k, draws, rng)[:missing])
            missing -= len(found[-1])
        raise DataError(
            f"only {count - missing} of {count} samples of {k} pairs were found in {_TRIES} rounds of drawing: nearly "
            "all users have used each other's items. Use a smaller max_pairs or another method"
        )

    def _propose(self, k: int, count: int, rng: np.random.Generator) -> IntArray:
        """Draw k training pairs ``count`` times and return those draws that are samples, int64 [at most count, k]."""
        drawn = rng.integers(len(self._train), size=(count, k))
        crossed = np.roll(self._train.item[drawn], -1, axis=1)
        return drawn[~self._seen.contain(self._train.user[drawn], crossed).any(1)]

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the mean of softplus(−x) over the hardest samples, plus the L2 term on their rows."""
        assert batch.labels is not None
        keep, *counts = batch.labels.tolist()
        layout = Layout(self._lengths, counts)
        users, items = self.backbone.rows(batch.users, batch.items, rng)
        codes = batch
        if sum(counts) > keep:
            with torch.no_grad():
                hardest = self.excess(users.detach(), items.detach(), layout).topk(keep, largest=False).indices
            pairs, layout = layout.chosen(hardest)
            users, items = F.embedding(pairs, users), F.embedding(pairs, items)
            codes = Batch(batch.users[pairs], batch.items[pairs], batch.negatives)
        excess = self.excess(users, items, layout)
        return F.softplus(-excess).mean() + self.penalty(codes, (users, items))

    def excess(self, users: Tensor, items: Tensor, layout: "Layout") -> Tensor:
        """Return the x of every sample, [samples], from the representations of its pairs."""
        if self.backbone.inner_product:
            return layout.means((users * (items - layout.next(items))).sum(-1))
        own, crossed = self.backbone.score(users, torch.stack([items, layout.next(items)]))
        return layout.means(own - crossed)

    def score_user(self, user: Tensor, items: Tensor) -> Tensor:
        """Return the scores of the backbone."""
        return self.backbone.score(user, items)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the pairwise loss against all other items, because one user has nobody to exchange items with."""
        return F.softplus(negative - positive[:, None]).mean()

    def diagnostics(self) -> dict[str, Any]:
        """Return the share of draws that are accepted as samples, by the number of pairs."""
        return {"accepted": {str(k): round(share, 4) for k, share in self.accepted.items()}}


@dataclass(frozen=True)
class Layout:
    """The order of the samples in a batch: those with the fewest pairs first, the pairs of a sample one after another.

    Attributes:
        lengths: numbers of pairs (k) that samples have.
        counts: number of samples of each length.
    """

    lengths: range
    counts: list[int]

    def next(self, rows: Tensor) -> Tensor:
        """Return rows [pairs, …], each replaced by that of the next pair of its sample; the first follows the last."""
        return torch.cat([part.roll(-1, 1).flatten(0, 1) for part in self._parts(rows)])

    def means(self, values: Tensor) -> Tensor:
        """Return the mean over the pairs of each sample, [pairs] → [samples]."""
        return torch.cat([part.mean(1) for part in self._parts(values)])

    def chosen(self, samples: Tensor) -> tuple[Tensor, "Layout"]:
        """Return the positions of the pairs of some samples, int64 [pairs], and the layout of these samples alone."""
        pairs, counts, first_sample, first_pair = [], [], 0, 0
        for k, count in zip(self.lengths, self.counts, strict=True):
            mine = samples[(samples >= first_sample) & (samples < first_sample + count)] - first_sample
            steps = torch.arange(k, device=samples.device)
            pairs.append((first_pair + k * mine[:, None] + steps).view(-1))
            counts.append(len(mine))
            first_sample, first_pair = first_sample + count, first_pair + k * count
        return torch.cat(pairs), Layout(self.lengths, counts)

    def _parts(self, values: Tensor) -> list[Tensor]:
        """Return values [pairs, …] by length, as [samples, k, …]."""
        sizes = [k * count for k, count in zip(self.lengths, self.counts, strict=True)]
        parts = torch.split(values, sizes)
        return [part.view(-1, k, *part.shape[1:]) for part, k in zip(parts, self.lengths, strict=True) if len(part)]


def shares(size: int, number: int, ratio: float) -> list[int]:
    """Return ``size`` divided into ``number`` parts, each about ``ratio`` times the next; the last gets the remainder.

    Example:
        >>> shares(1024, number=2, ratio=3)
        [768, 256]
    """
    weights = ratio ** np.arange(number - 1, -1, -1, dtype=np.float64)
    parts, left = [], size
    for weight in weights[:-1]:
        parts.append(min(left, round(size * weight / weights.sum())))
        left -= parts[-1]
    return [*parts, left]
