"""How much everybody is drawn to an item, whoever they are: the global propensity."""

from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.models.base import uniform_matrix


class GlobalPropensity(nn.Module):
    """S^g = MLP(x_i), paper Eq. 6: Linear(D, 32) – LeakyReLU – Linear(32, 1) on an item's representation.

    Args:
        width: D, the length of a representation.
        rng: start values, U(±1/√inputs) as torch's own linear layers have.
    """

    hidden: ClassVar[int] = 32

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        inner, outer = width**-0.5, self.hidden**-0.5
        self.inner = uniform_matrix(self.hidden, width, inner, rng)
        self.inner_bias = nn.Parameter(uniform_matrix(1, self.hidden, inner, rng).detach()[0])
        self.outer = uniform_matrix(1, self.hidden, outer, rng)
        self.outer_bias = nn.Parameter(uniform_matrix(1, 1, outer, rng).detach()[0])

    def forward(self, items: Tensor) -> Tensor:
        """Propensities of representations, [..., D] → [...]."""
        hidden = F.leaky_relu(F.linear(items, self.inner, self.inner_bias))
        return F.linear(hidden, self.outer, self.outer_bias).squeeze(-1)


class Autoencoder(nn.Module):
    """A short code of each item's representation (D – 32 – 8 – 32 – D), for clustering only.

    It is trained a little at each clustering and goes on from where it was. Its numbers are buffers: they belong to
    the state of a run but not to what the run's optimiser trains.

    Args:
        width: D.
        rng: start values.
    """

    hidden: ClassVar[int] = 32
    code: ClassVar[int] = 8
    steps: ClassVar[int] = 30
    lr: ClassVar[float] = 1e-2

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        widths = (width, self.hidden, self.code, self.hidden, width)
        for layer, (narrow, wide) in enumerate(pairwise(widths)):
            weight = uniform_matrix(wide, narrow, narrow**-0.5, rng).detach()
            self.register_buffer(f"weight_{layer}", weight)
            self.register_buffer(f"bias_{layer}", torch.zeros(wide))

    def fit_codes(self, items: Tensor) -> Tensor:
        """Train for some steps on the representations [items, D] and return their codes [items, 8].

        Representations are divided by their spread first and codes after, so that neither depends on how far training
        has come.
        """
        items = items.detach()
        inputs = (items - items.mean(0)) / items.std().clamp_min(1e-12)
        numbers = [buffer.detach().clone().requires_grad_() for buffer in self.buffers()]
        optimizer = torch.optim.Adam(numbers, lr=self.lr)
        with torch.enable_grad():
            for _ in range(self.steps):
                optimizer.zero_grad()
                F.mse_loss(self._run(inputs, numbers, 4), inputs).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        for buffer, number in zip(self.buffers(), numbers, strict=True):
            buffer.copy_(number.detach())
        with torch.no_grad():
            codes = self._run(inputs, numbers, 2)
            return (codes - codes.mean(0)) / codes.std().clamp_min(1e-12)

    @staticmethod
    def _run(values: Tensor, numbers: list[Tensor], layers: int) -> Tensor:
        """The first layers applied; the code and the reconstruction are linear."""
        for layer in range(layers):
            values = F.linear(values, numbers[2 * layer], numbers[2 * layer + 1])
            if layer % 2 == 0:
                values = F.leaky_relu(values)
        return values
