"""Logs and generators that the tests of backbones share."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
import torch

from icpe import Interactions

Log = Callable[..., Interactions]


@pytest.fixture(scope="session")
def log_of() -> Log:
    """Return a function that makes a log of given pairs, with a given number of users and items."""

    def make(pairs: list[tuple[int, int]], users: int, items: int) -> Interactions:
        user, item = np.array(sorted(pairs), np.int32).reshape(-1, 2).T
        return Interactions.from_codes(pl.Series(range(users)), pl.Series(range(items)), user, item)

    return make


@pytest.fixture
def generator() -> Callable[[int], torch.Generator]:
    return lambda seed: torch.Generator().manual_seed(seed)
