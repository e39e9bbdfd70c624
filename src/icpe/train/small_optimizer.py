"""Adam and RMSprop for small parameters on the CPU, for which the optimisers of torch have too much overhead."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from icpe.kernels.rows import adam_all, rmsprop_all
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
        return plain and parameter.numel() <= LARGEST and parameter.is_contiguous()

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

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`tensors` returned."""
        self._steps = tensors["steps"].tolist()
        for number, one in enumerate(self._moments):
            one.copy_(tensors[f"moments.{number}"])
