"""Neural matrix factorisation."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from icpe.backbones._checks import positive, whole, widths
from icpe.backbones.base import Backbone, half, normal_table, take_rows, uniform_matrix
from icpe.data.interactions import Interactions
from icpe.ranking.tables import DotScores, NeuMFScores, to_numpy


class NeuMF(Backbone):
    """Neural matrix factorisation (He et al. 2017): a product of embeddings (GMF) beside a tower of layers (MLP).

    z = [g; m] holds a user's or item's GMF and MLP rows side by side; φ = [g_u ∘ g_i ; MLP([m_u; m_i])] with ReLU
    after every hidden layer, the last included; s_ui = h·φ + b. The output's bias is common to all items and cannot
    alter a ranking. The first hidden layer is applied to both sides apart, W₁[m_u; m_i] = W₁ᵘm_u + W₁ⁱm_i, which is
    the same and spares work where one user meets many items.

    The original ties the last width to the GMF rows' length; here all four tables have ``dim`` columns and the tower
    narrows from 2·dim to ``layers``, our reading of "embedding size 64, three layers".

    Args:
        dim: length of a GMF or MLP row (d).
        layers: widths of the hidden layers.
        init_std: standard deviation of the tables' start values; hidden layers start Glorot-uniform with biases 0,
            the output LeCun-uniform.

    Raises:
        ConfigError: a setting is out of range.

    Example:
        >>> NeuMF(dim=8, layers=(8, 4)).settings()
        {'dim': 8, 'layers': [8, 4], 'init_std': 0.01}
    """

    name: ClassVar[str] = "neumf"
    default_optimizer: str = "rmsprop"

    def __init__(self, dim: int = 64, layers: Sequence[int] = (64, 32, 16), init_std: float = 0.01) -> None:
        super().__init__()
        self.dim = whole("dim", dim, at_least=1)
        self.layers = widths("layers", layers)
        self.init_std = positive("init_std", init_std)

    def build(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the tables, the hidden layers and the output, in this order."""
        self.users, self.items = len(train.users), len(train.items)
        # GMF and MLP rows lie side by side: one table a side, read row by row.
        self.user_table = normal_table(self.users, 2 * self.dim, self.init_std, rng)
        self.item_table = normal_table(self.items, 2 * self.dim, self.init_std, rng)
        ins = (2 * self.dim, *self.layers)
        self.weights = nn.ParameterList(
            uniform_matrix(wide, narrow, (6 / (wide + narrow)) ** 0.5, rng)
            for narrow, wide in zip(ins, self.layers, strict=False)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in self.layers)
        joint = self.dim + self.layers[-1]
        self.output = uniform_matrix(1, joint, (3 / joint) ** 0.5, rng)
        self.output_bias = nn.Parameter(torch.zeros(1))

    def reps(self, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """GMF and MLP rows side by side, [users, 2·dim] and [items, 2·dim]."""
        self._require_built()
        return self.user_table, self.item_table

    def halved(self) -> Self:
        """With tables and layers of half the width."""
        return type(self)(half(self.dim), [half(width) for width in self.layers], self.init_std)

    def row_tables(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Both tables."""
        return [self.user_table], [self.item_table]

    def interact(self, z_user: Tensor, z_item: Tensor) -> Tensor:
        """[g_u ∘ g_i ; x_L] with x_L the last hidden layer, [..., dim + layers[-1]]."""
        product = z_user[..., : self.dim] * z_item[..., : self.dim]
        of_user, of_item = self._first_layer(z_user, z_item)
        hidden = functional.relu(of_user + of_item)
        for weight, bias in list(zip(self.weights, self.biases, strict=True))[1:]:
            hidden = functional.relu(functional.linear(hidden, weight, bias))
        return torch.cat((product, hidden), -1)

    def out(self, phi: Tensor) -> Tensor:
        """h·φ + b."""
        return functional.linear(phi, self.output, self.output_bias).squeeze(-1)

    def ego_users(self, users: Tensor) -> Tensor:
        """The users' GMF and MLP rows side by side, [n, 2·dim]."""
        return take_rows(self.user_table, users)

    def ego_items(self, items: Tensor) -> Tensor:
        """The items' GMF and MLP rows side by side, [n, 2·dim]."""
        return take_rows(self.item_table, items)

    def item_parameters(self) -> list[nn.Parameter]:
        """The items' GMF and MLP rows."""
        return [self.item_table]

    def scores(self, z_user: Tensor, z_item: Tensor) -> NeuMFScores:
        """The score of every user for every item, exact, with the first layer computed once per user and item."""
        with torch.no_grad():
            of_user, of_item = self._first_layer(z_user, z_item)
            product, tower = self.output[0, : self.dim], self.output[0, self.dim :]
            weighted = z_user[:, : self.dim] * product
            bias = self.output_bias.expand(len(z_item))
        return NeuMFScores(
            linear=DotScores(to_numpy(weighted), to_numpy(z_item[:, : self.dim]), to_numpy(bias)),
            user_hidden=to_numpy(of_user),
            item_hidden=to_numpy(of_item),
            layers=[(to_numpy(w.T), to_numpy(b)) for w, b in list(zip(self.weights, self.biases, strict=True))[1:]],
            output=to_numpy(tower),
        )

    def _first_layer(self, z_user: Tensor, z_item: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides' shares of the first hidden layer before ReLU; the bias is with the user's."""
        user_half, item_half = self.weights[0][:, : self.dim], self.weights[0][:, self.dim :]
        of_user = functional.linear(z_user[..., self.dim :], user_half, self.biases[0])
        return of_user, functional.linear(z_item[..., self.dim :], item_half)
