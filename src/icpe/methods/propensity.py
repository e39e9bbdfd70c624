"""How much everybody is drawn to an item, whoever they are: the global propensity."""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.models.base import uniform_matrix

_LEAK = 0.01


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
        numbers = (self.inner, self.inner_bias, self.outer, self.outer_bias)
        propensity: Tensor = _TwoLayers.apply(items, *numbers)  # type: ignore[no-untyped-call]
        return propensity


class _TwoLayers(torch.autograd.Function):
    """The network as one operation: on a batch's few rows autograd's bookkeeping costs more than the sums."""

    @staticmethod
    def forward(ctx: Any, items: Tensor, inner: Tensor, inner_bias: Tensor, outer: Tensor, bias: Tensor) -> Tensor:
        hidden = F.leaky_relu(F.linear(items, inner, inner_bias), _LEAK)
        ctx.save_for_backward(items, inner, outer, hidden)
        return F.linear(hidden, outer, bias).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        items, inner, outer, hidden = ctx.saved_tensors
        width = hidden.shape[-1]
        grad, rows, hidden = gradients[0].reshape(-1, 1), items.reshape(-1, inner.shape[1]), hidden.reshape(-1, width)
        at_hidden = grad * outer
        at_hidden = torch.where(hidden > 0, at_hidden, _LEAK * at_hidden)
        at_items = (at_hidden @ inner).view_as(items)
        return at_items, at_hidden.T @ rows, at_hidden.sum(0), grad.T @ hidden, grad.sum(0)


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
    sample: ClassVar[int] = 4096

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        widths = (width, self.hidden, self.code, self.hidden, width)
        for layer, (narrow, wide) in enumerate(pairwise(widths)):
            weight = uniform_matrix(wide, narrow, narrow**-0.5, rng).detach()
            self.register_buffer(f"weight_{layer}", weight)
            self.register_buffer(f"bias_{layer}", torch.zeros(wide))

    def fit_codes(self, items: Tensor, rng: np.random.Generator) -> Tensor:
        """Train for some steps on the representations [items, D] and return their codes [items, 8].

        Representations are divided by their spread first and codes after, so that neither depends on how far training
        has come. Of many items a sample, drawn by ``rng``, is enough to learn from.
        """
        inputs = _standard(items.detach())
        sample = inputs
        if len(inputs) > self.sample:
            drawn = torch.from_numpy(rng.choice(len(inputs), self.sample, replace=False))
            sample = inputs[drawn.to(inputs.device)]
        numbers = [buffer.detach().clone().requires_grad_() for buffer in self.buffers()]
        optimizer = torch.optim.Adam(numbers, lr=self.lr)
        with torch.enable_grad():
            for _ in range(self.steps):
                optimizer.zero_grad()
                F.mse_loss(self._run(sample, numbers, 4), sample).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        for buffer, number in zip(self.buffers(), numbers, strict=True):
            buffer.copy_(number.detach())
        with torch.no_grad():
            return _standard(self._run(inputs, numbers, 2))

    @staticmethod
    def _run(values: Tensor, numbers: list[Tensor], layers: int) -> Tensor:
        """The first layers applied; the code and the reconstruction are linear."""
        for layer in range(layers):
            values = F.linear(values, numbers[2 * layer], numbers[2 * layer + 1])
            if layer % 2 == 0:
                values = F.leaky_relu(values)
        return values


def _standard(rows: Tensor) -> Tensor:
    """Rows around 0 with a spread of 1 over all numbers."""
    centred = rows - rows.mean(0)
    return centred / centred.std().clamp_min(1e-12)
