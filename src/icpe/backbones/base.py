"""What a backbone is: representations of users and items, how they interact, and the logit that comes out."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, NotFittedError
from icpe.ranking.tables import DotScores, PairScores, ScoreTable, to_numpy

_TAKER = "icpe_taker"  # an attribute of a parameter, so that copies of a model and other threads have their own


class Backbone(nn.Module, ABC):
    """A model that scores pairs of users and items and knows nothing of debiasing.

    The constructor takes settings only, keeps each under its own name, and :meth:`build` makes the parameters once
    the numbers of users and items are known. Everything trainable is a parameter, so ``state_dict`` is the state.
    ``icpe.testing.backbones.check_backbone`` tells whether a backbone of your own keeps the contract.

    Attributes:
        name: as in ``make_backbone`` and configuration files.
        default_optimizer: ``"adam"`` or ``"rmsprop"``.
        default_reg: weight of the L2 term on ego rows (λ).
        parallel: whether a training step is worth more than one thread; where only the rows of a batch are touched,
            threads cost more than they save.
        users: number of users, 0 before :meth:`build`.
        items: number of items, 0 before :meth:`build`.
    """

    name: ClassVar[str]
    default_optimizer: str = "adam"
    default_reg: float = 1e-5
    parallel: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.users = 0
        self.items = 0

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as plain JSON values; ``type(self)(**settings)`` makes an equal one."""
        names = inspect.signature(type(self)).parameters
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def label(self) -> str:
        """How people call it."""
        return type(self).__name__

    def halved(self) -> Self:
        """An unbuilt backbone of half the width, for methods that need two of them.

        Raises:
            ConfigError: there is no such thing.
        """
        raise ConfigError(
            f"{self.label} has no form of half the width; let the method have two whole ones (size='full')"
        )

    @abstractmethod
    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Make all parameters for the users and items of ``train``, from ``rng`` only, and set users and items."""

    @abstractmethod
    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Representations of all users [users, D] and all items [items, D] (Z_U, Z_I).

        Dropout happens only in training mode and draws from ``rng``, or from torch's own generator if None.
        """

    def rows(self, users: Tensor, items: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Representations of some users, int [n] → [n, D], and of some items, int [m] → [m, D], as a batch needs them.

        Override it where some are cheaper than all (:meth:`reps`).
        """
        z_user, z_item = self.reps(rng)
        return take_rows(z_user, users), take_rows(z_item, items)

    @abstractmethod
    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Interaction vectors (φ): [..., D] × [..., D] → [..., D_φ], broadcasting over leading dimensions."""

    @abstractmethod
    def out(self, phi: Tensor) -> Tensor:
        """Logits of interaction vectors: [..., D_φ] → [...]."""

    @final
    def score(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Logits of pairs of representations (s_ui): [..., D] × [..., D] → [...]."""
        return self.out(self.interact(z_user, z_item))

    @abstractmethod
    def ego_users(self, users: Tensor) -> Tensor:
        """The trainable rows behind these users, int [n] → [n, ·]; for L2 only."""

    @abstractmethod
    def ego_items(self, items: Tensor) -> Tensor:
        """The trainable rows behind these items, int [n] → [n, ·]; for L2 only."""

    @abstractmethod
    def item_parameters(self) -> list[nn.Parameter]:
        """The parameters that belong to items."""

    def shared_parameters(self) -> list[nn.Parameter]:
        """The parameters all items share: the users' and those of common layers; all that are not the items'."""
        of_items = {id(parameter) for parameter in self.item_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in of_items]

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Parameters with a row per user, and with a row per item, that :meth:`reps` hands out as they are.

        They are trained row by row, which is much faster. All who read them in training must do so by
        :func:`take_rows`. None by default.
        """
        return [], []

    def vectors(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor] | None:
        """Vectors whose inner product is the score, [users, ·] and [items, ·]; None if there is no such form."""
        return None

    def scores(self, z_user: Tensor, z_item: Tensor) -> ScoreTable:
        """The score of every user for every item, for full ranking."""
        vectors = self.vectors(z_user, z_item)
        if vectors is None:
            return PairScores(self.score, z_user, z_item)
        return DotScores(to_numpy(vectors[0]), to_numpy(vectors[1]))

    def _require_built(self) -> None:
        if not self.users:
            raise NotFittedError(f"{type(self).__name__} has no parameters yet; call build(train, rng) first")


class DotBackbone(Backbone):
    """A backbone with one table of users, one of items, and the inner product of representations as score."""

    def __init__(self, dim: int, init_std: float) -> None:
        super().__init__()
        self.dim = dim
        self.init_std = init_std

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw both tables from N(0, init_std²), users first."""
        self.users, self.items = len(train.users), len(train.items)
        self.user_table = normal_table(self.users, self.dim, self.init_std, rng)
        self.item_table = normal_table(self.items, self.dim, self.init_std, rng)

    def halved(self) -> Self:
        """With rows of half the length."""
        return type(self)(**{**self.settings(), "dim": half(self.dim)})

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """z_u ∘ z_i, [..., dim]."""
        return z_user * z_item

    def out(self, phi: Tensor) -> Tensor:
        """The sum over the last dimension."""
        return phi.sum(-1)

    def ego_users(self, users: Tensor) -> Tensor:
        """Rows of the user table, [n, dim]."""
        return functional.embedding(users, self.user_table)

    def ego_items(self, items: Tensor) -> Tensor:
        """Rows of the item table, [n, dim]."""
        return functional.embedding(items, self.item_table)

    def item_parameters(self) -> list[nn.Parameter]:
        """The item table."""
        return [self.item_table]

    def vectors(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor]:
        """The representations themselves."""
        return z_user, z_item


def half(width: int) -> int:
    """Half of a width, at least 1."""
    return max(1, width // 2)


Taker = Callable[[Tensor], Tensor]


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """Rows of representations or of a table, int [...] → [..., D].

    Where somebody trains the table by rows (:func:`rows_from`), the gradient goes there and not to ``table.grad``.
    """
    taker: Taker | None = getattr(table, _TAKER, None)
    return functional.embedding(rows, table) if taker is None else taker(rows)


@contextmanager
def rows_from(takers: Sequence[tuple[nn.Parameter, Taker]]) -> Iterator[None]:
    """Let :func:`take_rows` get the rows of these tables from functions int [...] → [..., D], for a while."""
    for table, taker in takers:
        setattr(table, _TAKER, taker)
    try:
        yield
    finally:
        for table, _ in takers:
            delattr(table, _TAKER)


def normal_table(rows: int, dim: int, std: float, rng: np.random.Generator) -> nn.Parameter:
    """A parameter float32 [rows, dim] from N(0, std²); drawn by numpy, so the same bytes for every device."""
    values = rng.standard_normal((rows, dim), dtype=np.float32)
    values *= np.float32(std)
    return nn.Parameter(torch.from_numpy(values))


def uniform_matrix(out_width: int, in_width: int, bound: float, rng: np.random.Generator) -> nn.Parameter:
    """A parameter float32 [out_width, in_width] from U(±bound)."""
    values = rng.random((out_width, in_width), dtype=np.float32)
    values *= np.float32(2 * bound)
    values -= np.float32(bound)
    return nn.Parameter(torch.from_numpy(values))
