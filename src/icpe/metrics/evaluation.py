"""All metrics of a set of lists, computed in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from icpe import columns as col
from icpe.data.interactions import Interactions
from icpe.data.popularity import head_mask
from icpe.errors import ConfigError, DataError
from icpe.metrics import accuracy, balanced, exposure
from icpe.metrics.hits import Hits
from icpe.ranking import Lists, ScoreTable, top_n
from icpe.types import BoolArray, FloatArray, IntArray

_BY_GROUP = (("recall", accuracy.recall), ("ndcg", accuracy.ndcg))
_OVERALL = (("precision", accuracy.precision), ("mrr", accuracy.mrr), ("hit_rate", accuracy.hit_rate))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of a set of lists.

    Attributes:
        values: metrics by name: ``recall@20``, ``ndcg@20``, ``recall_head@20`` and so on. ``users``, ``users_head`` and
            ``users_niche`` are the numbers of users in the averages. A metric is NaN without any user to average over.
            ``balanced_power`` and ``balanced_pairs`` are the power of the propensity behind ``balanced_recall`` and
            ``balanced_ndcg`` and the effective number of held-out pairs, see :mod:`icpe.metrics.balanced`.
        per_user: frame with ``user_id``, a column for each metric that single users have, and a row for each evaluated
            user. A value is null if the user has no relevant item of the group. The mean of a column is the metric,
            therefore the balanced metrics contain the share of the user in the average. None unless requested.
        intervals: bounds of 95 % bootstrap intervals over users, by metric. Empty unless bias was measured, too.
    """

    values: dict[str, float]
    per_user: pl.DataFrame | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


def evaluate(
    scores: ScoreTable,
    test: Interactions,
    train: Interactions,
    hide: Sequence[Interactions] | None = None,
    n: Sequence[int] = (20,),
    per_user: bool = False,
    memory_mb: int = 256,
) -> Evaluation:
    """Rank all items for the users of ``test`` and evaluate the lists.

    Args:
        scores: table of scores to rank by.
        test: relevant items of each user.
        train: log the model was trained on. It decides which items are head and which are niche.
        hide: logs whose pairs must not be listed; None hides ``train`` only. For final results on the test part, hide
            both the training and the validation part.
        n: list lengths.
        per_user: whether to return the values of each user as well.
        memory_mb: limit of the working memory for ranking.
    """
    lengths = _lengths(n)
    users = np.flatnonzero(test.user_counts).astype(np.int32)
    lists = top_n(scores, users, int(lengths.max()), (train,) if hide is None else hide, memory_mb=memory_mb)
    return evaluate_lists(lists, test, train, n, per_user)


def evaluate_lists(
    lists: Lists,
    test: Interactions,
    train: Interactions,
    n: Sequence[int] = (20,),
    per_user: bool = False,
    head: BoolArray | None = None,
) -> Evaluation:
    """Evaluate lists against a test set, for all lengths in ``n``.

    Only users with a list and at least one test item are evaluated. A ``_head`` or ``_niche`` metric counts relevant
    items of that group only and is averaged over the users who have at least one. Head items are the 20 % with the most
    training pairs, unless a mask ``head`` [items] is given. All other items are niche, including items without training
    pairs.

    Raises:
        DataError: no user of the lists has a test item, a user has two lists, or the logs and lists do not match.
        ConfigError: a length is below 1 or longer than the lists.

    Example:
        >>> log = Interactions.read(pl.DataFrame({"user_id": [1, 1, 2, 2], "item_id": [1, 2, 1, 3]}))
        >>> train, test = log.keep(log.item == 0), log.keep(log.item > 0)
        >>> lists = Lists(np.array([0, 1]), np.array([[1, 2], [1, 2]]), np.zeros((2, 2), np.float32))
        >>> values = evaluate_lists(lists, test, train, n=[1, 2]).values
        >>> values["recall@1"], values["recall@2"], values["users"]
        (0.5, 1.0, 2)
    """
    lengths = _lengths(n)
    _check(lists, test, train, lengths)
    users, items = _evaluated(lists, test, int(lengths.max()))
    head = head_mask(train.item_counts) if head is None else head
    groups = _groups(users, items, test, head)
    table = _per_list(groups, items, train, ~head, lengths)
    weights = balanced.item_weights(train, test)
    table |= _balanced(groups[""], users, test, weights.weights, lengths)
    values = {name: accuracy.average(column) for name, column in table.items()}
    for length in lengths:
        shown = exposure.exposure(items[:, :length], len(train.items))
        values[f"coverage@{length}"] = exposure.coverage(shown)
        values[f"gini@{length}"] = exposure.gini(shown)
    for suffix, hits in groups.items():
        values[f"users{suffix}"] = int(np.count_nonzero(hits.relevant))
    values |= {"balanced_power": weights.power, "balanced_pairs": weights.effective_size}
    if not per_user:
        return Evaluation(values)
    ids = train.users.gather(users).alias(col.USER)
    return Evaluation(values, pl.DataFrame([ids]).with_columns(_nullable(table)))


