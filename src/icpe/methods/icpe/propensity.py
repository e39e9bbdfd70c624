"""The global propensity: the attraction of an item that is the same for all users."""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import uniform_matrix
from icpe.methods._parts.softmax_blocks import add_in_order
from icpe.threads import blocks, run_parts
from icpe.train.small_optimizer import Adam

_LEAK = 0.01


class GlobalPropensity(nn.Module):
    """S^g = MLP(x_i), paper Eq. 6: Linear(D, 32) – LeakyReLU – Linear(32, 1) on an item's representation.

    Args:
        width: D, the length of a representation.
        rng: generator of the initial values, U(±1/√inputs) as in torch's linear layers.
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
        """Return the propensities of representations, [..., D] → [...]."""
        rows, whole = items.reshape(-1, items.shape[-1]), PropensityOffset(self, 1.0)
        propensity: Tensor = _PropensityFunction.apply(whole, rows, *whole.parameters)  # type: ignore[no-untyped-call]
        return propensity.view(items.shape[:-1])


class PropensityOffset:
    """α·network + fixed numbers for the items of a batch, with its gradient in closed form.

    On so few rows, the overhead of autograd costs more than the arithmetic.

    Args:
        network: the learned part of S^g.
        alpha: share α of the propensity.
        detach: whether the items get no gradient from it.
        shrink: factor of the variance of the learned part from position ``start`` on, which is added to the loss.
        start: position of the first item that ``shrink`` concerns.
        fixed: numbers that are added for these items, [n].
    """

    def __init__(
        self,
        network: GlobalPropensity,
        alpha: float,
        detach: bool = False,
        shrink: float = 0.0,
        start: int = 0,
        fixed: Tensor | None = None,
    ) -> None:
        self._fixed = fixed
        self._alpha, self._detach, self._shrink, self._start = alpha, detach, shrink, start
        self.parameters = network.inner, network.inner_bias, network.outer, network.outer_bias
        self._numbers = [one.detach() for one in self.parameters]
        self._centred: Tensor | None = None
        self._steps = _Kernels if network.inner.device.type == "cpu" else _Torch

    @property
    def cost(self) -> float:
        """The term that the variance of the last offsets adds to the loss."""
        return 0.0 if self._centred is None else self._shrink * float(self._centred.square().mean())

    @torch.no_grad()
    def of(self, items: Tensor) -> Tensor:
        """Return the offsets, [n, D] → [n]."""
        inner, inner_bias, outer, outer_bias = self._numbers
        self._items = items.detach()
        self._hidden, offset = self._items.new_empty(len(items), len(inner)), self._items.new_empty(len(items))

        def activate(first: int, last: int) -> None:
            hidden = torch.mm(self._items[first:last], inner.T, out=self._hidden[first:last])
            self._steps.activate(hidden, inner_bias, outer, outer_bias, self._alpha, offset[first:last])

        run_parts(activate, blocks(len(items)))
        if self._shrink:
            # This must not be a view of the returned tensor: its graph and this object would keep each other alive.
            sampled = offset[self._start :]
            self._centred = sampled - sampled.mean() if len(sampled) else None
        return offset if self._fixed is None else offset.add_(self._fixed)

    @torch.no_grad()
    def back(self, grads: Tensor, item_grads: Tensor, fresh: bool = False) -> list[Tensor]:
        """Return the gradients of the parameters and add those of the items to ``item_grads``, or write them there."""
        inner, _, outer, _ = self._numbers
        if self._centred is not None:
            grads = grads.clone()
            grads[self._start :] += 2 * self._shrink / len(self._centred) * self._centred

        def back(first: int, last: int) -> list[Tensor]:
            hidden, *of_units = self._steps.back(self._hidden[first:last], outer, grads[first:last], self._alpha)
            if not self._detach:
                torch.addmm(item_grads[first:last], hidden, inner, beta=not fresh, out=item_grads[first:last])
            return [hidden.T @ self._items[first:last], *of_units]

        found = run_parts(back, blocks(len(grads)))
        return [add_in_order(parts) for parts in zip(*found, strict=True)]


class _Kernels:
    """The operations between the matrix products on the CPU, in one pass over the rows."""

    @staticmethod
    def activate(hidden: Tensor, bias: Tensor, outer: Tensor, outer_bias: Tensor, alpha: float, offset: Tensor) -> None:
        """Write the ``offset`` [n] by the outer layer [1, h]; ``hidden`` [n, h] is activated in place."""
        from icpe.kernels.hidden import activate  # late: numba takes a while to import

        activate(*(one.numpy() for one in (hidden, bias, outer, outer_bias)), _LEAK, alpha, offset.numpy())  # type: ignore[call-arg]

    @staticmethod
    def back(hidden: Tensor, outer: Tensor, grads: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return gradients of the hidden layer before activation, its bias, the outer layer and the outer bias."""
        from icpe.kernels.hidden import activate_back

        made = torch.empty_like(hidden), hidden.new_empty(hidden.shape[1]), torch.empty_like(outer), outer.new_empty(1)
        arrays = [one.numpy() for one in (hidden, outer, grads, *made)]
        activate_back(*arrays[:3], _LEAK, alpha, *arrays[3:])  # type: ignore[call-arg]
        return made


