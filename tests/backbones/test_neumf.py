"""NeuMF: shapes, start values, the formula, and T3 and T5 of the specification."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from icpe.backbones import NeuMF
from icpe.testing import skewed_log
from icpe.testing.backbones import toy_log


def built(log, **settings):
    backbone = NeuMF(**settings)
    backbone.build(log, np.random.default_rng(0))
    return backbone


def lively(backbone, seed=0):
    """Set all parameters to numbers of order 1, so that every ReLU is sometimes active and sometimes not."""
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.5)
    return backbone


def test_shapes():
    backbone = built(toy_log())
    assert {name: tuple(value.shape) for name, value in backbone.named_parameters()} == {
        "user_table": (7, 128),  # GMF and MLP rows side by side
        "item_table": (5, 128),
        "weights.0": (64, 128),
        "weights.1": (32, 64),
        "weights.2": (16, 32),
        "biases.0": (64,),
        "biases.1": (32,),
        "biases.2": (16,),
        "output": (1, 80),
        "output_bias": (1,),
    }
    z_user, z_item = backbone.reps()
    assert z_user.shape == (7, 128)
    assert backbone.interact(z_user[:5], z_item).shape == (5, 80)
    assert backbone.ego_users(torch.tensor([3, 1])).shape == (2, 128)
    torch.testing.assert_close(backbone.ego_users(torch.tensor([3]))[0], backbone.user_table[3])
    torch.testing.assert_close(backbone.ego_items(torch.tensor([4]))[0], backbone.item_table[4])
    assert [id(p) for p in backbone.item_parameters()] == [id(backbone.item_table)]


def test_start_values():
    backbone = built(skewed_log())
    for table in (backbone.user_table, backbone.item_table):
        assert table.std().item() == pytest.approx(0.01, rel=0.04)
        assert table.mean().item() == pytest.approx(0, abs=5 * 0.01 / table.numel() ** 0.5)
    bounds = [(6 / (128 + 64)) ** 0.5, (6 / (64 + 32)) ** 0.5, (6 / (32 + 16)) ** 0.5, (3 / 80) ** 0.5]
    for weight, bound in zip([*backbone.weights, backbone.output], bounds, strict=True):
        assert 0.9 * bound < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.15 if weight.numel() < 100 else 0.05)
    for bias in (*backbone.biases, backbone.output_bias):
        assert not bias.any()


def test_formula():
    """The score is that of the paper: concatenation, three layers with ReLU, one output."""
    backbone = lively(built(toy_log(), dim=4, layers=(6, 5, 3)).double())
    (g_user, g_item), (m_user, m_item) = (
        (backbone.user_table[2, :4], backbone.item_table[1, :4]),
        (backbone.user_table[2, 4:], backbone.item_table[1, 4:]),
    )
    hidden = torch.cat((m_user, m_item))
    for weight, bias in zip(backbone.weights, backbone.biases, strict=True):
        hidden = torch.relu(weight @ hidden + bias)
    expected = backbone.output[0] @ torch.cat((g_user * g_item, hidden)) + backbone.output_bias[0]
    z_user, z_item = backbone.reps()
    torch.testing.assert_close(backbone.score(z_user[2], z_item[1]), expected)


@pytest.mark.parametrize("layers", [(64, 32, 16), (7,), (9, 4)])
@pytest.mark.parametrize("items_at_once", [1, 7, 2048])
def test_chunked_scores_equal_pairs(layers, items_at_once):
    """T3: scores computed in chunks equal scores of pairs."""
    log = skewed_log(users=20, items=60)
    backbone = lively(built(log, dim=8, layers=layers))
    z_user, z_item = backbone.reps()
    table, users = replace(backbone.scores(z_user, z_item), items_at_once=items_at_once), np.array([3, 19, 3, 0])
    expected = backbone.score(z_user[users][:, None], z_item[None]).detach().numpy()
    np.testing.assert_allclose(table.block(users, 0, 60), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(table.block(users, 13, 41), expected[:, 13:41], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("silent", "still", "moving"), [(slice(None, 4), "gmf", "mlp"), (slice(4, None), "mlp", "gmf")]
)
def test_an_output_of_zero_stops_its_branch(silent, still, moving):
    """T5: with output weights of 0, a branch gets no gradient."""
    backbone = lively(built(toy_log(), dim=4, layers=(6, 3)))
    with torch.no_grad():
        backbone.output[0, silent] = 0
    z_user, z_item = backbone.reps()
    torch.nn.functional.softplus(backbone.score(z_user[:, None], z_item[None])).sum().backward()
    columns = {"gmf": slice(None, 4), "mlp": slice(4, None)}
    for table in (backbone.user_table, backbone.item_table):
        assert not table.grad[:, columns[still]].any()
        assert table.grad[:, columns[moving]].any()
    assert backbone.weights[0].grad.any() == (still == "gmf")
