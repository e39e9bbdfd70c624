"""Cross pairwise ranking: observed pairs against the same users and items exchanged."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, DataError
from icpe.train.drawing import Drawn, SeenPairs
from icpe.train.method import Batch, Method, Negatives, check_number
from icpe.types import IntArray

_TRIES = 1000  # rounds of drawing before the data are said to have no samples
_PROBES = 4096  # draws at the start that tell how many are in vain


class CPR(Method):
    """Cross pairwise ranking (Wan et al. 2022).

    A sample is k observed pairs (u_1, i_1) … (u_k, i_k) such that no user has used the next one's item. Their scores
    shall exceed those after the exchange: x = (1/k)·Σ_t s(u_t, i_t) − (1/k)·Σ_t s(u_t, i_{t+1}), the first item coming
    after the last, and the loss is the mean of softplus(−x). Whatever belongs to a user or an item alone, such as how
    often it is exposed, cancels. No negatives are drawn.

    A step has as many samples as the loop's batch size says. All of them are drawn from all training pairs with
    replacement; the shuffled positives of the step are not used.

    Args:
        backbone: the model to train.
        k_max: samples have from 2 to so many pairs.
        ratio: there are so many times as many samples with k pairs as with k + 1 (r).
        k_only: let all samples have ``k_max`` pairs.
        rate: draw so many times the samples and learn from those with the smallest x, the hardest (ρ); 1 learns from
            all that are drawn. By default 3, or 1 where scores are no inner products and drawing is dear.
        reg: λ of the L2 term; by default the backbone's.

    Raises:
        ConfigError: a setting is out of range.

    Example:
        >>> from icpe.backbones import MF, NeuMF
        >>> CPR(MF()).settings()["rate"], CPR(NeuMF()).settings()["rate"]
        (3.0, 1.0)
    """

    name: ClassVar[str] = "cpr"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "ratio": (2.0, 3.0, 5.0, 7.0),
        "rate": (1.0, 2.0, 3.0, 5.0, 8.0),
        "k_max": (2, 3, 4),
    }

    def __init__(
        self,
        backbone: Backbone,
        k_max: int = 3,
        ratio: float = 3.0,
        k_only: bool = False,
        rate: float | None = None,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        if not isinstance(k_max, int) or isinstance(k_max, bool) or k_max < 2:
            raise ConfigError(f"k_max is {k_max!r}; expected a whole number from 2 up")
        if not isinstance(k_only, bool):
            raise ConfigError(f"k_only is {k_only!r}; expected true or false")
        self.k_max, self.ratio, self.k_only = k_max, ratio, k_only
        check_number("ratio", ratio, least=0.0, open_left=True)
        dear = type(backbone).vectors is Backbone.vectors
        self.rate = (1.0 if dear else 3.0) if rate is None else rate
        check_number("rate", self.rate, least=1.0)

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "k_max": self.k_max,
            "ratio": self.ratio,
            "k_only": self.k_only,
            "rate": self.rate,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """None: other users' items take their part."""
        return Negatives(0, shared=True)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, and what is needed to draw samples."""
        super().build(train, rng)
        self._train, self._seen = train, SeenPairs(train)
        # It is a matter of the data alone, and not of the run; so it has a generator of its own.
        probe = np.random.default_rng(0)
        self.accepted = {k: len(self._propose(k, _PROBES, probe)) / _PROBES for k in self._kinds}

    @property
    def _kinds(self) -> range:
        """The numbers of pairs that samples have."""
        return range(self.k_max if self.k_only else 2, self.k_max + 1)

    def draw(self, drawn: Drawn, epoch: int, rng: np.random.Generator) -> Drawn:
        """Samples in place of the positives; marks are how many are kept, then how many there are of each k."""
        size = len(drawn.users)
        # Rounded first: 1.1 · 10 is a little more than 11.
        counts = [math.ceil(round(self.rate * count, 6)) for count in shares(size, len(self._kinds), self.ratio)]
        found = [self._samples(k, count, rng).ravel() for k, count in zip(self._kinds, counts, strict=True)]
        rows = np.concatenate(found)
        users, items = self._train.user[rows].astype(np.int64), self._train.item[rows].astype(np.int64)
        return replace(drawn, users=users, items=items, rows=rows, marks=np.array([size, *counts], np.int64))

    def _samples(self, k: int, count: int, rng: np.random.Generator) -> IntArray:
        """Training pairs of so many samples, int64 [count, k]."""
        found: list[IntArray] = [np.empty((0, k), np.int64)]
        missing = count
        for _ in range(_TRIES):
            if missing == 0:
                return np.concatenate(found)
            draws = int(1.05 * missing / max(self.accepted[k], 0.05)) + 4  # most of them need one round
            found.append(self._propose(k, draws, rng)[:missing])
            missing -= len(found[-1])
        raise DataError(
            f"only {count - missing} of {count} samples of {k} pairs were found in {_TRIES} rounds of drawing: nearly "
            "all users have used each other's items. Take a smaller k_max, or another method"
        )

    def _propose(self, k: int, count: int, rng: np.random.Generator) -> IntArray:
        """Draw so many times k training pairs and keep those that are samples: int64 [at most count, k]."""
        drawn = rng.integers(len(self._train), size=(count, k))
        crossed = np.roll(self._train.item[drawn], -1, axis=1)
        return drawn[~self._seen.contain(self._train.user[drawn], crossed).any(1)]

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Mean of softplus(−x) over the hardest samples, plus the L2 term on their rows."""
        assert batch.marks is not None
        keep, *counts = batch.marks.tolist()
        layout = Layout(self._kinds, counts)
        users, items = self.backbone.rows(batch.users, batch.items, rng)
        codes = batch
        if sum(counts) > keep:
            with torch.no_grad():
                hardest = self._excess(users.detach(), items.detach(), layout).topk(keep, largest=False).indices
            pairs, layout = layout.chosen(hardest)
            users, items = F.embedding(pairs, users), F.embedding(pairs, items)
            codes = Batch(batch.users[pairs], batch.items[pairs], batch.negatives)
        excess = self._excess(users, items, layout)
        return F.softplus(-excess).mean() + self.penalty(codes, (users, items))

    def _excess(self, users: Tensor, items: Tensor, layout: "Layout") -> Tensor:
        """The x of every sample, from rows of its pairs: [samples]."""
        vectors = self.backbone.vectors(users, items)
        if vectors is not None:
            return layout.means((vectors[0] * (vectors[1] - layout.next(vectors[1]))).sum(-1))
        own, crossed = self.backbone.score(users, torch.stack([items, layout.next(items)]))
        return layout.means(own - crossed)

    def user_loss(self, positive: Tensor, negative: Tensor) -> Tensor:
        """The pairwise loss against all other items: there are no others whose items could be exchanged."""
        return F.softplus(negative - positive[:, None]).mean()

    def diagnostics(self) -> dict[str, Any]:
        """How many draws are accepted as samples, by k."""
        return {"accepted": {str(k): round(share, 4) for k, share in self.accepted.items()}}


