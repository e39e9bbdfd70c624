"""Named random streams. Every purpose draws from its own stream, and no stream depends on another."""

from typing import Any

import numpy as np

from icpe.errors import ConfigError
from icpe.types import UIntArray


def stream(seed: int, name: str) -> np.random.Generator:
    """Return a generator for one purpose. The same seed and name give the same numbers on every machine.

    Example:
        >>> bool(stream(0, "negatives").random() == stream(0, "negatives").random())
        True
    """
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; expected a whole number from 0 up")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([int(seed), *name.encode()])))


def random_keys(seed: int, name: str, size: int) -> UIntArray:
    """Return raw 64-bit random numbers, uint64 [size]. They are the same in all versions of NumPy."""
    return np.asarray(stream(seed, name).bit_generator.random_raw(size), dtype=np.uint64)


class NoDraws(np.random.Generator):
    """Generator whose normal and uniform numbers are all 0.5, for tables that a saved model replaces at once.

    Drawing the tables of a large model takes several times as long as reading them.

    Example:
        >>> NoDraws().standard_normal((1, 2), dtype=np.float32)
        array([[0.5, 0.5]], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return 0.5 everywhere."""
        return np.full(size or (), 0.5, dtype)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return 0.5 everywhere."""
        return np.full(size or (), 0.5, dtype)
