"""ICPE: item clusters weighed Pareto-efficiently, and ranking without the pull of popularity."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from icpe.backbones.base import Backbone, DotBackbone
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError
from icpe.methods._parts.closed_form import closed
from icpe.methods._parts.gradient_scaling import scale_gradient, weighed_score
from icpe.methods._parts.log_popularity import log_popularity
from icpe.methods.icpe.clusters import ClusterSettings, Features, ItemClusters, read_bounds
from icpe.methods.icpe.gram import evaluating, gram_by_autograd, gram_by_kernel
from icpe.methods.icpe.peers import check_peers
from icpe.methods.icpe.propensity import GlobalPropensity, PropensityOffset
from icpe.methods.normal import Normal
from icpe.rng import stream
from icpe.train.method import Batch, Negatives, check_choice, check_count, check_number
from icpe.types import FloatArray, IntArray

Gram = Literal["full", "batch", "ema"]
GramAt = Literal["parameters", "representations"]
WeightsOn = Literal["shared", "all", "none"]
_KEPT = 0.9  # of the moving average with gram="ema"


class ICPE(Normal):
    """Item cluster-wise Pareto-efficient training with counterfactual ranking.

    Scores in training are Ŷ = (1−α)·S^n + α·S^g: the backbone's logit and the global propensity of the item, learned
    together (paper Eqs. 5–7). Items are clustered by propensity, and the clusters' losses are weighed by the point of
    least norm in the hull of their gradients (Eq. 9). Ranking leaves the propensity out (Eq. 14).

    Args:
        backbone: the model to train.
        loss: ``"softmax"`` on cosine / temperature against shared negatives, or ``"bce"`` (the paper).
        negatives: shared ones for softmax, or per positive for bce; by default as of :class:`Normal`.
        in_batch: for softmax, let the positives of others in the batch be negatives too.
        temperature: of the softmax.
        alpha: share of the propensity in the score (α).
        propensity: ``"learned"``, or ``"popularity"`` for ``kappa``·log of the training count in place of α·S^g.
        kappa: strength of the fixed propensity.
        shrink: factor of the variance of α·S^g over the drawn items, added to the loss. Without it S^g takes all of
            popularity out of S^n; with more, some is left there.
        detach: whether S^g leaves the item representations alone.
        clusters: at most (K).
        features: what clusters are made of: ``"propensity"`` (code and rank of S^g), ``"paper"`` (code of the item's
            representation), ``"popularity"`` (quantiles of the count), ``"plain"`` (k-means on the code, the paper's
            ablation w/o PD).
        recluster_every: ``"epoch"``, ``"batch"`` (as printed in the paper; slow) or a number of steps.
        gram_at: where gradients are taken: at the trainable ``"parameters"``, or at the users' ``"representations"``,
            which is much cheaper for LightGCN and the same for MF.
        gram: gradients of all training pairs at each clustering (``"full"``), of every batch (``"batch"``), or a moving
            average of batches (``"ema"``).
        per_item: divide a cluster's gradient by its number of items.
        bounds: lower bounds of weights, as shares of 1/K: one number, or two for draws between them.
        runs: solutions among which the least misery chooses (T); more than one needs two bounds.
        weights_on: ``"shared"`` parameters (the paper), ``"all"``, or ``"none"`` (the ablation w/o CR).
        beta: what share of the propensity is put back when ranking: 0 counterfactual, 1 factual (the ablation w/o CI),
            below 0 further towards niche items. It may be changed after training.
        reg: λ of the L2 term; by default 0 for softmax, else the backbone's.
        peers: for softmax on inner products, the size of groups of positives that are each other's negatives; 0: drawn
            ones. Log popularity is taken off their logits, so S^n and S^g mean what they mean with uniform negatives.

    Example:
        >>> from icpe.backbones import MF
        >>> ICPE(MF(dim=16), clusters=3).settings()["alpha"]
        0.1
    """

    name: ClassVar[str] = "icpe"
    log_popularity: Tensor
    serving: ClassVar[tuple[str, ...]] = ("beta",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "alpha": (0.03, 0.1, 0.3),
        "temperature": (0.15, 0.2, 0.25),
        "bounds": (0.7, 0.85, 1.0),
        "shrink": (0.0, 0.005, 0.01, 0.02, 0.04),
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "paper": {
            "loss": "bce",
            "alpha": 2e-3,
            "features": "paper",
            "gram": "batch",
            "gram_at": "representations",
            "bounds": [0.8, 1.0],
            "runs": 10,
            "weights_on": "shared",
            "reg": 1e-3,
        },
    }

    def __init__(
        self,
        backbone: Backbone,
        loss: Literal["softmax", "bce"] = "softmax",
        negatives: int | None = None,
        in_batch: bool = False,
        temperature: float = 0.2,
        alpha: float = 0.1,
        propensity: Literal["learned", "popularity"] = "learned",
        kappa: float = 0.85,
        shrink: float = 0.0,
        detach: bool = False,
        clusters: int = 4,
        features: Features = "propensity",
        recluster_every: int | Literal["epoch", "batch"] = "epoch",
        gram: Gram = "full",
        gram_at: GramAt = "parameters",
        per_item: bool = True,
        bounds: float | Sequence[float] = 0.85,
        runs: int = 1,
        weights_on: WeightsOn = "all",
        beta: float = 0.0,
        reg: float | None = None,
        peers: int = 0,
    ) -> None:
        check_choice("loss", loss, ("softmax", "bce"))
        super().__init__(backbone, loss, negatives, temperature, reg=0.0 if reg is None and loss == "softmax" else reg)
        check_choice("propensity", propensity, ("learned", "popularity"))
        check_choice("features", features, get_args(Features))
        check_choice("gram", gram, get_args(Gram))
        check_choice("gram_at", gram_at, get_args(GramAt))
        check_choice("weights_on", weights_on, get_args(WeightsOn))
        check_number("alpha", alpha, least=0.0, most=0.999)
        check_number("kappa", kappa, least=0.0)
        check_number("shrink", shrink, least=0.0)
        check_number("beta", beta, least=-100.0, most=100.0)
        for name, value in (("clusters", clusters), ("runs", runs)):
            check_count(name, value)
        if recluster_every not in ("epoch", "batch"):
            check_count("recluster_every", recluster_every)
        if in_batch and loss != "softmax":
            raise ConfigError("in_batch is True with loss 'bce'; negatives from the batch need loss='softmax'")
        check_peers(peers, backbone, loss, in_batch, gram)
        if recluster_every == "batch":
            warnings.warn("recluster_every='batch' clusters all items at every step, which is slow", stacklevel=2)
        self.low, self.high = read_bounds(bounds)
        self.in_batch, self.alpha, self.propensity_kind, self.kappa = in_batch, alpha, propensity, kappa
        self.shrink, self.detach, self.cluster_count, self.features = shrink, detach, clusters, features
        self.recluster_every, self.gram_kind, self.per_item, self.runs = recluster_every, gram, per_item, runs
        self.gram_at, self.weights_on = gram_at, weights_on
        self.beta, self.peers = beta, peers

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "loss": self.loss_kind,
            "negatives": self.negative_count,
            "in_batch": self.in_batch,
            "temperature": self.temperature,
            "alpha": self.alpha,
            "propensity": self.propensity_kind,
            "kappa": self.kappa,
            "shrink": self.shrink,
            "detach": self.detach,
            "clusters": self.cluster_count,
            "features": self.features,
            "recluster_every": self.recluster_every,
            "gram": self.gram_kind,
            "gram_at": self.gram_at,
            "per_item": self.per_item,
            "bounds": [self.low, self.high],
            "runs": self.runs,
            "weights_on": self.weights_on,
            "beta": self.beta,
            "reg": self.reg,
            "peers": self.peers,
        }

    @property
    def negatives(self) -> Negatives:
        """None are drawn where positives are each other's."""
        return Negatives(0, shared=True) if self.peers else super().negatives

    def train_defaults(self) -> dict[str, Any]:
        """The softmax takes larger steps and is done sooner."""
        return {"lr": 4e-3, "patience": 5} if self.loss_kind == "softmax" else {}

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """The backbone, then the propensity's network and the clusters."""
        super().build(train, rng)
        self._train = train
        with torch.no_grad():
            width = self.backbone.reps()[1].shape[1]
        if self.propensity_kind == "learned":
            self.propensity = GlobalPropensity(width, rng)
        self.register_buffer("log_popularity", log_popularity(train))
        settings = ClusterSettings(self.cluster_count, self.features, self.low, self.high, self.runs, self.per_item)
        self.clusters = ItemClusters(settings, train.item_counts, width, rng)

    @property
    def own_share(self) -> float:
        """Factor of S^n in the score: 1 − α, or 1 with the fixed propensity."""
        return 1 - self.alpha if self.propensity_kind == "learned" else 1.0

    @property
    def _sharpness(self) -> float:
        """Factor of the inner product, or of the cosine for softmax, in the score."""
        return self.own_share / self.temperature if self.loss_kind == "softmax" else self.own_share

    def offset(self, items: Tensor, codes: Tensor) -> Tensor:
        """What the propensity adds to the score in training, α·S^g: representations [n, D], codes [n] → [n]."""
        if self.propensity_kind == "popularity":
            return self.kappa * self.log_popularity[codes]
        propensity: Tensor = self.propensity(items.detach() if self.detach else items)
        return self.alpha * propensity

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The weighted loss plus the L2 term; one forward and one backward pass serve all parameters."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        users, both = self.backbone.rows(batch.users, wanted, rng)
        if self.weights_on != "none" and self.gram_kind != "full":
            self._weigh_batch(batch, users, both, self.offset(both, wanted), rng)
        weights = self.clusters.item_weight.index_select(0, batch.items) if self.weights_on != "none" else None
        weight, guide = (weights, None) if self.weights_on == "all" else (None, weights)
        vectors, count = self.backbone.vectors(users, both), len(batch.items)
        if vectors is not None:
            return self._loss_of_products(batch, wanted, (users, both), vectors, weight=weight, user_weight=guide)
        offset = self.offset(both, wanted)
        positives = self.positive_losses(users, both, offset, batch, guide)
        total = (positives if weight is None else positives * weight).mean()
        if self.loss_kind == "bce":
            negatives = both[count:].view(*batch.negatives.shape, -1)
            scores = self.own_share * self.backbone.score(users[:, None], negatives) + offset[count:].view(count, -1)
            total = total + self.neg_weight * F.softplus(scores).mean()
        total = total + self._shrinkage(offset[count:])
        return total + self.penalty(batch, (users, both[:count], both[count:]))

    def _loss_of_products(
        self, batch: Batch, wanted: Tensor, rows: tuple[Tensor, Tensor], vectors: tuple[Tensor, Tensor], **weights: Any
    ) -> Tensor:
        """The whole loss for a backbone with inner products; ``wanted`` are the codes of the items."""
        ego = vectors[0] is rows[0] and vectors[1] is rows[1]
        # Peers come as often as they are used: their logits lack log popularity, whatever S^g says.
        less = self.log_popularity[wanted] if self.peers else None
        start = 0 if self.peers else len(batch.items)
        if self.peers or self.in_batch:
            weights |= {"codes": wanted, "group": self.peers}
        if ego and self.propensity_kind == "learned" and closed(*rows):
            known = PropensityOffset(self.propensity, self.alpha, self.detach, self.shrink, start, less)
            return self._loss_of_vectors(batch, *vectors, ego, self.own_share, offset=known, **weights)
        offset = self.offset(rows[1], wanted)
        added = offset if less is None else offset - less
        total = self._loss_of_vectors(batch, *vectors, ego, self.own_share, offset=added, **weights)
        return total + self._shrinkage(offset[start:])

    def _shrinkage(self, drawn: Tensor) -> Tensor:
        """What the offsets of drawn items add to the loss."""
        if self.shrink == 0 or self.propensity_kind != "learned" or len(drawn) == 0:
            return drawn.new_zeros(())
        return self.shrink * drawn.var(correction=0)

    def positive_losses(
        self, users: Tensor, both: Tensor, offset: Tensor, batch: Batch, guide: Tensor | None = None
    ) -> Tensor:
        """Loss of each positive pair (ℓ⁺), [batch].

        Args:
            users: rows of the users, [batch, D].
            both: rows of the positive items and then of the negatives, [batch + ·, D].
            offset: of the same items.
            batch: the codes.
            guide: weights of the pairs for the gradient of shared parameters; the values and the gradients of items
                stay as they are.
        """
        count = len(users)
        if self.loss_kind == "bce":
            own = weighed_score(self.backbone, users, both[:count], guide)
            return F.softplus(-(self.own_share * own + offset[:count]))
        start = 0 if self.in_batch else count
        positive, others = self._cosines(users, both, start, guide)
        sharp = self._sharpness
        positive, others = sharp * positive + offset[:count], sharp * others + offset[start:]
        if self.in_batch:
            same = batch.items[:, None] == torch.cat([batch.items, batch.negatives])
            others = others.masked_fill(same, -torch.inf)
        return torch.logaddexp(positive, torch.logsumexp(others, 1)) - positive

    def _cosines(self, users: Tensor, both: Tensor, start: int, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        """S^n·τ of the positives [batch] and of each user with the other items [batch, ·]."""
        count = len(users)
        vectors = self.backbone.vectors(users if guide is None else scale_gradient(users, guide), both)
        if vectors is None:
            others = both[start:].expand(count, -1, -1)
            wide = None if guide is None else guide[:, None].expand(-1, others.shape[1])
            own = weighed_score(self.backbone, users, both[:count], guide)
            return own, weighed_score(self.backbone, users[:, None], others, wide)
        user, item = (F.normalize(one, dim=-1) for one in vectors)
        return (user * item[:count]).sum(-1), user @ item[start:].T

    def renews(self, step: int, epoch_steps: int) -> bool:
        """At the beginning of an epoch, or as asked for."""
        every = {"epoch": epoch_steps, "batch": 1}.get(str(self.recluster_every), self.recluster_every)
        return step % int(every) == 0

    def renew(self, step: int, seed: int) -> None:
        """Cluster the items and, with the full Gram matrix, weigh the clusters."""
        with evaluating(self), torch.no_grad():
            users, items = self.backbone.reps()
            offset = self.offset(items, torch.arange(len(items), device=items.device))
        self.clusters.regroup(items, self._propensities(items), stream(seed, f"icpe/clusters/{step}"))
        if self.gram_kind != "full":
            return
        drawn = stream(seed, f"icpe/negatives/{step}").integers(len(items), size=self.negative_count)
        if self._closed_form:
            mine, table, added = (one.detach().numpy() for one in (users, items, offset))
            starts = np.concatenate([[0], np.cumsum(self._train.user_counts)])
            pairs = (starts, self._train.item, self.clusters.label_array(), self.clusters.number, mine, table, added)
            gram = gram_by_kernel(self.loss_kind, self._sharpness, drawn, pairs)
        else:
            gram = self._by_autograd(self._train.user, self._train.item, drawn, stream(seed, f"icpe/pairs/{step}"))
        self.clusters.weigh(gram, stream(seed, f"icpe/bounds/{step}"))

    def _weigh_batch(
        self, batch: Batch, users: Tensor, both: Tensor, offset: Tensor, rng: torch.Generator | None
    ) -> None:
        """Weights from the gradients of one batch, whose rows are there already."""
        user, item, negatives = (one.cpu().numpy() for one in (batch.users, batch.items, batch.negatives.reshape(-1)))
        if self._closed_form:
            order = np.argsort(user, kind="stable")
            _, first = np.unique(user[order], return_index=True)
            labels = self.clusters.label_array()[np.concatenate([item, negatives])]
            mine, table, added = (one.detach().numpy() for one in (users, both, offset))
            others = np.arange(len(item), len(both))
            starts = np.append(first, len(user))
            pairs = (starts, order.astype(np.int32), labels, self.clusters.number, mine[order[first]], table, added)
            gram = gram_by_kernel(self.loss_kind, self._sharpness, others, pairs)
        else:
            gram = self._by_autograd(user, item, negatives)
        key = torch.randint(2**62, (), generator=rng, device=None if rng is None else rng.device)
        self.clusters.weigh(gram, np.random.default_rng(int(key)), keep=_KEPT if self.gram_kind == "ema" else 0.0)

    @property
    def _closed_form(self) -> bool:
        """Whether gradients at the users' rows are all there is to take, and known without autograd."""
        at_rows = bool(self.backbone.row_tables()[0]) or self.gram_at == "representations"
        return isinstance(self.backbone, DotBackbone) and at_rows and self.clusters.labels.device.type == "cpu"

    def _by_autograd(
        self, user: IntArray, item: IntArray, drawn: IntArray, rng: np.random.Generator | None = None
    ) -> FloatArray:
        negatives = torch.from_numpy(drawn.astype(np.int64)).to(self.clusters.labels.device)

        def losses(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
            wanted = torch.cat([items, negatives]) if self.loss_kind == "softmax" else items
            rows, both = self.backbone.rows(users, wanted)
            if self.gram_at == "representations":
                rows, both = rows.detach().requires_grad_(), both.detach()
            return rows, self.positive_losses(rows, both, self.offset(both, wanted), Batch(users, items, negatives))

        with evaluating(self):
            return gram_by_autograd(
                self.backbone,
                losses,
                user,
                item,
                self.clusters.label_array(),
                self.clusters.number,
                at_rows=self.gram_at == "representations" or bool(self.backbone.row_tables()[0]),
                rng=rng,
                scores=1 + (len(drawn) if self.loss_kind == "softmax" else 0),
            )

    def _propensities(self, items: Tensor) -> FloatArray:
        """S^g of all items, float64 [items]; with α = 0 there is none and the untrained network's value stands."""
        with torch.no_grad():
            values: Tensor = self.log_popularity if self.propensity_kind == "popularity" else self.propensity(items)
        found: FloatArray = values.cpu().double().numpy()
        return found

    def diagnostics(self) -> dict[str, Any]:
        """Clusters, their gradients and weights, and how the propensity follows popularity."""
        with evaluating(self), torch.no_grad():
            items = self.backbone.reps()[1]
        propensity = self._propensities(items)
        niche = ~head_mask(self._train.item_counts)
        return {
            **self.clusters.diagnostics(propensity, niche),
            "offset_std": float(np.std(propensity) * (self.kappa if self.own_share == 1 else self.alpha)),
        }

    def item_bias(self) -> Tensor | None:
        """β times what the propensity added in training."""
        if self.beta == 0:
            return None
        items = self.backbone.reps()[1]
        codes = torch.arange(len(items), device=items.device)
        # Scores are cosines, the unit of training is cosine / temperature.
        unit = self.temperature if self.loss_kind == "softmax" else 1.0
        return self.beta * unit / self.own_share * self.offset(items, codes)