@dataclass(frozen=True)
class Layout:
    """How samples lie in a batch: those of the smallest k first, the pairs of a sample in a row.

    Attributes:
        kinds: the values of k.
        counts: how many samples there are of each.
    """

    kinds: range
    counts: list[int]

    def next(self, rows: Tensor) -> Tensor:
        """Rows [pairs, …], each replaced by that of the next pair of its sample; after the last comes the first."""
        return torch.cat([part.roll(-1, 1).flatten(0, 1) for part in self._parts(rows)])

    def means(self, values: Tensor) -> Tensor:
        """Means over the pairs of a sample, [pairs] → [samples]."""
        return torch.cat([part.mean(1) for part in self._parts(values)])

    def chosen(self, samples: Tensor) -> tuple[Tensor, "Layout"]:
        """Where the pairs of some samples are, int64 [pairs], and how they lie when only these are left."""
        pairs, counts, first_sample, first_pair = [], [], 0, 0
        for k, count in zip(self.kinds, self.counts, strict=True):
            mine = samples[(samples >= first_sample) & (samples < first_sample + count)] - first_sample
            places = torch.arange(k, device=samples.device)
            pairs.append((first_pair + k * mine[:, None] + places).view(-1))
            counts.append(len(mine))
            first_sample, first_pair = first_sample + count, first_pair + k * count
        return torch.cat(pairs), Layout(self.kinds, counts)

    def _parts(self, values: Tensor) -> list[Tensor]:
        """[pairs, …] by k, as [samples, k, …]."""
        sizes = [k * count for k, count in zip(self.kinds, self.counts, strict=True)]
        parts = torch.split(values, sizes)
        return [part.view(-1, k, *part.shape[1:]) for part, k in zip(parts, self.kinds, strict=True) if len(part)]


def shares(size: int, kinds: int, ratio: float) -> list[int]:
    """``size`` in so many parts, each about ``ratio`` times the next; the last takes what rounding leaves.

    Example:
        >>> shares(1024, kinds=2, ratio=3)
        [768, 256]
    """
    weights = ratio ** np.arange(kinds - 1, -1, -1, dtype=np.float64)
    parts, left = [], size
    for weight in weights[:-1]:
        parts.append(min(left, round(size * weight / weights.sum())))
        left -= parts[-1]
    return [*parts, left]
