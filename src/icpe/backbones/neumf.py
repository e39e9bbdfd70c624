"""Neural matrix factorisation."""

from typing import Annotated, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from icpe.backbones.base import Backbone, half, normal_table, uniform_matrix
from icpe.backbones.blocks import in_blocks
from icpe.backbones.rows import RowParameter, all_rows, take_rows
from icpe.data.interactions import Interactions
from icpe.ranking.tables import DotScores, NeuMFScores, to_numpy
from icpe.settings import Settings, setting


class NeuMFSettings(Settings):
    """Settings of :class:`NeuMF`."""

    dim: int = setting(64, "Length of a GMF row and of an MLP row (d).", least=1)
    layers: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = setting(
        (64, 32, 16),
        "Widths of the hidden layers.",
        expected="the widths of at least one layer, whole numbers from 1 up, such as (64, 32, 16)",
    )
    init_std: float = setting(
        0.01,
        "Standard deviation of the initial values of the tables; hidden layers start Glorot-uniform with zero biases, "
        "the output LeCun-uniform.",
        above=0.0,
    )


class NeuMF(Backbone):
    """Neural matrix factorisation (He et al. 2017): a product of embeddings (GMF) and a tower of layers (MLP).

    z = [g; m] is the GMF row and the MLP row of a user or item side by side; φ = [g_u ∘ g_i ; MLP([m_u; m_i])] with
    ReLU after every hidden layer, including the last; s_ui = h·φ + b. The bias of the output is the same for all items
    and cannot change a ranking. The first hidden layer is applied to each side separately,
    W₁[m_u; m_i] = W₁ᵘm_u + W₁ⁱm_i, which gives the same result and saves work when one user is scored with many items.

    The original ties the width of the last layer to the length of the GMF rows. Here GMF and MLP rows have length
    ``dim``, and the tower narrows from 2·dim through the widths in ``layers``; this is how we read the description
    "embedding size 64, three layers".

    Example:
        >>> NeuMF(dim=8, layers=(8, 4)).settings.as_dict()
        {'dim': 8, 'layers': [8, 4], 'init_std': 0.01}
    """

    name: ClassVar[str] = "neumf"
    Settings = NeuMFSettings
    settings: NeuMFSettings
    default_optimizer: str = "rmsprop"
    shareable: ClassVar[bool] = True
    pairs_alone: ClassVar[bool] = True

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the tables, the hidden layers and the output, in this order."""
        self.users, self.items = len(train.users), len(train.items)
        # GMF and MLP rows lie side by side, so that there is one table of users and one of items.
        self.user_table = normal_table(self.users, 2 * self.settings.dim, self.settings.init_std, rng)
        self.item_table = normal_table(self.items, 2 * self.settings.dim, self.settings.init_std, rng)
        ins = (2 * self.settings.dim, *self.settings.layers)
        self.weights = nn.ParameterList(
            uniform_matrix(wide, narrow, (6 / (wide + narrow)) ** 0.5, rng)
            for narrow, wide in zip(ins, self.settings.layers, strict=False)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in self.settings.layers)
        joint = self.settings.dim + self.settings.layers[-1]
        self.output = uniform_matrix(1, joint, (3 / joint) ** 0.5, rng)
        self.output_bias = nn.Parameter(torch.zeros(1))

    def memory_needs(self, users: int, items: int, copies: int) -> dict[str, int]:
        """Return the bytes of both tables and of the layers."""
        dim, layers = self.settings.dim, self.settings.layers
        widths = (2 * dim, *layers)
        hidden = sum(wide * (narrow + 1) for narrow, wide in zip(widths, layers, strict=False))
        numbers = {"dim": (users + items) * 2 * dim, "layers": hidden + dim + layers[-1] + 1}
        return {name: 4 * copies * number for name, number in numbers.items()}

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return GMF and MLP rows side by side, [users, 2·dim] and [items, 2·dim]."""
        self._require_built()
        return self.user_table, all_rows(self.item_table)

    def halved(self) -> Self:
        """Return an unbuilt backbone with tables and layers of half the width."""
        layers = [half(width) for width in self.settings.layers]
        return type(self)(**{**self.settings.as_dict(), "dim": half(self.settings.dim), "layers": layers})

    def row_tables(self) -> tuple[list[RowParameter], list[RowParameter]]:
        """Return both tables."""
        return [self.user_table], [self.item_table]

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """Return [g_u ∘ g_i ; x_L] with the last hidden layer x_L, [..., dim + layers[-1]]."""
        if not self.training:
            return self._interact(z_user, z_item)
        return in_blocks(self._interact, z_user, z_item, [*self.weights, *self.biases])

    def _interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        product = z_user[..., : self.settings.dim] * z_item[..., : self.settings.dim]
        of_user, of_item = self._first_layer(z_user, z_item)
        hidden = functional.relu(of_user + of_item)
        for weight, bias in list(zip(self.weights, self.biases, strict=True))[1:]:
            hidden = functional.relu(functional.linear(hidden, weight, bias))
        return torch.cat((product, hidden), -1)

    def out(self, phi: Tensor) -> Tensor:
        """Return h·φ + b."""
        return functional.linear(phi, self.output, self.output_bias).squeeze(-1)

    def ego_users(self, users: Tensor) -> Tensor:
        """Return the GMF and MLP rows of users side by side, [n, 2·dim]."""
        return take_rows(self.user_table, users)

    def ego_items(self, items: Tensor) -> Tensor:
        """Return the GMF and MLP rows of items side by side, [n, 2·dim]."""
        return take_rows(self.item_table, items)

    def user_parameters(self) -> list[nn.Parameter]:
        """Return the user table with the GMF and MLP rows."""
        return [self.user_table]

    def item_parameters(self) -> list[nn.Parameter]:
        """Return the item table with the GMF and MLP rows."""
        return [self.item_table]

    def scores(self, z_user: Tensor, z_item: Tensor) -> NeuMFScores:
        """Return the exact scores of every user for every item. The first layer is computed once per user and item."""
        with torch.no_grad():
            of_user, of_item = self._first_layer(z_user, z_item)
            product, tower = self.output[0, : self.settings.dim], self.output[0, self.settings.dim :]
            weighted = z_user[:, : self.settings.dim] * product
            bias = self.output_bias.expand(len(z_item))
        return NeuMFScores(
            linear=DotScores(to_numpy(weighted), to_numpy(z_item[:, : self.settings.dim]), to_numpy(bias)),
            user_hidden=to_numpy(of_user),
            item_hidden=to_numpy(of_item),
            layers=[(to_numpy(w.T), to_numpy(b)) for w, b in list(zip(self.weights, self.biases, strict=True))[1:]],
            output=to_numpy(tower),
        )

    def _first_layer(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor]:
        """Return the user part, including the bias, and the item part of the first hidden layer before ReLU."""
        user_half, item_half = self.weights[0][:, : self.settings.dim], self.weights[0][:, self.settings.dim :]
        of_user = functional.linear(z_user[..., self.settings.dim :], user_half, self.biases[0])
        return of_user, functional.linear(z_item[..., self.settings.dim :], item_half)
