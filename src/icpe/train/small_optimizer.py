"""Optimisers for small tasks, for which those of torch have too much overhead."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from icpe.backbones.rows import share_of
from icpe.kernels.rows import adam_all, rmsprop_all
from icpe.train.pieces import Piece
from icpe.train.row_optimizer import ALPHA, BETA1, BETA2, EPS

LARGEST = 2**16  # number of values in a parameter above which the fused form of torch is as fast


class SmallOptimizer:
    """Adam or RMSprop (smoothing 0.99), equal to torch up to rounding. Parameters without a gradient do not move.

    Args:
        name: ``"adam"`` or ``"rmsprop"``.
        parameters: parameters on the CPU.
        lr: learning rate.
    """

    def __init__(self, name: str, parameters: Sequence[nn.Parameter], lr: float) -> None:
        self._adam, self._parameters, self._lr = name == "adam", list(parameters), lr
        self._steps = [0] * len(self._parameters)
        self._moments = [one.detach().new_zeros(2 if self._adam else 1, one.numel()) for one in self._parameters]
        self._arrays = [  # created once; they share memory with the parameters
            (one.detach().view(-1).numpy(), *moments.numpy())
            for one, moments in zip(self._parameters, self._moments, strict=True)
        ]

    @staticmethod
    def suits(parameter: nn.Parameter) -> bool:
        """Return whether this optimiser can train a parameter."""
        plain = parameter.device.type == "cpu" and parameter.dtype in (torch.float32, torch.float64)
        # The size of the whole table decides, so that every number of processes has the same arithmetic.
        share = share_of(parameter)
        size = parameter.numel() if share is None else share.rows * parameter.shape[1]
        return plain and size <= LARGEST and parameter.is_contiguous()

    def step(self) -> None:
        """Take one step along the gradients and clear them."""
        for number, (parameter, (values, *moments)) in enumerate(zip(self._parameters, self._arrays, strict=True)):
            if parameter.grad is None:
                continue
            self._steps[number] += 1
            grads = parameter.grad.numpy().reshape(-1)
            if self._adam:
                mean, square = moments
                adam_all(values, grads, mean, square, self._steps[number], self._lr, BETA1, BETA2, EPS)
            else:
                rmsprop_all(values, grads, moments[0], self._lr, ALPHA, EPS)
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Return the complete state by name."""
        moments = {f"moments.{number}": one for number, one in enumerate(self._moments)}
        return {"steps": torch.tensor(self._steps), **moments}

    def pieces(self) -> dict[str, Piece]:
        """Return which part of each tensor this process holds, for parameters with rows of several processes."""
        found = ((number, one, share_of(one)) for number, one in enumerate(self._parameters))
        return {
            f"moments.{number}": Piece.of(share, axis=1, width=one.shape[1])
            for number, one, share in found
            if share is not None
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`tensors` returned."""
        self._steps = tensors["steps"].tolist()
        for number, one in enumerate(self._moments):
            one.copy_(tensors[f"moments.{number}"])


class Adam:
    """Adam with the same bits as ``torch.optim.Adam``, for tensors that a method trains on its own.

    Creating an optimiser of torch imports its compiler, which takes almost a second although nothing is compiled. This
    class calls the function behind it.

    Args:
        tensors: tensors that require a gradient.
        lr: learning rate.
        fused: whether to use the fused form of torch, which rounds differently.
    """

    def __init__(self, tensors: Sequence[Tensor], lr: float, fused: bool = False) -> None:
        self._tensors, self._lr, self._fused = list(tensors), lr, fused
        self._means, self._squares = ([torch.zeros_like(one) for one in tensors] for _ in range(2))
        self._steps = [torch.zeros((), device=one.device if fused else "cpu") for one in tensors]

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the gradients, which every tensor must have, and clear them."""
        grads = [one.grad for one in self._tensors if one.grad is not None]
        adam(
            self._tensors,
            grads,
            self._means,
            self._squares,
            [],
            self._steps,
            foreach=False,
            fused=self._fused,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self._lr,
            weight_decay=0.0,
            eps=EPS,
            maximize=False,
        )
        for one in self._tensors:
            one.grad = None
