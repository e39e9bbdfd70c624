"""The power of popularity that best explains how often items occur: counts proportional to n_i^b."""

from dataclasses import dataclass

import numpy as np

from icpe.types import FloatArray, IntArray

_STEPS = 100  # a bracket that is halved this often is as narrow as floating point allows
_PRECISION = 1e-13


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Distributions over items proportional to n_i^b, where n_i ≥ 1 is the popularity of item i.

    The maximum-likelihood Poisson regression of any counts x_i on log n_i, E[x_i] = exp(a + b·log n_i), depends on the
    counts only through Σ x_i·log n_i / Σ x_i: at its solution, the mean of log n_i under n_i^b equals this number.
    Unlike a regression of log x_i, it needs no special rule for items with x_i = 0.

    Attributes:
        logs: float64 [different counts], log n in ascending order.
        items: int64 [different counts], number of items with this count.
    """

    logs: FloatArray
    items: IntArray

    @classmethod
    def of(cls, counts: IntArray) -> "PowerLaw":
        """Return the law of items with these counts [items]. Items without any count are left out."""
        # Items with equal counts share one term, and catalogues have far fewer different counts than items.
        items = np.bincount(counts)
        different = np.flatnonzero(items[1:]) + 1
        return cls(np.log(different), items[different])

    def mean_log(self, powers: FloatArray) -> FloatArray:
        """Return the mean of log n_i under n_i^b for each of the powers b, float64 [powers]."""
        return self._moments(powers)[0]

    def power(self, mean_logs: FloatArray, low: float, high: float) -> FloatArray:
        """Return the power between ``low`` and ``high`` under which log n_i has each of these means, float64 [means].

        A mean that no power in the range reaches gives the nearer limit. NaN stays NaN. If all items are equally
        popular, every power fits, and the result is NaN.

        Example:
            >>> law = PowerLaw.of(np.array([1, 4, 16]))
            >>> shown = np.array([5, 10, 20])  # proportional to the square root
            >>> law.power(np.array([shown @ np.log([1, 4, 16]) / shown.sum()]), 0, 2).round(9).tolist()
            [0.5]
        """
        if len(self.logs) < 2:
            return np.full(len(mean_logs), np.nan)
        # Newton's method inside a bracket: the mean rises with the power, and its derivative is the variance.
        left, right = np.full(len(mean_logs), float(low)), np.full(len(mean_logs), float(high))
        powers = np.clip(np.ones(len(mean_logs)), low, high)
        for _ in range(_STEPS):
            mean, variance = self._moments(powers)
            above = mean > mean_logs
            left, right = np.where(above, left, powers), np.where(above, powers, right)
            step = powers - (mean - mean_logs) / np.maximum(variance, 1e-300)
            following = np.where((step > left) & (step < right), step, (left + right) / 2)
            settled = np.abs(following - powers) <= _PRECISION
            powers = following
            if settled.all():
                break
        ends = self.mean_log(np.array([low, high], np.float64))
        powers = np.where(mean_logs <= ends[0], low, np.where(mean_logs >= ends[1], high, powers))
        return np.where(np.isnan(mean_logs), np.nan, powers)

    def _moments(self, powers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of log n_i under n_i^b, float64 [powers]."""
        exponents = powers[:, None] * (self.logs - self.logs[-1])
        share = self.items * np.exp(exponents - exponents.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        mean = share @ self.logs
        return mean, share @ self.logs**2 - mean**2
