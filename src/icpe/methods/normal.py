"""Training without debiasing: the baseline for every comparison."""

from typing import ClassVar

from icpe.methods._parts.sampled_loss import LossSettings, SampledLoss
from icpe.settings import setting


class NormalSettings(LossSettings):
    """Settings of :class:`Normal`."""

    negatives: int | None = setting(
        None,
        "Negatives for each positive, or shared by the batch for softmax. Default: 1; for softmax 256, or 16 where the "
        "score is not an inner product.",
        least=1,
        search=(1, 4),
    )
    neg_weight: float = setting(1.0, "Factor of the negative term of bce.", least=0.0)
    norm_power: float = setting(
        0.0,
        "For softmax, the power of an item's norm by which ranking multiplies the cosine. Popular items have large "
        "norms, so a power above 0 brings them back.",
        least=0.0,
        ranking=True,
    )


class Normal(SampledLoss):
    """All interactions have the same weight; see :class:`SampledLoss` for the losses.

    Example:
        >>> from icpe.backbones import MF
        >>> Normal(MF(dim=16), loss="bpr").settings.negatives
        1
    """

    name: ClassVar[str] = "normal"
    shareable: ClassVar[bool] = True
    Settings = NormalSettings
    settings: NormalSettings

    @property
    def neg_weight(self) -> float:
        """Factor of the negative term of bce."""
        return self.settings.neg_weight

    @property
    def norm_power(self) -> float:
        """Power of an item's norm in ranking."""
        return self.settings.norm_power
