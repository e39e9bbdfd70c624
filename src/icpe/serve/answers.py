"""A loaded model that answers requests. No other module of the service asks a model for anything."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch

from icpe.data.lookup import positions
from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.ranking import top_n
from icpe.ranking.sweep import item_bias
from icpe.ranking.tables import DotScores, ScoreTable, with_bias
from icpe.recommender.fold_in import fold_in_user
from icpe.recommender.model import Model
from icpe.runs.load import load
from icpe.serve.problems import RequestError
from icpe.serve.schema import RecommendRequest, SimilarRequest
from icpe.serve.version import version_of
from icpe.train.dial import dial_direction
from icpe.types import FloatArray, IntArray

Basis = Literal["user", "history", "popular"]
_SETTINGS_BYTES = 2**26  # memory for the item terms of the settings that were asked for last


@dataclass(frozen=True, eq=False)
class Answer:
    """A list in item codes, and what made it."""

    items: IntArray
    scores: FloatArray
    beta: float
    basis: Basis
    ignored: int = 0


class Ids:
    """The ids of users or items, and their codes."""

    def __init__(self, known: pl.Series, what: str) -> None:
        self.known, self.what = known, what
        self._text = known.dtype == pl.String

    def code(self, value: Any) -> int:
        """Return the code of an id, or -1 if it is unknown.

        Raises:
            RequestError: the id has another type than those of the log.
        """
        if isinstance(value, str) is not self._text:
            kind = "text" if self._text else "whole numbers"
            message = f"{self.what} ids of this model are {kind}, such as {self.known[0]!r}, not {type(value).__name__}"
            raise RequestError(422, "wrong_id_type", message, [f"{self.what}_id"])
        place = bisect_left(self.known, value)  # ids are sorted; a table of all of them would take much memory
        return place if place < len(self.known) and self.known[place] == value else -1

    def codes(self, values: Sequence[Any]) -> IntArray:
        """Return the distinct codes of the ids that are known, ascending."""
        if len(values) < 100:
            found = np.array([self.code(value) for value in values], np.int64)
        else:
            for value in {type(value): value for value in values}.values():
                self.code(value)  # checks the type
            found = positions(pl.Series(values, dtype=self.known.dtype), self.known)
        return np.unique(found[found >= 0])


class Ranker:
    """A model in memory, with everything that answers need more than once.

    Attributes:
        name: name of the model in requests.
        version: hash of the files it was loaded from.
        model: the model.
        head: bool [items], the head items.
    """

    def __init__(self, name: str, version: str, model: Model) -> None:
        self.name, self.version, self.model = name, version, model
        self.users, self.items = Ids(model.log.users, "user"), Ids(model.log.items, "item")
        self.head = head_mask(model.log.item_counts)
        with torch.no_grad():
            self._at_rest: ScoreTable = model.method.scores()
        self._direction = dial_direction(model.method, model.log)
        keep = max(4, _SETTINGS_BYTES // (4 * len(self.head)))
        self._table = lru_cache(keep)(lambda beta: with_bias(self._at_rest, item_bias(self._direction, beta)))

    @classmethod
    def load(cls, name: str, folder: Path, plugins: Sequence[str] = ()) -> "Ranker":
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
        """Return the lists of requests that differ only in the user or the history."""
        first = requests[0]
        beta = self.model.beta if first.beta is None else first.beta
        allowed, ignored = self._allowed(first)
        found: list[Answer | RequestError | None] = [None] * len(requests)
        known: dict[int, int] = {}
        for place, request in enumerate(requests):
            try:
                if request.history is not None:
                    found[place] = self._from_history(request, beta, allowed, ignored)
                elif (code := self.users.code(request.user_id)) >= 0:
                    known[place] = code
                else:
                    found[place] = self._unknown(request, f"user {request.user_id!r}", beta, allowed, ignored)
            except RequestError as error:
                found[place] = error
        if known:
            table, hide = self._scores(beta), [self.model.log] if first.hide_seen else []
            lists = top_n(table, np.array(list(known.values()), np.int32), first.n, hide, allowed)
            for row, place in enumerate(known):
                filled = lists.items[row] >= 0
                items, scores = lists.items[row][filled], lists.scores[row][filled]
                found[place] = Answer(items, scores, beta, "user", ignored)
        return [one for one in found if one is not None]

    def similar(self, request: SimilarRequest) -> tuple[IntArray, FloatArray]:
        """Return the codes of the nearest items and their cosines.

        Raises:
            RequestError: the item is unknown.
        """
        code = self.items.code(request.item_id)
        if code < 0:
            raise RequestError(404, "unknown_item", f"item {request.item_id!r} is not in the training data")
        lists = top_n(self._neighbours, np.array([code]), min(request.n + 1, len(self.head)))
        other = (lists.items[0] != code) & (lists.items[0] >= 0)
        return lists.items[0][other][: request.n], lists.scores[0][other][: request.n]

    def history(self, code: int) -> IntArray:
        """Return the items that a user has used, int32."""
        log = self.model.log
        first, last = np.searchsorted(log.user, [code, code + 1])
        return log.item[first:last]

    def rows(self, items: IntArray, scores: FloatArray) -> list[dict[str, Any]]:
        """Return a list as rows with ids."""
        ids = self.items.known.gather(items).to_list()
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

    def _scores(self, beta: float) -> ScoreTable:
        return self._table(beta) if beta else self._at_rest

    @cached_property
    def _neighbours(self) -> DotScores:
        with torch.no_grad():
            _, vectors = self.model.method.backbone.reps()
            unit = torch.nn.functional.normalize(vectors, dim=-1).float().numpy()
        return DotScores(unit, unit)

    def _allowed(self, request: RecommendRequest) -> tuple[IntArray | None, int]:
        """Return the codes of the items that may be listed, or None for all, and the number of unknown ids."""
        if request.allow is None and not request.deny:
            return None, 0
        mask = np.full(len(self.head), request.allow is None)
        ignored = 0
        for ids, value in ((request.allow or [], True), (request.deny, False)):
            codes = self.items.codes(ids)
            ignored += len(set(ids)) - len(codes)
            mask[codes] = value
        return np.flatnonzero(mask).astype(np.int32), ignored

    def _from_history(self, request: RecommendRequest, beta: float, allowed: IntArray | None, ignored: int) -> Answer:
        history = request.history or []
        used = self.items.codes(history)
        ignored += len(set(history)) - len(used)
        if len(used) == 0:
            return self._unknown(request, "every item of the history", beta, allowed, ignored)
        scores = fold_in_user(self.model.method, used, item_bias(self._direction, beta))
        if request.hide_seen:
            scores[used] = -np.inf
        items, scores = _best(scores, request.n, allowed)
        return Answer(items, scores, beta, "history", ignored)

    def _unknown(
        self, request: RecommendRequest, who: str, beta: float, allowed: IntArray | None, ignored: int
    ) -> Answer:
        if request.unknown == "error":
            raise RequestError(
                404,
                "unknown_user" if request.history is None else "unknown_history",
                f'{who} is not in the training data of {self.name!r}. Send "unknown": "popular" for the most '
                'popular items, or "history": [items that the user has used]',
            )
        items, scores = _best(self.model.log.item_counts.astype(np.float32), request.n, allowed)
        return Answer(items, scores, beta, "popular", ignored)


def _best(scores: FloatArray, n: int, allowed: IntArray | None) -> tuple[IntArray, FloatArray]:
    """Return the codes and scores of the n best items; among equal scores, smaller codes come first."""
    if allowed is not None:
        forbidden = np.ones(len(scores), bool)
        forbidden[allowed] = False
        scores = np.where(forbidden, -np.inf, scores)
    best = np.argsort(-scores, kind="stable")[:n]
    best = best[np.isfinite(scores[best])]
    return best, scores[best]
