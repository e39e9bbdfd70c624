"""The lists of all users, ranked on the machines of a cluster."""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from icpe.jobs.engine import Job, Workers, run_in_order
from icpe.jobs.travel import model_input
from icpe.recommender.model import Model

_SHARDS = 64  # enough for the shards of a cluster to end at about the same time
_FEWEST, _MOST = 256, 16_384  # users of a shard


def stream_everybody(
    model: Model, workers: Workers, n: int, *, plugins: Iterable[str] = (), **limits: Any
) -> Iterator[pl.DataFrame]:
    """Yield the lists of all users in pieces, in the order of :meth:`Model.stream`. Each job ranks a shard of users.

    Args:
        model: the model, which travels to the machines once.
        workers: where to rank.
        n: length of the lists.
        plugins: Python files with the backbone or the method of the model.
        limits: ``hide_seen``, ``items`` and ``exclude`` of :meth:`Model.recommend`.

    Raises:
        IcpeError: a shard could not be ranked.
    """
    users = len(model.log.users)
    size = min(max(users // _SHARDS, _FEWEST), _MOST)
    inputs = (model_input(model, plugins),)
    jobs = (Job(first, (first, size, n, limits), inputs=inputs) for first in range(0, users, size))
    return run_in_order(jobs, _rank, workers)


def _rank(first: int, size: int, n: int, limits: dict[str, Any], model: Model) -> pl.DataFrame:
    return model.recommend(model.log.users.slice(first, size), n, **limits)
