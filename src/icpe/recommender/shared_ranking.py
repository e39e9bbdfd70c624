"""Ranking in a training on several processes: each ranks some of the users, and the first one evaluates.

A process has the representations of its own users and of all items, so it asks the others for the users it ranks. A
process that works alone does everything itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

import numpy as np
import torch

from icpe.data.interactions import Interactions
from icpe.metrics import Evaluation
from icpe.ranking import Lists, top_n
from icpe.ranking.tables import ScoreTable, of_users
from icpe.shards import Share, current
from icpe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ranked:
    """Users whom this process ranks.

    Attributes:
        scores: table of their scores.
        users: their codes in the table and in the logs of ``hide``, int32 [users].
        hide: logs whose pairs must not be listed.
    """

    scores: ScoreTable
    users: IntArray
    hide: Sequence[Interactions]

    @classmethod
    def of(cls, scores: ScoreTable, users: IntArray, hide: Sequence[Interactions]) -> "Ranked":
        """Return what is needed to rank some users. In a group, each process may ask for other users.

        Args:
            scores: the scores that the method returns, which are those of the users of this process.
            users: user codes, ascending.
            hide: logs whose pairs must not be listed; at least one.
        """
        group = current()
        if group is None:
            return cls(scores, users, hide)
        share = Share.of(len(hide[0].users), group)

        def take(rows: FloatArray) -> FloatArray:
            found: FloatArray = share.fetched(torch.from_numpy(rows), users).numpy()
            return found

        return cls(of_users(scores, take), np.arange(len(users), dtype=np.int32), [_only(log, users) for log in hide])


def _only(log: Interactions, users: IntArray) -> Interactions:
    """Return the log of some users, who are given in ascending order and numbered from 0."""
    place = np.full(len(log.users), -1, np.int32)
    place[users] = np.arange(len(users), dtype=np.int32)
    kept = place[log.user] >= 0
    user, item = place[log.user[kept]], log.item[kept]
    return changed(log, users=log.users.gather(users), user=user, item=item, timestamp=None, weight=None)


def my_part(users: IntArray, at_once: int = 1) -> tuple[int, int]:
    """Return the first and the last + 1 of the users whom this process ranks, in whole chunks of users."""
    group = current()
    if group is None:
        return 0, len(users)
    chunks = -(-len(users) // at_once)
    ends = (min(len(users), at_once * (chunks * rank // group.size)) for rank in (group.rank, group.rank + 1))
    first, last = ends
    return first, last


def of_all(chunks: list[dict[str, FloatArray]], shown: BoolArray) -> tuple[list[dict[str, FloatArray]], BoolArray]:
    """Return the sums of the chunks of all processes, in the order of the users, and what any of them has shown."""
    group = current()
    if group is None:
        return chunks, shown
    mine = [{name: values.tolist() for name, values in sums.items()} for sums in chunks]
    every = [sums for part in group.all_values(mine) for sums in part]
    found = [{name: np.array(values) for name, values in sums.items()} for sums in every]
    return found, group.any_of(torch.from_numpy(shown)).numpy()


def evaluated(
    scores: ScoreTable,
    users: IntArray,
    n: int,
    hide: Sequence[Interactions],
    evaluate: Callable[[Lists], Evaluation],
) -> Evaluation:
    """Return the evaluation of the lists of some users.

    In a group, each process ranks a part of the users. The first process has all lists, and alone has values of every
    user; the others get its metrics.
    """
    group = current()
    if group is None:
        return evaluate(top_n(scores, users, n, hide=hide))
    begin, end = my_part(users)
    mine = Ranked.of(scores, users[begin:end], hide)
    lists = top_n(mine.scores, mine.users, n, hide=mine.hide)
    counts = group.all_values(len(lists))
    pieces = [piece.numpy() for piece in group.pieces(torch.from_numpy(lists.items), counts)]
    if group.rank:
        return Evaluation(group.agreed(None))
    items = np.concatenate(pieces)
    found = evaluate(Lists(users, items, np.broadcast_to(np.float32(0), items.shape)))
    group.agreed(found.values)
    return found
