"""Settings of the splits, declared once."""

from typing import Literal, Self

from pydantic import model_validator

from icpe.settings import Settings, setting

Mode = Literal["item_quota", "ips"]


class ShareSettings(Settings):
    """Settings that all splits have: the shares of the parts."""

    train: float = setting(0.8, "Share of the interactions for training.", above=0.0, below=1.0)
    valid: float = setting(0.1, "Share of the interactions for validation; the rest is test.", least=0.0, below=1.0)

    @model_validator(mode="after")
    def _leave_something_for_test(self) -> Self:
        if self.train + self.valid >= 1 - 1e-9:
            raise ValueError(
                f"train is {self.train:g} and valid is {self.valid:g}; expected shares that leave something for test, "
                "such as 0.8 and 0.1"
            )
        return self


class UnbiasedSettings(ShareSettings):
    """Settings of the split that spreads held-out interactions evenly over items."""

    seed: int = setting(0, "Seed of every random choice of the split.", least=0)
    mode: Mode = setting(
        "item_quota",
        "How to hold out: the same number of the latest interactions of every item (item_quota), or a draw with "
        "weights 1/popularity (ips).",
    )
    cap: float | None = setting(
        None, "Mode ips only: percentile of the weights at which they are capped.", above=0.0, most=100.0
    )

    @model_validator(mode="after")
    def _cap_only_ips(self) -> Self:
        if self.cap is not None and self.mode != "ips":
            raise ValueError(f"cap is {self.cap:g}, but mode is {self.mode}; only mode ips has a cap")
        return self


class ChronologicalSettings(ShareSettings):
    """Settings of the split at one moment in time for all users."""


class RandomSettings(ShareSettings):
    """Settings of the split in which every interaction has the same chance."""

    seed: int = setting(0, "Seed of every random choice of the split.", least=0)


KINDS: dict[str, type[Settings]] = {
    "unbiased": UnbiasedSettings,
    "chronological": ChronologicalSettings,
    "random": RandomSettings,
}
"""The settings of each kind of split, by its name."""


def owner(kind: str) -> str:
    """The words by which messages call a kind of split."""
    return f"the {kind} split"
