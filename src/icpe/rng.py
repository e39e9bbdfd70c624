"""Named random streams. Every purpose draws from its own stream, and no stream depends on another."""

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
