"""A loaded model that answers requests. No other module of the service asks a model for lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.ranking import Lists
from icpe.recommender.model import Model
from icpe.runs.load import load
from icpe.serve.problems import RequestError
from icpe.serve.schema import RecommendRequest, SimilarRequest
from icpe.serve.version import version_of
from icpe.types import FloatArray, IntArray

Basis = Literal["user", "history", "popular"]


@dataclass(frozen=True, eq=False)
class Answer:
    """A list in item codes, and what made it."""

    items: IntArray
    scores: FloatArray
    beta: float
    basis: Basis
    ignored: int = 0


class ServedModel:
    """A model in memory that answers requests.

    Attributes:
        name: name of the model in requests.
        version: hash of the files it was loaded from.
        model: the model.
        head: bool [items], the head items.
    """

    def __init__(self, name: str, version: str, model: Model) -> None:
        self.name, self.version, self.model = name, version, model
        self.head = head_mask(model.log.item_counts)
        self._ranker = model.ranker
        self._item_ids = model.log.items.to_numpy()  # a few entries of an array are quicker than those of a series
        self._ranker.warm_up()

    @classmethod
    def load(cls, name: str, folder: Path, plugins: Sequence[str] = ()) -> "ServedModel":
        """Return the model of a folder.

        Raises:
            DataError: the folder holds no model, a file is damaged, or files changed while they were read.
            ConfigError: the model needs an unknown backbone or method.
        """
        version = version_of(folder)
        found = cls(name, version, load(folder, plugins))
        if version_of(folder) != version:
            raise DataError(f"the files of {folder} changed while they were read; load the model again")
        return found

    def recommend(self, request: RecommendRequest) -> Answer:
        """Return the list of one request.

        Raises:
            RequestError: the user is unknown, or ids have the wrong type.
        """
        (found,) = self.recommend_alike([request])
        if isinstance(found, RequestError):
            raise found
        return found

    def recommend_alike(self, requests: Sequence[RecommendRequest]) -> list[Answer | RequestError]:
        """Return the lists of requests that differ only in the user or the history.

        Raises:
            RequestError: ids in the lists of allowed or denied items have the wrong type.
        """
        shared = _Shared.of(requests[0], self)
        found: dict[int, Answer | RequestError] = {}
        users: dict[int, int] = {}
        histories: dict[int, IntArray] = {}
        for place, request in enumerate(requests):
            try:
                if request.history is not None:
                    histories[place] = self.item_codes(request.history, "history")
                else:
                    users[place] = self.user_code(request.user_id)
            except RequestError as error:
                found[place] = error
        known = {place: code for place, code in users.items() if code >= 0}
        used = {place: codes[codes >= 0] for place, codes in histories.items() if codes.max() >= 0}
        if known:
            lists = self._ranker.top(np.array(list(known.values()), np.int32), **shared.options)
            found |= _answers(lists, known, shared, "user")
        if used:
            lists = self._ranker.fold_in(list(used.values()), **shared.options)
            ignored = [_unknown(histories[place]) for place in used]
            found |= _answers(lists, used, shared, "history", ignored)
        for place in range(len(requests)):
            if place not in found:
                found[place] = self._for_unknown(requests[place], shared)
        return [found[place] for place in range(len(requests))]

    def similar(self, request: SimilarRequest) -> tuple[IntArray, FloatArray]:
        """Return the codes of the nearest items and their cosines.

        Raises:
            RequestError: the item is unknown.
        """
        codes = self.item_codes([request.item_id], "item_id")
        if codes[0] < 0:
            raise RequestError(
                404, "unknown_item", f"item {request.item_id!r} is not in the training data", ["item_id"]
            )
        return _filled(self._ranker.similar(codes, request.n), 0)

    def history(self, code: int) -> IntArray:
        """Return the items that a user has used, int32."""
        log = self.model.log
        first, last = np.searchsorted(log.user, [code, code + 1])
        return log.item[first:last]

    def rows(self, items: IntArray, scores: FloatArray) -> list[dict[str, Any]]:
        """Return a list as rows with ids."""
        ids = self._item_ids[items].tolist()
        marks = zip(ids, scores.tolist(), self.head[items].tolist(), strict=True)
        return [
            {"item_id": item, "score": score, "rank": rank, "head": head}
            for rank, (item, score, head) in enumerate(marks, 1)
        ]

    def as_dict(self, answer: Answer) -> dict[str, Any]:
        """Return the body of an answer."""
        return {
            "items": self.rows(answer.items, answer.scores),
            "model": self.name,
            "model_version": self.version,
            "beta": answer.beta,
            "basis": answer.basis,
            "ignored": answer.ignored,
        }

    def user_code(self, user: Any) -> int:
        """Return the code of a user, or -1 for an unknown one.

        Raises:
            RequestError: the id has the wrong type.
        """
        return int(_codes(self._ranker.user_codes, [user], "user_id")[0])

    def item_codes(self, items: Sequence[Any], field: str) -> IntArray:
        """Return the distinct codes of items; unknown ones appear as -1.

        Raises:
            RequestError: an id of this field has the wrong type.
        """
        return _codes(self._ranker.item_codes, items, field)

    def _for_unknown(self, request: RecommendRequest, shared: "_Shared") -> Answer | RequestError:
        if request.unknown == "error":
            if request.history is None:
                code, what = "unknown_user", f"user {request.user_id!r} is"
            else:
                code, what = "unknown_history", "all items of the history are"
            return RequestError(
                404,
                code,
                f'{what} missing in the training data of {self.name!r}. Send "unknown": "popular" for the most '
                'popular items, or "history": [items that the user has used]',
            )
        limits = {name: shared.options[name] for name in ("n", "allow", "deny")}
        ignored = shared.ignored + len(set(request.history or ()))
        return Answer(*_filled(self._ranker.popular(**limits), 0), shared.beta, "popular", ignored)


@dataclass(frozen=True, eq=False)
class _Shared:
    """What requests that differ only in the user have in common: the arguments of rankings, and unknown items."""

    options: dict[str, Any]
    beta: float
    ignored: int

    @classmethod
    def of(cls, request: RecommendRequest, model: ServedModel) -> "_Shared":
        allow = None if request.allow is None else model.item_codes(request.allow, "allow")
        deny = model.item_codes(request.deny, "deny") if request.deny else None
        beta = model.model.beta if request.beta is None else request.beta
        options = {"n": request.n, "beta": beta, "hide_seen": request.hide_seen, "allow": allow, "deny": deny}
        return cls(options, beta, _unknown(allow) + _unknown(deny))


def _answers(
    lists: Lists, places: Sequence[int] | dict[int, Any], shared: _Shared, basis: Basis, ignored: Sequence[int] = ()
) -> dict[int, Answer | RequestError]:
    found: dict[int, Answer | RequestError] = {}
    for row, place in enumerate(places):
        more = ignored[row] if ignored else 0
        found[place] = Answer(*_filled(lists, row), shared.beta, basis, shared.ignored + more)
    return found


def _filled(lists: Lists, row: int) -> tuple[IntArray, FloatArray]:
    """Return the items and scores of a list without empty places."""
    filled = lists.items[row] >= 0
    return lists.items[row][filled], lists.scores[row][filled]


def _unknown(codes: IntArray | None) -> int:
    return 0 if codes is None else int((codes < 0).sum())


def _codes(find: Callable[[Any], IntArray], ids: Sequence[Any], field: str) -> IntArray:
    try:
        return find(list(dict.fromkeys(ids)))
    except DataError as error:
        raise RequestError(422, "wrong_id_type", str(error), [field]) from None
