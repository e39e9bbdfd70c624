"""Numbers that summarise a front: the curve of accuracy and exposure over the settings of a model."""

import numpy as np

from icpe.errors import ConfigError
from icpe.types import FloatArray


def hypervolume(x: FloatArray, y: FloatArray) -> float:
    """Area that the points (x_i, y_i) dominate: all (a, b) with 0 ≤ a ≤ x_i and 0 ≤ b ≤ y_i for some i.

    A larger area means a better front, if larger x and larger y are better. A new point never makes it smaller.

    Raises:
        ConfigError: the arrays differ in length, or a value is negative or not finite.

    Example:
        >>> hypervolume(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
        4.0
    """
    x, y = _points(x=x, y=y)
    order = np.argsort(-x, kind="stable")
    x, y = x[order], y[order]
    highest = np.maximum.accumulate(y)  # the best y among the points at least as far to the right
    return float((x - np.append(x[1:], 0.0)) @ highest) if len(x) else 0.0


def accuracy_at(share: float, accuracy: FloatArray, apt: FloatArray) -> float | None:
    """Best accuracy of a curve where its niche share is at least ``share``, or None if it does not get there.

    The curve runs straight from each point to the next, so it also has values between the settings.

    Args:
        share: wanted niche share.
        accuracy: float [settings], accuracy at each setting, in the order of the settings.
        apt: float [settings], niche share at each setting.

    Raises:
        ConfigError: the arrays differ in length, or a value is negative or not finite.

    Example:
        >>> accuracy_at(0.25, np.array([0.75, 0.25]), np.array([0.0, 0.5]))
        0.5
    """
    accuracy, apt = _points(accuracy=accuracy, apt=apt)
    reached = apt >= share
    if not reached.any():
        return None
    best = accuracy[reached].max()
    # Where one end of a piece reaches the share and the other does not, the curve crosses it in between.
    crossed = np.flatnonzero(reached[1:] != reached[:-1])
    if len(crossed):
        way = (share - apt[crossed]) / (apt[crossed + 1] - apt[crossed])
        best = max(best, (accuracy[crossed] + way * (accuracy[crossed + 1] - accuracy[crossed])).max())
    return float(best)


def _points(**axes: FloatArray) -> list[FloatArray]:
    """Both axes as float64 [points], checked."""
    found = {name: np.asarray(values, np.float64) for name, values in axes.items()}
    shapes = {name: values.shape for name, values in found.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise ConfigError(f"the axes have the shapes {shapes}; expected one number per point on both")
    for name, values in found.items():
        if not (np.isfinite(values) & (values >= 0)).all():
            raise ConfigError(f"{name} is {values.tolist()}; expected finite numbers of at least 0")
    return list(found.values())