def _groups(users: IntArray, items: IntArray, test: Interactions, head: BoolArray) -> dict[str, Hits]:
    """Hits on all, head and niche items, by the suffix of the metric names."""
    hits = Hits.find(users, items, test)
    wanted = np.bincount(test.user[head[test.item]], minlength=len(test.users))[users]
    return {"": hits, "_head": hits.among(head, wanted), "_niche": hits.among(~head, hits.relevant - wanted)}


def _per_list(
    groups: dict[str, Hits], items: IntArray, train: Interactions, niche: BoolArray, lengths: IntArray
) -> dict[str, FloatArray]:
    """Metrics that every single list has, by name, each float64 [lists]."""
    table: dict[str, FloatArray] = {}
    apt = exposure.apt(items, niche, lengths)
    popularity = exposure.popularity(items, train.item_counts, lengths)
    novelty = exposure.novelty(items, train.item_counts, len(train.users), lengths)
    for place, n in enumerate(lengths.tolist()):
        for suffix, hits in groups.items():
            table |= {f"{name}{suffix}@{n}": metric(hits, n) for name, metric in _BY_GROUP}
        table |= {f"{name}@{n}": metric(groups[""], n) for name, metric in _OVERALL}
        table[f"apt@{n}"] = apt[:, place]
        table[f"popularity@{n}"] = popularity[:, place]
        table[f"novelty@{n}"] = novelty[:, place]
    return table


def _balanced(
    hits: Hits, users: IntArray, test: Interactions, weights: FloatArray, lengths: IntArray
) -> dict[str, FloatArray]:
    """Balanced metrics of each list times the share of its user, by name, each float64 [lists]."""
    longest = int(lengths.max())
    gain, wanted = balanced.gains(hits, weights, longest), balanced.Wanted.of(users, test, weights, longest)
    table: dict[str, FloatArray] = {}
    for n in lengths.tolist():
        table[f"balanced_recall@{n}"] = wanted.share * balanced.recall(gain, wanted, n)
        table[f"balanced_ndcg@{n}"] = wanted.share * balanced.ndcg(gain, wanted, n)
    return table


def _evaluated(lists: Lists, test: Interactions, longest: int) -> tuple[IntArray, IntArray]:
    """Users with test items and their lists, sorted by user code so that the order of the lists does not matter."""
    rows = np.flatnonzero(test.user_counts[lists.users] > 0)
    if len(rows) == 0:
        raise DataError(
            "no user of the lists has a test item, so no metric can be computed. Check that both use the same user ids"
        )
    rows = rows[np.argsort(lists.users[rows], kind="stable")]
    users = lists.users[rows]
    if (users[1:] == users[:-1]).any():
        twice = users[1:][users[1:] == users[:-1]][0]
        raise DataError(f"user {twice} (code) has more than one list; expected exactly one list per user")
    return users, lists.items[rows, :longest]


def _nullable(table: dict[str, FloatArray]) -> list[pl.Series]:
    return [pl.Series(name, column, nan_to_null=True) for name, column in table.items()]


def _lengths(n: Sequence[int]) -> IntArray:
    lengths = np.array(list(dict.fromkeys(n)))
    if lengths.ndim != 1 or len(lengths) == 0 or lengths.dtype.kind != "i" or lengths.min() < 1:
        raise ConfigError(f"n is {n!r}; expected list lengths, integers of at least 1, such as [10, 20]")
    return lengths


def _check(lists: Lists, test: Interactions, train: Interactions, lengths: IntArray) -> None:
    if lengths.max() > lists.items.shape[1]:
        raise ConfigError(
            f"n is {lengths.max()}, but the lists have {lists.items.shape[1]} positions. Create longer lists"
        )
    sizes = [(len(log.users), len(log.items)) for log in (test, train)]
    if sizes[0] != sizes[1]:
        raise DataError(
            f"test has {sizes[0]} users and items, but train has {sizes[1]}; expected equal numbers. "
            "Use parts of the same split"
        )
    users, items = sizes[1]
    for what, codes, first, size in (("user", lists.users, 0, users), ("item", lists.items, -1, items)):
        if codes.size and (codes.min() < first or codes.max() >= size):
            found = f"{what} codes from {codes.min()} to {codes.max()}"
            raise DataError(f"the lists have {found}; expected {first} to {size - 1}, the codes of train")
