"""Settings of the training loop."""

from typing import Any, Literal

import torch

from icpe.errors import ConfigError
from icpe.settings import Settings, setting


class TrainSettings(Settings):
    """Settings of the training loop."""

    epochs: int = setting(200, "Largest number of epochs.", least=1)
    batch_size: int = setting(1024, "Number of positives in a step.", least=1)
    lr: float = setting(1e-3, "Learning rate.", above=0.0)
    optimizer: Literal["adam", "rmsprop"] | None = setting(
        None, "Optimiser. Default: that of the backbone (RMSprop for NeuMF, else Adam)."
    )
    patience: int = setting(10, "Stop after this many validations without a better NDCG@20.", least=1)
    evaluate_every: int | None = setting(
        None, "Steps between validations. Default: one epoch, but at least 250 and at most 3,000 steps.", least=1
    )
    device: str = setting(
        "cpu",
        "Device to train on: cpu, cuda, cuda:1, mps, or auto for the best one available.",
        expected="a name such as 'cpu', 'cuda' or 'auto'",
    )

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
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).tolist()  # the device "meta" exists but holds no numbers
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ConfigError(
                f"device {self.device!r} is not available here; `icpe doctor` lists the devices of this machine, "
                "and 'cpu' always works"
            ) from error
        return device
