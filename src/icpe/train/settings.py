"""How long, how fast, on what."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from icpe.errors import ConfigError
from icpe.train.method import check_choice, check_number


@dataclass(frozen=True)
class TrainSettings:
    """Settings of the loop.

    Attributes:
        epochs: at most.
        batch_size: positives per step.
        lr: learning rate.
        optimizer: "adam" or "rmsprop"; None takes the backbone's (RMSprop for NeuMF, else Adam).
        patience: stop after so many validations without a better NDCG@20.
        evaluate_every: steps between validations; None: an epoch, but at least 250 and at most 3000 steps.
        device: "cpu", "cuda", "mps", "cuda:1", or "auto" for the best there is.
    """

    epochs: int = 200
    batch_size: int = 1024
    lr: float = 1e-3
    optimizer: str | None = None
    patience: int = 10
    evaluate_every: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "evaluate_every"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ConfigError(f"{name} is {value!r}; expected a whole number from 1 up")
        if not isinstance(self.device, str):
            raise ConfigError(f"device is {self.device!r}; expected a name such as 'cpu', 'cuda' or 'auto'")
        check_number("lr", self.lr, least=0.0, open_left=True)
        if self.optimizer is not None:
            check_choice("optimizer", self.optimizer, ("adam", "rmsprop"))

    def as_dict(self) -> dict[str, Any]:
        """All settings that are set, as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def torch_device(self) -> torch.device:
        """The device meant.

        Raises:
            ConfigError: there is none of that name here.
        """
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).tolist()  # "meta" has no numbers
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ConfigError(
                f"device {self.device!r} is not available here; `icpe doctor` lists those that are, 'cpu' always is"
            ) from error
        return device
