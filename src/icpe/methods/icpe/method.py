"""ICPE: item clusters with Pareto-efficient weights, and ranking without the pull of popularity."""

import warnings
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError
from icpe.methods._parts.closed_form import has_closed_form
from icpe.methods._parts.gradient_scaling import scale_gradient, weighed_score
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods._parts.sampled_loss import SampledLoss
from icpe.methods.icpe.clusters import ItemClusters
from icpe.methods.icpe.gram import gram_by_autograd, gram_by_kernel, gram_of_log
from icpe.methods.icpe.propensity import GlobalPropensity, PropensityOffset
from icpe.methods.icpe.settings import ICPESettings
from icpe.rng import stream
from icpe.train.abilities import Diagnostics, OnPlateau, OwnDirection, Refresh
from icpe.train.batch import Batch, Negatives
from icpe.train.method import evaluation_mode
from icpe.types import FloatArray, IntArray

_COLDEST = 0.05  # lowest temperature; training is unstable below it
_KEPT = 0.9  # share of the previous matrix in the moving average of gram="ema"


class ICPE(Refresh, OnPlateau, Diagnostics, OwnDirection, SampledLoss):
    """Item cluster-wise Pareto-efficient training with counterfactual ranking.

    The training score is Ŷ = (1−α)·S^n + α·S^g: the backbone's logit S^n and the global propensity S^g of the item are
    learned together (paper Eqs. 5–7). The propensity term starts from popularity, α·S^g = κ·log popularity + α·network,
    so that the network has to learn only what popularity does not explain; κ = 0 is the paper. Items are clustered by
    propensity, and the losses of the clusters get the weights that minimise the norm of the weighted sum of their
    gradients (Eq. 9). Ranking leaves the propensity out (Eq. 14), and the dial puts as much of it back as wished.

    Example:
        >>> from icpe.backbones import MF
        >>> ICPE(MF(dim=16), clusters=3).settings.alpha
        0.1
    """

    name: ClassVar[str] = "icpe"
    shareable: ClassVar[bool] = True
    Settings = ICPESettings
    settings: ICPESettings
    log_popularity: Tensor
    prior: Tensor
    current_temperature: Tensor
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "version-0.1": {
            "loss": "softmax",
            "temperature": 0.2,
            "cooling": 1.0,
            "peers": 0,
            "strength": 0.0,
            "shrink": 0.0,
            "beta": 0.0,
        },
        "paper": {
            "loss": "bce",
            "alpha": 2e-3,
            "strength": 0.0,
            "shrink": 0.0,
            "cooling": 1.0,
            "features": "paper",
            "gram": "batch",
            "gram_at": "representations",
            "bounds": [0.8, 1.0],
            "runs": 10,
            "weights_on": "shared",
            "reg": 1e-3,
            "beta": 0.0,
        },
    }

    def __init__(self, backbone: Backbone, **settings: Any) -> None:
        super().__init__(backbone, **settings)
        if self.settings.peers and not backbone.inner_product:
            raise ConfigError(
                f"peers is {self.settings.peers}, which needs the scores of all pairs of a group; {backbone.label} "
                "scores pairs one by one. Use a backbone with inner products (mf, lightgcn), or peers=0"
            )
        if self.settings.recluster_every == "batch":
            warnings.warn("recluster_every='batch' clusters all items at every step, which is slow", stacklevel=2)

    @property
    def negatives(self) -> Negatives:
        """The negatives to sample for the loss: none with peers."""
        return Negatives(0, shared=True) if self.settings.peers else super().negatives

    def train_defaults(self) -> dict[str, Any]:
        """Return a larger learning rate and less patience for softmax, which converges faster."""
        return {"lr": 4e-3, "patience": 5} if self.settings.loss == "softmax" else {}

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create the backbone, then the network of the propensity and the clusters."""
        super().build(train, rng)
        self._train = train
        with torch.no_grad():
            width = self.backbone.reps()[1].shape[1]
        if self.settings.propensity == "learned":
            self.propensity = GlobalPropensity(width, rng)
        self.register_buffer("log_popularity", log_popularity(train))
        self.register_buffer("prior", self.settings.strength * self.log_popularity)
        self.register_buffer("current_temperature", torch.tensor(self.settings.temperature, dtype=torch.float32))
        self.clusters = ItemClusters(self.settings, train.item_counts, width, rng)

    def learned_buffers(self) -> list[str]:
        """Return the temperature and the autoencoder of the clusters."""
        of_clusters = [name for name, _ in self.named_buffers() if name.startswith("clusters.autoencoder.")]
        return ["current_temperature", *of_clusters]

    @property
    def temperature(self) -> float:
        """Temperature τ of the softmax: it starts at the setting and cools while validation does not improve."""
        return float(self.current_temperature)

    def on_plateau(self) -> None:
        """Cool the softmax. Validation decides how far this goes, because the best state keeps its own temperature."""
        self.current_temperature.mul_(self.settings.cooling).clamp_(min=_COLDEST)

    @property
    def own_share(self) -> float:
        """Factor of S^n in the score: 1 − α, or 1 with the fixed propensity."""
        return 1 - self.settings.alpha if self.settings.propensity == "learned" else 1.0

    @property
    def _sharpness(self) -> float:
        """Factor of the inner product, or of the cosine for softmax, in the score."""
        return self.own_share / self.temperature if self.settings.loss == "softmax" else self.own_share

    def offset(self, items: Tensor, codes: Tensor) -> Tensor:
        """Return α·S^g, which training adds to the score: representations [n, D], codes [n] → [n]."""
        if self.settings.propensity == "popularity":
            return self.prior.index_select(0, codes)
        propensity: Tensor = self.propensity(items.detach() if self.settings.detach else items)
        return self.settings.alpha * propensity + self.prior.index_select(0, codes)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the weighted loss plus the L2 term; one forward and one backward pass serve all parameters."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, items = self.backbone.rows(batch.users, wanted, rng)
        if self.settings.weights_on != "none" and self.settings.gram != "full":
            self._weigh_batch(batch, users, items, self.offset(items, wanted), rng)
        weights = self.clusters.item_weight.index_select(0, batch.items) if self.settings.weights_on != "none" else None
        weight, user_weight = (weights, None) if self.settings.weights_on == "all" else (None, weights)
        if self.backbone.inner_product:
            return self._inner_product_loss(batch, wanted, users, items, weight=weight, user_weight=user_weight)
        count, by_pair = len(batch.items), self.settings.loss == "bce"
        offset = self.offset(items, wanted)
        # The gradient of slices would be a table of zeros for each; that of a split is put together once.
        positives, negatives = torch.split(items, [count, len(items) - count])
        losses = self.positive_losses(users, positives if by_pair else items, offset, batch, user_weight)
        total = (losses if weight is None else losses * weight).mean()
        if by_pair:
            drawn = negatives.view(*batch.negatives.shape, -1)
            scores = self.own_share * self.backbone.score(users[:, None], drawn) + offset[count:].view(count, -1)
            total = total + self.neg_weight * F.softplus(scores).mean()
        total = total + self._shrinkage(offset[count:], wanted[count:])
        return total + self.penalty(batch, (users, positives, negatives))

    def _inner_product_loss(self, batch: Batch, wanted: Tensor, users: Tensor, items: Tensor, **extras: Any) -> Tensor:
        """Return the whole loss for a backbone with inner products; ``wanted`` are the codes of the items."""
        settings = self.settings
        # Popular items occur among the peers more often. Subtracting log popularity from the logits corrects this.
        frequent = self.log_popularity.index_select(0, wanted) if settings.peers else None
        start = 0 if settings.peers else len(batch.items)
        if settings.peers or settings.batch_negatives:
            extras |= {"codes": wanted, "group": settings.peers}
        if settings.propensity == "learned" and has_closed_form(users, items):
            fixed = self.prior.index_select(0, wanted)
            fixed = fixed if frequent is None else fixed.sub_(frequent)
            known = PropensityOffset(self.propensity, settings.alpha, settings.detach, settings.shrink, start, fixed)
            return self.product_loss(batch, users, items, self.own_share, offset=known, **extras)
        offset = self.offset(items, wanted)
        added = offset if frequent is None else offset - frequent
        total = self.product_loss(batch, users, items, self.own_share, offset=added, **extras)
        return total + self._shrinkage(offset[start:], wanted[start:])

    def _shrinkage(self, offset: Tensor, codes: Tensor) -> Tensor:
        """Return the penalty on the variance of the learned part of the propensity term of sampled items."""
        if self.settings.shrink == 0 or self.settings.propensity != "learned" or len(offset) == 0:
            return offset.new_zeros(())
        return self.settings.shrink * (offset - self.prior.index_select(0, codes)).var(correction=0)

    def positive_losses(
        self, users: Tensor, items: Tensor, offset: Tensor, batch: Batch, user_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of each positive pair (ℓ⁺), [batch].

        Args:
            users: representations of the users, [batch, D].
            items: representations of the positives and then of the negatives, [batch + ·, D]; for bce, the negatives
                may be missing.
            offset: propensity term of the same items.
            batch: codes of the batch.
            user_weight: weights of the pairs in the gradient of shared parameters; they change neither the losses nor
                the gradients of items.
        """
        count = len(users)
        if self.settings.loss == "bce":
            own = weighed_score(self.backbone, users, items if len(items) == count else items[:count], user_weight)
            return F.softplus(-(self.own_share * own + offset[:count]))
        start = 0 if self.settings.batch_negatives else count
        positive, others = self._cosines(users, items, start, user_weight)
        sharp = self._sharpness
        positive, others = sharp * positive + offset[:count], sharp * others + offset[start:]
        if self.settings.batch_negatives:
            same = batch.items[:, None] == torch.cat([batch.items, batch.negatives])
            others = others.masked_fill(same, -torch.inf)
        return torch.logaddexp(positive, torch.logsumexp(others, 1)) - positive

    def _cosines(self, users: Tensor, items: Tensor, start: int, user_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return S^n·τ of the positives [batch] and of each user with the other items [batch, ·]."""
        count = len(users)
        if not self.backbone.inner_product:
            others = items[start:].expand(count, -1, -1)
            wide = None if user_weight is None else user_weight[:, None].expand(-1, others.shape[1])
            own = weighed_score(self.backbone, users, items[:count], user_weight)
            return own, weighed_score(self.backbone, users[:, None], others, wide)
        users = users if user_weight is None else scale_gradient(users, user_weight)
        user, item = (F.normalize(one, dim=-1) for one in (users, items))
        return (user * item[:count]).sum(-1), user @ item[start:].T

    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Return whether ``recluster_every`` requests a new clustering before this step."""
        every = self.settings.recluster_every
        return step % (epoch_steps if every == "epoch" else 1 if every == "batch" else every) == 0

    def refresh(self, step: int, seed: int) -> None:
        """Cluster the items and, with the full Gram matrix, weigh the clusters."""
        with evaluation_mode(self), torch.no_grad():
            users, items = self.backbone.reps()
            offset = self.offset(items, torch.arange(len(items), device=items.device))
        self.clusters.assign(items, self._propensities(items), stream(seed, f"icpe/clusters/{step}"))
        if self.settings.gram != "full":
            return
        drawn = stream(seed, f"icpe/negatives/{step}").integers(len(items), size=self.settings.negatives or 1)
        if self._closed_form:
            mine, table, added = (one.detach().numpy() for one in (users, items, offset))
            rest = (self.clusters.label_array(), self.clusters.number, mine, table, added)
            gram = gram_of_log(str(self.settings.loss), self._sharpness, drawn, self._train, rest)
        else:
            gram = self._by_autograd(self._train.user, self._train.item, drawn, stream(seed, f"icpe/pairs/{step}"))
        self.clusters.weigh(gram, stream(seed, f"icpe/bounds/{step}"))

    def _weigh_batch(
        self, batch: Batch, users: Tensor, items: Tensor, offset: Tensor, rng: torch.Generator | None
    ) -> None:
        """Set the weights from the gradients of one batch, whose rows have already been read."""
        user, item, negatives = (one.cpu().numpy() for one in (batch.users, batch.items, batch.negatives.reshape(-1)))
        if self._closed_form:
            order = np.argsort(user, kind="stable")
            _, first = np.unique(user[order], return_index=True)
            labels = self.clusters.label_array()[np.concatenate([item, negatives])]
            mine, table, added = (one.detach().numpy() for one in (users, items, offset))
            others = np.arange(len(item), len(items))
            starts = np.append(first, len(user))
            pairs = (starts, order.astype(np.int32), labels, self.clusters.number, mine[order[first]], table, added)
            gram = gram_by_kernel(str(self.settings.loss), self._sharpness, others, pairs)
        else:
            gram = self._by_autograd(user, item, negatives)
        key = torch.randint(2**62, (), generator=rng, device=None if rng is None else rng.device)
        self.clusters.weigh(gram, np.random.default_rng(int(key)), keep=_KEPT if self.settings.gram == "ema" else 0.0)

    @property
    def _closed_form(self) -> bool:
        """Whether only gradients at the users' rows are needed, which a kernel computes without autograd."""
        at_rows = self.backbone.trains_rows or self.settings.gram_at == "representations"
        return self.backbone.inner_product and at_rows and self.clusters.labels.device.type == "cpu"

    def _by_autograd(
        self, user: IntArray, item: IntArray, drawn: IntArray, rng: np.random.Generator | None = None
    ) -> FloatArray:
        negatives = torch.from_numpy(drawn.astype(np.int64)).to(self.clusters.labels.device)

        def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
            wanted = torch.cat([items, negatives]) if self.settings.loss == "softmax" else items
            rows, others = self.backbone.rows(users, wanted)
            if self.settings.gram_at == "representations":
                rows, others = rows.detach().requires_grad_(), others.detach()
            return rows, self.positive_losses(rows, others, self.offset(others, wanted), Batch(users, items, negatives))

        with evaluation_mode(self):
            return gram_by_autograd(
                self.backbone,
                losses,
                user,
                item,
                self.clusters.label_array(),
                self.clusters.number,
                at_rows=self.settings.gram_at == "representations" or self.backbone.trains_rows,
                rng=rng,
                scores=1 + (len(drawn) if self.settings.loss == "softmax" else 0),
            )

    def _propensities(self, items: Tensor) -> FloatArray:
        """Return S^g of all items, float64 [items]: the propensity term of the training score, divided by α.

        With α = 0 the network is untrained, and log popularity takes the place of S^g if there is any prior.
        """
        alpha, known = self.settings.alpha, bool(self.prior.any())
        with torch.no_grad():
            if self.settings.propensity == "popularity" or (known and alpha == 0):
                values: Tensor = self.log_popularity
            else:
                values = self.propensity(items) + self.prior / alpha if known else self.propensity(items)
        found: FloatArray = values.cpu().double().numpy()
        return found

    def diagnostics(self) -> dict[str, Any]:
        """Return the clusters, their gradients and weights, and how closely the propensity follows popularity."""
        with evaluation_mode(self), torch.no_grad():
            items = self.backbone.reps()[1]
            offset = self.offset(items, torch.arange(len(items), device=items.device))
        niche = ~head_mask(self._train.item_counts)
        return {
            **self.clusters.diagnostics(self._propensities(items), niche),
            "offset_std": float(offset.double().std(correction=0)),
            "temperature": self.temperature,
        }

    def dial_direction(self) -> Tensor:
        """Return the propensity term of training in the unit of ranking scores. Ranking adds β times as much."""
        items = self.backbone.reps()[1]
        codes = torch.arange(len(items), device=items.device)
        return self.score_unit / self.own_share * self.offset(items, codes)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Models of early versions used the strength only with the fixed propensity, and had a constant temperature.
        before = torch.zeros_like(self.prior) if self.settings.propensity == "learned" else self.prior
        state_dict.setdefault(f"{prefix}prior", before)
        state_dict.setdefault(f"{prefix}current_temperature", self.current_temperature)
        super()._load_from_state_dict(state_dict, prefix, *rest)
