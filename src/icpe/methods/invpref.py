"""InvPref: a preference that holds in every latent environment, learnt beside one that depends on it."""

import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from icpe.backbones.base import Backbone, DotBackbone, normal_table, uniform_matrix
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError
from icpe.methods._parts.environments import best_labels, joint_logit, logits_of_products, mean_square, reverse_gradient
from icpe.methods.icpe.gram import evaluating
from icpe.rng import stream
from icpe.train.drawing import Drawn
from icpe.train.method import Batch, Method, Negatives, check_choice, check_count, check_number

Weighs = Literal["classifier", "predictions", "none"]
_MOST = 255  # environments: labels are kept in a byte
_AT_ONCE = 1 << 16  # rows times environments in one pass of an environment step
_TOO_SMALL, _SHAKEN = 0.001, 0.1  # below this share of pairs an environment is lost; so many labels are drawn anew then


class InvPref(Method):
    """Invariant preference learning (Wang et al. 2022).

    Every training pair has an unknown environment ε. Two copies of the backbone with interaction vectors φ give the
    logits a = out(φᵛ) of the invariant preference and b = out(φᵉ ∘ G_ε) of what depends on the environment. The loss is

    c_v·BCE(σ(a), y) + c_e·BCE(σ(a)·σ(b), y) + c_c·ω_ε·CE(C(φᵛ), ε),

    each the mean over positives plus the mean over sampled negatives. The gradient of the classifier C reaches φᵛ
    reversed and times α, so that φᵛ comes to say nothing about the environment. Every few epochs each pair moves to
    the environment in which σ(a)·σ(b) explains it best. Ranking is by a alone.

    Args:
        backbone: the model to train; the second copy is as large.
        environments: number of them (E).
        every: epochs between two moves of the pairs (Δ).
        alpha: strength of the reversed gradient (α).
        invariant: weight of the invariant prediction (c_v).
        aware: weight of the prediction that knows the environment (c_e).
        adversary: weight of the classifier (c_c).
        weighs: what ω multiplies, the share of pairs in the row's environment: ``"classifier"``, ``"predictions"``
            (both), or ``"none"``.
        negatives: per positive.
        squares: weight of the mean square of the batch's trainable numbers (c₂).
        sizes: weight of their mean absolute value (c₁).
        reg: λ of the L2 term, on both copies; by default the backbone's.

    Example:
        >>> from icpe.backbones import MF
        >>> InvPref(MF(dim=16), environments=4).settings()["every"]
        5
    """

    name: ClassVar[str] = "invpref"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "invariant": (0.1, 0.3, 1.0, 3.0, 10.0),
        "aware": (0.1, 0.3, 1.0, 3.0, 10.0),
        "adversary": (0.1, 0.3, 1.0, 3.0, 10.0),
        "alpha": (0.5, 1.0, 2.0),
        "environments": (2, 3, 4, 6),
        "every": (1, 5, 10, 20),
    }
    labels: Tensor
    shares: Tensor
    moves: Tensor
    changed: Tensor

    def __init__(
        self,
        backbone: Backbone,
        environments: int = 2,
        every: int = 5,
        alpha: float = 1.0,
        invariant: float = 1.0,
        aware: float = 1.0,
        adversary: float = 1.0,
        weighs: Weighs = "classifier",
        negatives: int = 1,
        squares: float = 0.0,
        sizes: float = 0.0,
        reg: float | None = None,
    ) -> None:
        super().__init__(backbone, reg)
        for name, count in (("environments", environments), ("every", every), ("negatives", negatives)):
            check_count(name, count)
        if environments > _MOST:
            raise ConfigError(f"environments is {environments}; expected at most {_MOST}")
        check_choice("weighs", weighs, get_args(Weighs))
        self.environments, self.every, self.alpha = environments, every, alpha
        self.invariant, self.aware, self.adversary = invariant, aware, adversary
        self.squares, self.sizes = squares, sizes
        for name in ("alpha", "invariant", "aware", "adversary", "squares", "sizes"):
            check_number(name, getattr(self, name), least=0.0)
        self.weighs: Weighs = weighs
        self.negative_count = negatives
        self.second = copy.deepcopy(backbone)

    def settings(self) -> dict[str, Any]:
        """Constructor arguments but the backbone."""
        return {
            "environments": self.environments,
            "every": self.every,
            "alpha": self.alpha,
            "invariant": self.invariant,
            "aware": self.aware,
            "adversary": self.adversary,
            "weighs": self.weighs,
            "negatives": self.negative_count,
            "squares": self.squares,
            "sizes": self.sizes,
            "reg": self.reg,
        }

    @property
    def negatives(self) -> Negatives:
        """Some for each positive."""
        return Negatives(self.negative_count)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Both copies, the environments, the classifier, and a label drawn for each training pair."""
        super().build(train, rng)
        self.second.build(train, rng)
        self._train = train
        with torch.no_grad():
            users, items = self.backbone.reps()
            width = self.backbone.interact(users[:1], items[:1]).shape[-1]
        self.environment_table = normal_table(self.environments, width, 0.01, rng)
        self.classifier = uniform_matrix(self.environments, width, (6 / (width + self.environments)) ** 0.5, rng)
        self.classifier_bias = nn.Parameter(torch.zeros(self.environments))
        self.register_buffer("labels", torch.from_numpy(rng.integers(self.environments, size=len(train))).byte())
        self.register_buffer("shares", self._shares())
        self.register_buffer("moves", torch.zeros((), dtype=torch.int64))
        self.register_buffer("changed", torch.zeros(()))

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Those of both copies."""
        (users, items), (others, other_items) = self.backbone.row_tables(), self.second.row_tables()
        return users + others, items + other_items

    def draw(self, drawn: Drawn, epoch: int, rng: np.random.Generator) -> Drawn:
        """Note which training pairs the positives are, for they have labels."""
        return replace(drawn, marks=drawn.rows)

    def loss(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """The whole objective plus the L2 terms."""
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        rows = self.backbone.rows(batch.users, wanted, rng)
        other_rows = self.second.rows(batch.users, wanted, rng)
        if isinstance(self.backbone, DotBackbone):
            logits, guess, by_environment, norms = self._inner_logits(rows, other_rows)
        else:
            logits, guess, by_environment = self._logits(rows, other_rows)
            norms = None
        labels = self._labels(batch, by_environment.detach(), rng)
        aware = by_environment.gather(1, labels[:, None])[:, 0]
        total = self._loss_of_logits(len(batch.users), logits, aware, guess, labels)
        return total + self._penalties(batch, rows, other_rows, norms)

    def _logits(self, rows: tuple[Tensor, Tensor], other_rows: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Of positives and then of negatives: a [n], those of the classifier and b by environment, [n, E] each."""
        count = self.negative_count
        (user, item), (other_user, other_item) = (
            (torch.cat([users, users.repeat_interleave(count, 0)]), both) for users, both in (rows, other_rows)
        )
        phi = self.backbone.interact(user, item)
        guess = F.linear(reverse_gradient(phi, self.alpha), self.classifier, self.classifier_bias)
        return self.backbone.out(phi), guess, self._aware_logits(self.second.interact(other_user, other_item))

    def _inner_logits(self, rows: tuple[Tensor, Tensor], other_rows: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """The same where φ is a product and a its sum, and the rows' squared norms."""
        ones = torch.ones_like(self.classifier[:1])
        factors = torch.full_like(self.classifier[:, :1], -self.alpha)
        both, norms = logits_of_products(
            *rows, torch.cat([ones, self.classifier]), torch.cat([torch.ones_like(factors[:1]), factors])
        )
        by_environment, others = logits_of_products(*other_rows, self.environment_table, torch.ones_like(factors))
        return both[:, 0], both[:, 1:] + self.classifier_bias, by_environment, norms + others

    def _loss_of_logits(self, size: int, logits: Tensor, aware: Tensor, guess: Tensor, labels: Tensor) -> Tensor:
        # Of a positive the logit counts upwards, of a negative downwards; each kind is averaged for itself.
        sign, share = torch.ones_like(aware), torch.full_like(aware, 1 / (size * self.negative_count))
        sign[:size], share[:size] = -1, 1 / size
        weighed = share * self.shares[labels]
        plain, both = F.softplus(sign * logits), F.softplus(sign * joint_logit(logits, aware))
        predicted = torch.add(self.invariant * plain, both, alpha=self.aware)
        wrong = F.cross_entropy(guess, labels, reduction="none")
        total = torch.dot(predicted, weighed if self.weighs == "predictions" else share)
        return total + self.adversary * torch.dot(wrong, weighed if self.weighs == "classifier" else share)

    def _aware_logits(self, phi: Tensor) -> Tensor:
        """Logits b of interaction vectors of the second copy in every environment, [n, D_φ] → [n, environments]."""
        if isinstance(self.second, DotBackbone):
            return phi @ self.environment_table.T
        return self.second.out(phi[:, None] * self.environment_table)

    def _labels(self, batch: Batch, by_environment: Tensor, rng: torch.Generator | None) -> Tensor:
        """Labels of the positives as kept, and of the negatives, which come and go, the best as of now.

        Before the pairs have moved for the first time, those of the negatives are drawn like theirs.
        """
        assert batch.marks is not None, "a batch without marks; draw it with the method's draw()"
        fresh = by_environment[len(batch.users) :]
        if self.moves == 0:
            own = torch.randint(self.environments, (len(fresh),), generator=rng, device=fresh.device)
        else:
            own = best_labels(fresh, positive=False, rng=rng)
        return torch.cat([self.labels[batch.marks].long(), own])

    def _penalties(
        self, batch: Batch, rows: tuple[Tensor, Tensor], other_rows: tuple[Tensor, Tensor], norms: Tensor | None
    ) -> Tensor:
        """λ/2 · mean squared norms as of :meth:`Method.penalty`, and c₂ and c₁ on single numbers, of both copies.

        Args:
            batch: whose rows.
            rows: representations of users and items in the first copy.
            other_rows: those in the second.
            norms: their mean squared norms where they are at hand.
        """
        at_rows = bool(self.backbone.row_tables()[0])
        if at_rows and norms is not None and not (self.squares or self.sizes):
            return 0.5 * self.reg * norms
        total = rows[0].new_zeros(())
        for backbone, taken in ((self.backbone, rows), (self.second, other_rows)):
            users, both = taken if at_rows else self._ego(backbone, batch)
            size = len(users)
            if self.reg:
                means = mean_square(users) + mean_square(both[:size]) + mean_square(both[size:])
                total = total + 0.5 * self.reg * means
            if self.squares:
                total = total + 0.5 * self.squares * (users.square().mean() + both.square().mean())
            if self.sizes:
                total = total + 0.5 * self.sizes * (users.abs().mean() + both.abs().mean())
        return total

    @staticmethod
    def _ego(backbone: Backbone, batch: Batch) -> tuple[Tensor, Tensor]:
        wanted = torch.cat([batch.items, batch.negatives.reshape(-1)])
        return backbone.ego_users(batch.users), backbone.ego_items(wanted)

    def renews(self, step: int, epoch_steps: int) -> bool:
        """After every so many epochs."""
        return step > 0 and step % (self.every * epoch_steps) == 0

    def renew(self, step: int, seed: int) -> None:
        """Move every training pair to the environment that explains it best."""
        rng = stream(seed, f"invpref/environments/{step}")
        labels = self.explained(torch.Generator(self.labels.device).manual_seed(int(rng.integers(2**62))))
        counts = torch.bincount(labels, minlength=self.environments)
        if int(counts.min()) < _TOO_SMALL * len(labels):
            # An environment nobody is in gets no gradient and would stay empty for ever.
            shaken = torch.from_numpy(rng.random(len(labels)) < _SHAKEN)
            anew = torch.from_numpy(rng.integers(self.environments, size=len(labels)))
            labels = torch.where(shaken.to(labels.device), anew.to(labels.device), labels)
        self.changed.copy_((labels != self.labels).float().mean())
        self.labels.copy_(labels)
        self.shares.copy_(self._shares())
        self.moves += 1

    def explained(self, rng: torch.Generator | None = None) -> Tensor:
        """The best environment of each training pair as the model is now, int64 [pairs]; ``rng`` is for ties."""
        found, chunk = [], max(1, _AT_ONCE // self.environments)
        with evaluating(self), torch.no_grad():
            users, items = self.second.reps()
            user, item = (torch.from_numpy(one).long().to(users.device) for one in (self._train.user, self._train.item))
            for start in range(0, len(user), chunk):
                part = slice(start, start + chunk)
                phi = self.second.interact(users[user[part]], items[item[part]])
                found.append(best_labels(self._aware_logits(phi), positive=True, rng=rng))
        return torch.cat(found)

    def _shares(self) -> Tensor:
        """ω of each environment: its share of the training pairs, smoothed a little."""
        pairs = len(self.labels)
        counts = torch.bincount(self.labels.long(), minlength=self.environments)
        return (counts + 1).clamp(max=pairs - 1) / pairs

    def diagnostics(self) -> dict[str, Any]:
        """Pairs in each environment, and the share of them that moved last time."""
        counts = torch.bincount(self.labels.long(), minlength=self.environments)
        return {"pairs": counts.tolist(), "moves": int(self.moves), "changed": float(self.changed)}
