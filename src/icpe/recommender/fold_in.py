"""Representations of users who were not in the training data.

The training that gave known users their representations is imitated in closed form. A linear map, fitted to known
users, leads from a history to a first representation. Each further step adds a linear map of the gradient of the
method's own loss for this history; the map, fitted to the same users, decides how far to go in each direction. So new
users end where training would have left them, and not where the loss of a single history is smallest.
"""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from icpe.data.interactions import Interactions
from icpe.ranking.tables import DotScores, FixedScores, ScoreTable, to_numpy
from icpe.train.abilities import ItemBias, OwnDirection, item_bias, score_user, user_loss
from icpe.train.dial import dial_direction
from icpe.train.method import TrainingMethod
from icpe.types import IntArray

_KNOWN = 20_000  # known users to whom the first map is fitted
_FOLLOWED = 512  # known users to whom the maps of gradients are fitted
_NEGATIVES = 2048  # items that stand for all others in the loss
_STEPS = 2
_SHRINK = 0.3  # pull of a map of gradients towards a step along the gradient itself


class NewUsers:
    """Scores of new users of a trained model. What does not depend on the history is computed once.

    Args:
        method: the trained method.
        log: the training data.
    """

    def __init__(self, method: TrainingMethod, log: Interactions) -> None:
        self._method, self._log = method, log
        with torch.no_grad():
            table = method.unbiased_scores() if isinstance(method, ItemBias) else method.scores()
            bias = item_bias(method)
            if isinstance(table, DotScores):
                users, items = torch.from_numpy(table.user_vectors), torch.from_numpy(table.item_vectors)
            else:
                users, items = (one.detach() for one in method.backbone.reps())
        self._users, self._items = users, items
        self._products = table if isinstance(table, DotScores) else None
        self._ranking_bias = np.zeros(len(items), np.float32) if bias is None else to_numpy(bias)
        self._scaled = items * torch.from_numpy(1 / np.sqrt(np.maximum(log.item_counts, 1))).float()[:, None]
        # Scores of cosines do not depend on the length of the user's vector.
        self._units = self._products is not None and bool(torch.allclose(users.norm(dim=1), torch.ones(len(users))))
        # The loss of ICPE contains the propensity, which is the direction of its dial.
        direction = dial_direction(method, log) if isinstance(method, OwnDirection) else self._ranking_bias * 0
        fixed = self._products.item_bias if self._products is not None else None
        self._added = torch.from_numpy(direction if fixed is None else direction + fixed)
        by_popularity = np.argsort(-log.item_counts, kind="stable")
        self._others = torch.from_numpy(np.sort(_spread(by_popularity, _NEGATIVES)))

    def table(self, histories: list[IntArray]) -> ScoreTable:
        """Return the scores of new users with these histories, without the dial. Codes of users are positions."""
        found = [self._representation(torch.from_numpy(one.astype(np.int64))) for one in histories]
        users = torch.stack(found)
        if self._products is not None:
            bias = self._products.item_bias
            added = self._ranking_bias if bias is None else bias + self._ranking_bias
            return self._products.changed(user_vectors=to_numpy(users), item_bias=added)
        with torch.no_grad():
            scores = np.stack([to_numpy(score_user(self._method, one, self._items)) for one in users])
        return FixedScores(scores + self._ranking_bias)

    def _representation(self, history: Tensor) -> Tensor:
        first, steps = self._maps
        found = self._on_sphere(self._features([history])[0] @ first)
        for step in steps:
            found = self._on_sphere(found + self._gradient(found, history) @ step)
        return found

    @cached_property
    def _maps(self) -> tuple[Tensor, list[Tensor]]:
        """The map from features to representations, and for each step the map from gradients to changes."""
        known = _spread(np.flatnonzero(self._log.user_counts), _KNOWN)
        starts = np.searchsorted(self._log.user, np.stack([known, known + 1]).astype(np.int32))
        histories = [torch.from_numpy(self._log.item[a:b].astype(np.int64)) for a, b in starts.T]
        features, targets = self._features(histories), self._users[known]
        first = _ridge(features, targets)
        few = _spread(np.arange(len(known)), _FOLLOWED)
        found, steps = self._on_sphere(features[few] @ first), []
        for _ in range(_STEPS):
            gradients = torch.stack([self._gradient(z, histories[one]) for z, one in zip(found, few, strict=True)])
            if not gradients.any():  # the method says that histories do not matter, so everybody gets the mean
                first = torch.zeros_like(first)
                first[-1] = targets.mean(0)
                return first, []
            steps.append(_step(gradients, targets[few] - found))
            found = self._on_sphere(found + gradients @ steps[-1])
        return first, steps

    def _features(self, histories: list[Tensor]) -> Tensor:
        """Numbers from which a linear map predicts the representations of users, [users, 2·D + 2]; the last is 1."""
        lengths = torch.tensor([len(one) for one in histories])
        items, starts = torch.cat(histories), torch.cumsum(lengths, 0) - lengths
        root = lengths[:, None] ** -0.5
        mean = functional.embedding_bag(items, self._items, starts, mode="mean")
        # This sum is what the first layer of a graph convolution computes.
        weighted = functional.embedding_bag(items, self._scaled, starts, mode="sum") * root
        return torch.cat([mean, weighted, root, torch.ones_like(root)], 1)

    def _gradient(self, user: Tensor, history: Tensor) -> Tensor:
        """Gradient of the method's loss of the history against other items at a representation."""
        rest = self._others[~torch.isin(self._others, history)]
        if len(rest) == 0:
            return torch.zeros_like(user)
        codes = torch.cat([history, rest])
        user = user.detach().requires_grad_()
        scores = self._score(user, codes) + self._added[codes]
        loss = user_loss(self._method, scores[: len(history)], scores[len(history) :])
        (gradient,) = torch.autograd.grad(loss, user)  # not backward(), which would also fill the model's gradients
        return gradient

    def _score(self, user: Tensor, codes: Tensor) -> Tensor:
        if self._products is None:
            return score_user(self._method, user, self._items[codes])
        return self._items[codes] @ (functional.normalize(user, dim=0) if self._units else user)

    def _on_sphere(self, users: Tensor) -> Tensor:
        return functional.normalize(users, dim=-1) if self._units else users


def _spread(values: IntArray, most: int) -> IntArray:
    """Return all values, or ``most`` of them at even distances."""
    return values[np.linspace(0, len(values) - 1, min(most, len(values))).astype(np.int64)]


def _ridge(features: Tensor, targets: Tensor) -> Tensor:
    """Map [p, D] from features [n, p] to targets [n, D] with the least squared error; features are scaled first."""
    x, y = features.double().numpy(), targets.double().numpy()
    scale = np.sqrt((x**2).mean(0)) + 1e-12
    x = x / scale
    weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
    return torch.from_numpy((weights / scale[:, None]).astype(np.float32))


def _step(gradients: Tensor, changes: Tensor) -> Tensor:
    """Map [D, D] from gradients [n, D] to changes [n, D]: least squares, pulled towards a multiple of the gradient."""
    g, change = gradients.double().numpy(), changes.double().numpy()
    squares = g.T @ g
    whole = float(np.trace(squares))
    if whole == 0:
        return torch.zeros(g.shape[1], g.shape[1])
    pull = _SHRINK * whole / len(squares) * np.eye(len(squares))
    weights = np.linalg.solve(squares + pull, g.T @ change + pull * float((g * change).sum()) / whole)
    return torch.from_numpy(weights.astype(np.float32))
