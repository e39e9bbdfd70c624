"""InvPref: learns a preference that holds in every latent environment, and beside it one that depends on it."""

import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import Backbone, normal_table, uniform_matrix
from icpe.backbones.rows import RowParameter
from icpe.data.interactions import Interactions
from icpe.methods._parts.environments import (
    best_environments,
    joint_logit,
    logits_of_products,
    mean_square,
    reverse_gradient,
)
from icpe.methods.base import Method
from icpe.rng import stream
from icpe.settings import setting
from icpe.train.abilities import CustomSampling, Diagnostics, Refresh
from icpe.train.batch import Batch, Negatives, SampledBatch
from icpe.train.method import MethodSettings, evaluation_mode

_MIN_SHARE = 0.001  # an environment with a smaller share of the pairs counts as lost,
_REDRAWN = 0.1  # and this share of all labels is then drawn at random

_WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0)


class InvPrefSettings(MethodSettings):
    """Settings of :class:`InvPref`."""

    # The upper limit keeps a label within one byte.
    environments: int = setting(2, "Number of environments (E).", least=1, most=255, search=(2, 3, 4, 6))
    reassign_every: int = setting(
        5, "Number of epochs after which pairs are assigned to environments again (Δ).", least=1, search=(1, 5, 10, 20)
    )
    reversal: float = setting(
        1.0,
        "Factor α of the reversed gradient that the classifier sends to the invariant preference.",
        least=0.0,
        search=(0.5, 1.0, 2.0),
    )
    invariant_weight: float = setting(1.0, "Weight c_v of the invariant prediction.", least=0.0, search=_WEIGHTS)
    environment_weight: float = setting(
        1.0, "Weight c_e of the prediction that depends on the environment.", least=0.0, search=_WEIGHTS
    )
    classifier_weight: float = setting(1.0, "Weight c_c of the classifier of environments.", least=0.0, search=_WEIGHTS)
    weights_on: Literal["classifier", "predictions", "none"] = setting(
        "classifier",
        "Which terms are multiplied by ω, the share of pairs in the environment: the classifier, both predictions, or "
        "none.",
    )
    negatives: int = setting(1, "Number of negatives for each positive (K).", least=1)
    square_weight: float = setting(0.0, "Weight c₂ of the mean square of the trainable numbers of a batch.", least=0.0)
    absolute_weight: float = setting(
        0.0, "Weight c₁ of the mean absolute value of the trainable numbers of a batch.", least=0.0
    )