class _Torch:
    """The same operations on other devices."""

    @staticmethod
    def activate(hidden: Tensor, bias: Tensor, outer: Tensor, outer_bias: Tensor, alpha: float, offset: Tensor) -> None:
        """Do the same as :class:`_Kernels`."""
        F.leaky_relu_(hidden.add_(bias), _LEAK)
        torch.mv(hidden, outer[0], out=offset).add_(outer_bias).mul_(alpha)

    @staticmethod
    def back(hidden: Tensor, outer: Tensor, grads: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Do the same as :class:`_Kernels`."""
        grads = grads * alpha
        # This is the derivative that torch uses itself; torch.where would take sixteen times as long.
        made = torch.ops.aten.leaky_relu_backward(torch.outer(grads, outer[0]), hidden, _LEAK, True)
        return made, made.sum(0), torch.mv(hidden.T, grads)[None], grads.sum()[None]


class _PropensityFunction(torch.autograd.Function):
    """The network as a single autograd operation."""

    @staticmethod
    def forward(ctx: Any, whole: PropensityOffset, items: Tensor, *parameters: Tensor) -> Tensor:
        ctx.whole = whole
        return whole.of(items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inner = ctx.whole.parameters[0]
        item_grads = grads[0].new_empty(len(grads[0]), inner.shape[1])
        of_parameters = ctx.whole.back(grads[0], item_grads, fresh=True)
        return None, item_grads, *of_parameters


class Autoencoder(nn.Module):
    """Autoencoder (D – 32 – 8 – 32 – D) that gives a short code of each item representation, for clustering only.

    It is trained a little further at each clustering. Its weights are buffers: they belong to the state of a run, but
    the optimiser of the run does not train them.

    Args:
        width: length of a representation (D).
        rng: generator of the initial values.
    """

    hidden: ClassVar[int] = 32
    code: ClassVar[int] = 8
    steps: ClassVar[int] = 30
    lr: ClassVar[float] = 1e-2
    sample: ClassVar[int] = 1024

    def __init__(self, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        widths = (width, self.hidden, self.code, self.hidden, width)
        for layer, (narrow, wide) in enumerate(pairwise(widths)):
            weight = uniform_matrix(wide, narrow, narrow**-0.5, rng).detach()
            self.register_buffer(f"weight_{layer}", weight)
            self.register_buffer(f"bias_{layer}", torch.zeros(wide))

    def fit_codes(self, items: Tensor, rng: np.random.Generator) -> Tensor:
        """Train for some steps on the representations [items, D] and return their codes [items, 8].

        Representations and codes are divided by their standard deviations, so that they do not depend on the progress
        of training. With many items, training uses a sample drawn by ``rng``.
        """
        inputs = _standard(items.detach())
        sample = inputs
        if len(inputs) > self.sample:
            drawn = torch.from_numpy(rng.choice(len(inputs), self.sample, replace=False))
            sample = inputs[drawn.to(inputs.device)]
        numbers = [buffer.detach().clone().requires_grad_() for buffer in self.buffers()]
        optimizer = Adam(numbers, self.lr, fused=True)
        with torch.enable_grad():
            for _ in range(self.steps):
                F.mse_loss(self._run(sample, numbers, 4), sample).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        for buffer, number in zip(self.buffers(), numbers, strict=True):
            buffer.copy_(number.detach())
        with torch.no_grad():
            return _standard(self._run(inputs, numbers, 2))

    @staticmethod
    def _run(values: Tensor, numbers: list[Tensor], layers: int) -> Tensor:
        """Return the output of the first layers. The layers of the code and of the reconstruction are linear."""
        for layer in range(layers):
            values = F.linear(values, numbers[2 * layer], numbers[2 * layer + 1])
            if layer % 2 == 0:
                values = F.leaky_relu(values)
        return values


def _standard(rows: Tensor) -> Tensor:
    """Return centred rows with a standard deviation of 1 over all numbers."""
    centred = rows - rows.mean(0)
    return centred / centred.std().clamp_min(1e-12)
