"""The contract of a backbone: representations of users and items, their interaction, and a logit."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from icpe.backbones.rows import RowParameter, take_all_rows, take_rows
from icpe.data.interactions import Interactions
from icpe.errors import ConfigError, NotFittedError
from icpe.ranking.tables import DotScores, PairScores, ScoreTable, to_numpy
from icpe.settings import Settings as BaseSettings
from icpe.settings import constructor_signature, setting
from icpe.shards import Share, current

_DRAWN = 1 << 16  # rows that are drawn at a time if a process keeps only its share


class Backbone(nn.Module, ABC):
    """A model that scores pairs of users and items and knows nothing about debiasing.

    A subclass declares its settings in a :class:`~icpe.settings.Settings` class; the constructor takes them by name,
    checks them and keeps them in :attr:`settings`. :meth:`build` creates the parameters once the numbers of users and
    items are known. Everything trainable is a parameter, so ``state_dict`` is the whole state.
    ``icpe.testing.backbones.check_backbone`` tests whether your own backbone fulfils the contract.

    Attributes:
        name: name in configuration files and on the command line.
        Settings: declaration of the settings.
        settings: the values in effect.
        default_optimizer: ``"adam"`` or ``"rmsprop"``.
        default_reg: weight λ of the L2 term on the trainable rows of a batch.
        inner_product: whether the score is the inner product of the representations, ``score(z_u, z_i) = z_u · z_i``.
            Methods then use closed forms and matrix products.
        computes_all: whether a training step computes the representations of all users and items, however small the
            batch is.
        shareable: whether the rows of its tables can be divided among processes. Tables then come from
            :func:`normal_table`, losses read them with ``take_rows``, and :meth:`reps` returns the users of this
            process and all items. A subclass does not inherit it.
        pairs_alone: whether the score of a pair depends on its two rows and on the layers only and is not random, so
            that threads can share the pairs of a batch.
        users: number of users; 0 before :meth:`build`.
        items: number of items; 0 before :meth:`build`.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[BaseSettings]] = BaseSettings
    settings: BaseSettings
    default_optimizer: str = "adam"
    default_reg: float = 1e-5
    inner_product: bool = False
    computes_all: bool = False
    shareable: ClassVar[bool] = False
    pairs_alone: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" not in cls.__dict__:
            cls.__signature__ = constructor_signature(cls.Settings)  # type: ignore[attr-defined]

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = self.Settings.parse(settings, f"backbone {getattr(self, 'name', type(self).__name__)!r}")
        self.users = 0
        self.items = 0

    @property
    def label(self) -> str:
        """The name in tables and figures."""
        return type(self).__name__

    def halved(self) -> Self:
        """Return an unbuilt backbone of half the width, for methods that use two of them.

        Raises:
            ConfigError: this backbone has no form of half the width.
        """
        raise ConfigError(
            f"{self.label} has no form of half the width; give the method two complete ones (method.size = 'full')"
        )

    @abstractmethod
    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Create all parameters for the users and items of ``train`` and set ``users`` and ``items``.

        All random numbers are drawn from ``rng``.
        """

    def memory_needs(self, users: int, items: int, copies: int) -> dict[str, int]:
        """Return the bytes that training needs at least, by the name of the setting that they grow with.

        Training refuses settings that need more memory than there is. The default states nothing.

        Args:
            users: number of users.
            items: number of items.
            copies: number of copies of all parameters, including the state of the optimiser.
        """
        return {}

    @abstractmethod
    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the representations of all users [users, D] and of all items [items, D] (Z_U, Z_I).

        Dropout happens only in training mode and draws from ``rng``, or from torch's global generator if None.
        """

    def rows(self, users: Tensor, items: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the representations of some users, int [n] → [n, D], and items, int [m] → [m, D], for a batch.

        Override it if some representations are cheaper to compute than all of them.
        """
        z_user: Tensor
        z_item: Tensor
        if self.trains_rows and current() is not None:  # asking the other processes for all rows would take long
            (z_user,), (z_item,) = self.row_tables()
        else:
            z_user, z_item = self.reps(rng)
        of_users, of_items = take_all_rows((z_user, users), (z_item, items))
        return of_users, of_items

    @abstractmethod
    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return interaction vectors (φ): [..., D] × [..., D] → [..., D_φ], broadcasting over leading dimensions."""

    @abstractmethod
    def out(self, phi: Tensor) -> Tensor:
        """Return the logits of interaction vectors: [..., D_φ] → [...]."""

    @final
    def score(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return the logits of pairs of representations (s_ui): [..., D] × [..., D] → [...]."""
        return self.out(self.interact(z_user, z_item))

    @abstractmethod
    def ego_users(self, users: Tensor) -> Tensor:
        """Return the trainable rows behind these users, int [n] → [n, ·], for the L2 term."""

    @abstractmethod
    def ego_items(self, items: Tensor) -> Tensor:
        """Return the trainable rows behind these items, int [n] → [n, ·], for the L2 term."""

    @abstractmethod
    def item_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that belong to items."""

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the parameters with a row for each user.

        A training that starts from an earlier model carries their rows over by user id, and those of
        :meth:`item_parameters` by item id. Everything else is copied as a whole.

        Raises:
            ConfigError: this backbone does not declare them.
        """
        raise ConfigError(
            f"{self.label} does not say which parameters belong to users, so a training cannot start from an earlier "
            "model; define user_parameters() in the backbone"
        )

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that all items share: those of users and of common layers."""
        of_items = {id(parameter) for parameter in self.item_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in of_items]

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return the tables with a row per user and those with a row per item that *are* the representations.

        They are trained row by row, see :mod:`icpe.backbones.rows`. The default has none.
        """
        return [], []

    @property
    def trains_rows(self) -> bool:
        """Whether the representations are trainable rows themselves."""
        return bool(self.row_tables()[0])

    def scores(self, z_user: Tensor, z_item: Tensor) -> ScoreTable:
        """Return the scores of every user for every item, for full ranking."""
        if not self.inner_product:
            return PairScores(self.score, z_user, z_item)
        return DotScores(to_numpy(z_user), to_numpy(z_item))

    def _require_built(self) -> None:
        if not self.users:
            raise NotFittedError(f"{type(self).__name__} has no parameters yet; call build(train, rng) first")


class TableSettings(BaseSettings):
    """Settings of a backbone with one table of users and one of items."""

    dim: int = setting(64, "Length of the trainable row of a user or item (d).", least=1)
    init_std: float = setting(0.01, "Standard deviation of the initial values of the tables.", above=0.0)


class DotBackbone(Backbone):
    """A backbone with one table of users and one of items, whose score is the inner product of representations."""

    Settings: ClassVar[type[TableSettings]] = TableSettings
    settings: TableSettings
    inner_product = True

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw both tables from N(0, init_std²), users first."""
        self.users, self.items = len(train.users), len(train.items)
        self.user_table = normal_table(self.users, self.settings.dim, self.settings.init_std, rng)
        self.item_table = normal_table(self.items, self.settings.dim, self.settings.init_std, rng)

    def memory_needs(self, users: int, items: int, copies: int) -> dict[str, int]:
        """Return the bytes of both tables."""
        return {"dim": 4 * copies * (users + items) * self.settings.dim}

    def halved(self) -> Self:
        """Return an unbuilt backbone with rows of half the length."""
        return type(self)(**{**self.settings.as_dict(), "dim": half(self.settings.dim)})

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return z_u ∘ z_i, [..., dim]."""
        return z_user * z_item

    def out(self, phi: Tensor) -> Tensor:
        """Return the sum over the last dimension."""
        return phi.sum(-1)

    def ego_users(self, users: Tensor) -> Tensor:
        """Return rows of the user table, [n, dim]."""
        return take_rows(self.user_table, users)

    def ego_items(self, items: Tensor) -> Tensor:
        """Return rows of the item table, [n, dim]."""
        return take_rows(self.item_table, items)

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the user table."""
        return [self.user_table]

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the item table."""
        return [self.item_table]


def half(width: int) -> int:
    """Return half of a width, at least 1."""
    return max(1, width // 2)


def normal_table(rows: int, dim: int, std: float, rng: np.random.Generator) -> RowParameter:
    """Return a parameter float32 [rows, dim] from N(0, std²).

    NumPy draws it, so that every device gets the same bytes. In a training on several processes, it holds the rows of
    this process only.
    """
    group = current()
    if group is None:
        values = rng.standard_normal((rows, dim), dtype=np.float32)
        values *= np.float32(std)
        return RowParameter(torch.from_numpy(values))
    share = Share.of(rows, group)
    values = np.empty((share.last - share.first, dim), np.float32)
    # Every process draws all rows, a few at a time, and keeps its own: these are the numbers of one process.
    for begin in range(0, rows, _DRAWN):
        drawn = rng.standard_normal((min(_DRAWN, rows - begin), dim), dtype=np.float32)
        low, high = max(share.first, begin), min(share.last, begin + len(drawn))
        if low < high:
            values[low - share.first : high - share.first] = drawn[low - begin : high - begin]
    values *= np.float32(std)
    table = RowParameter(torch.from_numpy(values))
    table.share = share
    return table


def uniform_matrix(out_width: int, in_width: int, bound: float, rng: np.random.Generator) -> nn.Parameter:
    """Return a parameter float32 [out_width, in_width] from U(±bound)."""
    values = rng.random((out_width, in_width), dtype=np.float32)
    values *= np.float32(2 * bound)
    values -= np.float32(bound)
    return nn.Parameter(torch.from_numpy(values))