class InvPref(CustomSampling, Refresh, Diagnostics, Method):
    """Invariant preference learning (Wang et al. 2022).

    Every training pair has an unknown environment ε. Two copies of the backbone with interaction vectors φ give the
    logit a = out(φᵛ) of the invariant preference and the logit b = out(φᵉ ∘ G_ε) of the preference that depends on the
    environment. The loss is

    c_v·BCE(σ(a), y) + c_e·BCE(σ(a)·σ(b), y) + c_c·ω_ε·CE(C(φᵛ), ε),

    each term being the mean over positives plus the mean over sampled negatives. The gradient of the classifier C
    reaches φᵛ multiplied by −α, so that φᵛ loses all information about the environment. Every few epochs each pair is
    assigned to the environment in which σ(a)·σ(b) explains it best. Ranking uses a alone.

    Example:
        >>> from icpe.backbones import MF
        >>> InvPref(MF(dim=16), environments=4).settings.reassign_every
        5
    """

    name: ClassVar[str] = "invpref"
    Settings = InvPrefSettings
    settings: InvPrefSettings
    labels: Tensor
    shares: Tensor
    moves: Tensor
    changed: Tensor

    def __init__(self, backbone: Backbone, **settings: Any) -> None:
        super().__init__(backbone, **settings)
        self.second = copy.deepcopy(backbone)

    @property
    def negatives(self) -> Negatives:
        """One or more for each positive."""
        return Negatives(self.settings.negatives)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create both copies, the environments, the classifier, and a random label for each training pair."""
        super().build(train, rng)
        self.second.build(train, rng)
        self._train = train
        environments = self.settings.environments
        with torch.no_grad():
            users, items = self.backbone.reps()
            width = _interaction(self.backbone, users[:1], items[:1]).shape[-1]
        self.environment_table = normal_table(environments, width, 0.01, rng)
        self.classifier = uniform_matrix(environments, width, (6 / (width + environments)) ** 0.5, rng)
        self.classifier_bias = nn.Parameter(torch.zeros(environments))
        self.register_buffer("labels", torch.from_numpy(rng.integers(environments, size=len(train))).byte())
        self.register_buffer("shares", self._shares())
        self.register_buffer("moves", torch.zeros((), dtype=torch.int64))
        self.register_buffer("changed", torch.zeros(()))

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the user parameters of both copies."""
        return self.backbone.user_parameters() + self.second.user_parameters()

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the item parameters of both copies."""
        return self.backbone.item_parameters() + self.second.item_parameters()

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return the tables of both copies."""
        (users, items), (second_users, second_items) = self.backbone.row_tables(), self.second.row_tables()
        return users + second_users, items + second_items

    def sample(self, batch: SampledBatch, epoch: int, rng: np.random.Generator) -> SampledBatch:
        """Return the batch with the positions of its pairs in the training data, where their environments are kept."""
        return replace(batch, labels=batch.rows)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """Return the whole objective plus the L2 terms."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        rows = self.backbone.rows(batch.users, wanted, rng)
        second_rows = self.second.rows(batch.users, wanted, rng)
        norms: Tensor | None = None
        if self.backbone.inner_product:
            logits, guess, by_environment, norms = self._product_logits(rows, second_rows)
        else:
            logits, guess, by_environment = self._logits(rows, second_rows)
        labels = self.batch_labels(batch, by_environment.detach(), rng)
        dependent = by_environment.gather(1, labels[:, None])[:, 0]
        total = self._loss_of_logits(len(batch.users), logits, dependent, guess, labels)
        return total + self._penalties(batch, rows, second_rows, norms)

    def _logits(self, rows: tuple[Tensor, Tensor], second_rows: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Return a [n], the classifier's logits [n, E] and b by environment [n, E], positives first."""
        count = self.settings.negatives
        (user, item), (second_user, second_item) = (
            (torch.cat([users, users.repeat_interleave(count, 0)]), items) for users, items in (rows, second_rows)
        )
        phi = self.backbone.interact(user, item)
        guess = F.linear(reverse_gradient(phi, self.settings.reversal), self.classifier, self.classifier_bias)
        return self.backbone.out(phi), guess, self._environment_logits(self.second.interact(second_user, second_item))

    def _product_logits(self, rows: tuple[Tensor, Tensor], second_rows: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Return the same where a is the sum of φ = z_u ∘ z_i, and the mean squared norms of the rows."""
        ones = torch.ones_like(self.classifier[:1])
        reversed_factors = torch.full_like(self.classifier[:, :1], -self.settings.reversal)
        factors = torch.cat([torch.ones_like(reversed_factors[:1]), reversed_factors])
        logits, norms = logits_of_products(*rows, torch.cat([ones, self.classifier]), factors)
        by_environment, second_norms = logits_of_products(
            *second_rows, self.environment_table, torch.ones_like(reversed_factors)
        )
        return logits[:, 0], logits[:, 1:] + self.classifier_bias, by_environment, norms + second_norms

    def _loss_of_logits(self, size: int, logits: Tensor, dependent: Tensor, guess: Tensor, labels: Tensor) -> Tensor:
        settings = self.settings
        # The loss falls with the logit of a positive and rises with that of a negative; each kind has its own mean.
        sign, share = torch.ones_like(dependent), torch.full_like(dependent, 1 / (size * settings.negatives))
        sign[:size], share[:size] = -1, 1 / size
        weighted = share * self.shares[labels]
        invariant, joint = F.softplus(sign * logits), F.softplus(sign * joint_logit(logits, dependent))
        predicted = torch.add(settings.invariant_weight * invariant, joint, alpha=settings.environment_weight)
        wrong = F.cross_entropy(guess, labels, reduction="none")
        total = torch.dot(predicted, weighted if settings.weights_on == "predictions" else share)
        classified = torch.dot(wrong, weighted if settings.weights_on == "classifier" else share)
        return total + settings.classifier_weight * classified

    def _environment_logits(self, phi: Tensor) -> Tensor:
        """Return b of interaction vectors of the second copy in every environment, [n, D_φ] → [n, environments]."""
        if self.second.inner_product:
            return phi @ self.environment_table.T
        return self.second.out(phi[:, None] * self.environment_table)

    def batch_labels(self, batch: Batch, by_environment: Tensor, rng: torch.Generator | None) -> Tensor:
        """Return the environments of a batch, positives first, int64 [batch + negatives].

        A positive keeps its environment between two assignments. A negative is new in every batch and gets the
        environment that explains it best, or a random one before the first assignment.

        Args:
            batch: the codes, with the positions of the positives in the training data as labels.
            by_environment: b of all pairs in every environment.
            rng: generator of random environments.
        """
        assert batch.labels is not None, "InvPref needs positions of pairs; sample the batch with its own sample()"
        of_negatives = by_environment[len(batch.users) :]
        if self.moves == 0:
            size, device = (len(of_negatives),), of_negatives.device
            found = torch.randint(self.settings.environments, size, generator=rng, device=device)
        else:
            found = best_environments(of_negatives, positive=False, rng=rng)
        return torch.cat([self.labels[batch.labels].long(), found])

    def _penalties(
        self, batch: Batch, rows: tuple[Tensor, Tensor], second_rows: tuple[Tensor, Tensor], norms: Tensor | None
    ) -> Tensor:
        """Return the terms λ (as in :meth:`penalty`), c₂ and c₁ of both copies.

        Args:
            batch: the codes.
            rows: representations of users and items in the first copy.
            second_rows: representations in the second copy.
            norms: their mean squared norms if they are known already.
        """
        settings, at_rows = self.settings, self.backbone.trains_rows
        if at_rows and norms is not None and not (settings.square_weight or settings.absolute_weight):
            return 0.5 * self.reg * norms
        total = rows[0].new_zeros(())
        for backbone, taken in ((self.backbone, rows), (self.second, second_rows)):
            users, items = taken if at_rows else _trainable_rows(backbone, batch)
            size = len(users)
            if self.reg:
                means = mean_square(users) + mean_square(items[:size]) + mean_square(items[size:])
                total = total + 0.5 * self.reg * means
            if settings.square_weight:
                total = total + 0.5 * settings.square_weight * (users.square().mean() + items.square().mean())
            if settings.absolute_weight:
                total = total + 0.5 * settings.absolute_weight * (users.abs().mean() + items.abs().mean())
        return total

    def refresh_due(self, step: int, epoch_steps: int) -> bool:
        """Whether ``reassign_every`` epochs have passed."""
        return step > 0 and step % (self.settings.reassign_every * epoch_steps) == 0

    def refresh(self, step: int, seed: int) -> None:
        """Assign every training pair to the environment that explains it best."""
        rng, environments = stream(seed, f"invpref/environments/{step}"), self.settings.environments
        labels = self.best_assignment(torch.Generator(self.labels.device).manual_seed(int(rng.integers(2**62))))
        counts = torch.bincount(labels, minlength=environments)
        if int(counts.min()) < _MIN_SHARE * len(labels):
            # An environment without pairs gets no gradient and would stay empty.
            redrawn = torch.from_numpy(rng.random(len(labels)) < _REDRAWN)
            random = torch.from_numpy(rng.integers(environments, size=len(labels)))
            labels = torch.where(redrawn.to(labels.device), random.to(labels.device), labels)
        self.changed.copy_((labels != self.labels).float().mean())
        self.labels.copy_(labels)
        self.shares.copy_(self._shares())
        self.moves += 1

    def best_assignment(self, rng: torch.Generator | None = None, chunk: int = 1 << 16) -> Tensor:
        """Return the best environment of each training pair under the present parameters, int64 [pairs].

        Args:
            rng: generator that breaks ties.
            chunk: number of logits, pairs times environments, to compute at once.
        """
        found, size = [], max(1, chunk // self.settings.environments)
        with evaluation_mode(self), torch.no_grad():
            users, items = self.second.reps()
            user, item = (torch.from_numpy(one).long().to(users.device) for one in (self._train.user, self._train.item))
            for start in range(0, len(user), size):
                part = slice(start, start + size)
                phi = _interaction(self.second, users[user[part]], items[item[part]])
                found.append(best_environments(self._environment_logits(phi), positive=True, rng=rng))
        return torch.cat(found)

    def _shares(self) -> Tensor:
        """Return ω of each environment: its slightly smoothed share of the training pairs."""
        pairs = len(self.labels)
        counts = torch.bincount(self.labels.long(), minlength=self.settings.environments)
        return (counts + 1).clamp(max=pairs - 1) / pairs

    def diagnostics(self) -> dict[str, Any]:
        """Return the pairs in each environment, the number of assignments, and the share that changed last time."""
        counts = torch.bincount(self.labels.long(), minlength=self.settings.environments)
        return {"pairs": counts.tolist(), "moves": int(self.moves), "changed": float(self.changed)}


def _interaction(backbone: Backbone, z_user: Tensor, z_item: Tensor) -> Tensor:
    """Return φ: the product z_u ∘ z_i where its sum is the score, otherwise the backbone's own interaction."""
    return z_user * z_item if backbone.inner_product else backbone.interact(z_user, z_item)


def _trainable_rows(backbone: Backbone, batch: Batch) -> tuple[Tensor, Tensor]:
    wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
    return backbone.ego_users(batch.users), backbone.ego_items(wanted)
