"""Settings of the training loop."""

import os
from typing import Any, Literal, Self

import torch
from pydantic import model_validator

from icpe.errors import ConfigError
from icpe.settings import Settings, setting
from icpe.shards import current


class TrainSettings(Settings):
    """Settings of the training loop."""

    epochs: int = setting(200, "Largest number of epochs.", least=1)
    batch_size: int = setting(1024, "Number of positives in a step.", least=1)
    lr: float = setting(1e-3, "Learning rate.", above=0.0)
    optimizer: Literal["adam", "rmsprop"] | None = setting(
        None, "Optimiser. Default: that of the backbone (RMSprop for NeuMF, else Adam)."
    )
    patience: int = setting(10, "Stop after this many validations without a better value of the goal.", least=1)
    goal: Literal["traffic", "balanced", "none"] = setting(
        "traffic",
        "What the dial and early stopping aim at on the validation part: NDCG on the part as it is (traffic), NDCG for "
        "all items alike (balanced), or NDCG with the dial at rest (none).",
    )
    niche_share: float | None = setting(
        None,
        "Share of the places that the dial gives to niche items. Default: the share that is best for the goal.",
        least=0.0,
        most=1.0,
    )
    evaluate_every: int | None = setting(
        None, "Steps between validations. Default: one epoch, but at least 250 and at most 3,000 steps.", least=1
    )
    device: str = setting(
        "cpu",
        "Device to train on: cpu, cuda, cuda:1, mps, or auto for the best one available.",
        expected="a name such as 'cpu', 'cuda' or 'auto'",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.niche_share is not None and self.goal == "none":
            raise ValueError(
                f"niche_share is {self.niche_share:g} with goal 'none', which leaves the dial at rest; expected "
                "goal='traffic' or goal='balanced'"
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that have a value, as plain values."""
        return {name: value for name, value in super().as_dict().items() if value is not None}

    def torch_device(self) -> torch.device:
        """Return the device to train on.

        Raises:
            ConfigError: this machine has no device of that name.
        """
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        if name == "cuda" and current() is not None:
            name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"  # each process of torchrun has a card of its own
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).tolist()  # the device "meta" exists but holds no numbers
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ConfigError(
                f"device {self.device!r} is not available here; `icpe doctor` lists the devices of this machine, "
                "and 'cpu' always works"
            ) from error
        return device
