"""The settings of ICPE."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from icpe.backbones.base import Backbone
from icpe.methods._parts.sampled_loss import LossSettings
from icpe.settings import setting

PEERS = 1024
Features = Literal["propensity", "paper", "popularity", "plain"]


class ICPESettings(LossSettings):
    """Settings of :class:`~icpe.methods.icpe.ICPE`."""

    loss: Literal["softmax", "bce"] | None = setting(  # type: ignore[assignment]  # completed() fills it in
        None,
        "Loss: softmax over cosine / temperature, or bce as in the paper. Default: softmax where scores are inner "
        "products, else bce.",
    )
    temperature: float = setting(
        0.25, "Temperature τ of the softmax at the start.", above=0.0, search=(0.15, 0.2, 0.25, 0.3)
    )
    cooling: float = setting(
        0.9,
        "Factor of the temperature after each validation without a better value; 1 keeps the temperature.",
        above=0.0,
        most=1.0,
    )
    reg: float | None = setting(
        None, "Weight λ of the L2 term. Default: 0 for softmax, else that of the backbone.", least=0.0
    )
    batch_negatives: bool = setting(
        False, "For softmax, whether the positives of other users in the batch serve as negatives too."
    )
    peers: int | None = setting(
        None,
        "For softmax on inner products, the size of groups of positives that are each other's negatives; 0 samples "
        "negatives instead. Their logits lack log popularity, so that both scores keep their meaning. Default: 1,024 "
        "where possible, else 0.",
        least=0,
    )
    alpha: float = setting(
        0.1, "Share α of the propensity in the training score.", least=0.0, most=0.999, search=(0.03, 0.1, 0.3)
    )
    propensity: Literal["learned", "popularity"] = setting(
        "learned", "Propensity of items: strength · log of the training count plus a learned network, or without one."
    )
    strength: float = setting(
        0.7,
        "Strength κ of log popularity in the propensity; with 0 the network learns all of it, as in the paper.",
        least=0.0,
        search=(0.0, 0.5, 0.7, 0.85, 1.0),
    )
    shrink: float = setting(
        0.5,
        "Factor of the variance of the learned part of the propensity term, added to the loss. At 0 the propensity "
        "takes all of popularity out of the personal score; larger values leave some of it there.",
        least=0.0,
        search=(0.0, 0.02, 0.1, 0.5),
    )
    detach: bool = setting(False, "Whether the propensity leaves the item representations unchanged.")
    clusters: int = setting(4, "Largest number of item clusters (K).", least=1)
    features: Features = setting(
        "propensity",
        "Features of the clustering: code and rank of the propensity (propensity), code of the item's representation "
        "(paper), quantiles of the training count (popularity), or plain k-means on the code (plain, ablation w/o PD).",
    )
    recluster_every: Annotated[int, Field(ge=1)] | Literal["epoch", "batch"] = setting(
        "epoch", "When to cluster again: every epoch, every batch (as printed in the paper; slow), or every N steps."
    )
    gram: Literal["full", "batch", "ema"] = setting(
        "full",
        "Gradients that weigh the clusters: of all training pairs at each clustering (full), of every batch (batch), "
        "or their moving average (ema).",
    )
    gram_at: Literal["parameters", "representations"] = setting(
        "parameters",
        "Where gradients are taken: at the trainable parameters, or at the users' representations, which is much "
        "cheaper for LightGCN and the same for MF.",
    )
    per_item: bool = setting(True, "Whether a cluster's gradient is divided by its number of items.")
    bounds: tuple[float, float] = setting(
        (0.85, 0.85),
        "Lower bounds of the cluster weights as shares of 1/K: one number, or two to draw between.",
        search=(0.7, 0.85, 1.0),
        expected="a share of 1/clusters from 0 to 1, such as 0.9, or two in ascending order",
    )
    runs: int = setting(
        1,
        "Number of Pareto solutions from which the least-misery rule chooses (T); more than one needs two bounds.",
        least=1,
    )
    weights_on: Literal["shared", "all", "none"] = setting(
        "all", "Which gradients the cluster weights change: of shared parameters (the paper), all, or none (w/o CR)."
    )
    beta: float | None = setting(
        None,
        "The dial: share of the propensity that ranking puts back: 0 counterfactual, 1 factual (ablation w/o CI), "
        "below 0 further towards niche items. Default: chosen on the validation part, or 0 without one.",
        least=-1e6,
        most=1e6,
        ranking=True,
    )

    @field_validator("bounds", mode="before")
    @classmethod
    def _as_pair(cls, bounds: Any) -> Any:
        ends = bounds if isinstance(bounds, tuple) else (bounds, bounds)
        numbers = len(ends) == 2 and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        if not numbers or not 0 <= ends[0] <= ends[1] <= 1:
            raise ValueError("out of range")
        return tuple(float(end) for end in ends)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.batch_negatives and self.loss == "bce":
            raise ValueError("batch_negatives is True with loss 'bce'; negatives from the batch need loss='softmax'")
        expected = (("loss", "softmax"), ("batch_negatives", False), ("gram", "full")) if self.peers else ()
        for name, value in expected:
            if (found := getattr(self, name)) not in (value, None):
                raise ValueError(f"peers is {self.peers} with {name}={found!r}; expected {name}={value!r}, or peers=0")
        return self

    def completed(self, backbone: Backbone) -> Self:
        """Return the settings with the loss, the L2 weight, the number of negatives and the peers filled in."""
        settings = self
        if self.loss is None:
            among_batch = bool(self.batch_negatives or self.peers)  # only the softmax can use the batch
            settings = settings.replace(loss="softmax" if backbone.inner_product or among_batch else "bce")
        if self.reg is None and settings.loss == "softmax":
            settings = settings.replace(reg=0.0)
        if self.peers is None:
            with_peers = settings.loss == "softmax" and self.gram == "full" and not self.batch_negatives
            settings = settings.replace(peers=PEERS if with_peers and backbone.inner_product else 0)
        return super(ICPESettings, settings).completed(backbone)
