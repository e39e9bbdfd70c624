"""LightGCN against dense computations, dropout, and T1, T2 and T4 of the specification."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icpe.backbones import MF, LightGCN
from icpe.backbones import graph as graph_module
from icpe.backbones.graph import build_graph, graph_of, keep_mask

ROOT = 2**0.5


def dense(graph):
    matrix = torch.zeros(graph.nodes, graph.nodes, dtype=graph.values.dtype)
    rows = torch.repeat_interleave(torch.arange(graph.nodes), graph.starts.diff())
    return matrix.index_put((rows, graph.columns.long()), graph.values)


def by_hand(pairs, users, items):
    """Return Â, computed by its definition."""
    adjacency = np.zeros((users + items, users + items))
    for user, item in pairs:
        adjacency[user, users + item] = adjacency[users + item, user] = 1
    degree = adjacency.sum(1)
    root = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return torch.from_numpy(root[:, None] * adjacency * root)


def model(log, **options):
    backbone = LightGCN(**{"dim": 3, "node_dropout": 0, "message_dropout": 0, **options}).double()
    backbone.build(log, np.random.default_rng(0))
    return backbone.double()


def tables(backbone):
    return torch.cat((backbone.user_table, backbone.item_table)).detach().requires_grad_()


def gradients(backbone, z, weights):
    backbone.zero_grad()
    (torch.cat(z) * weights).sum().backward()
    return torch.cat((backbone.user_table.grad, backbone.item_table.grad))


@st.composite
def graphs(draw):
    users, items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pair = st.tuples(st.integers(0, users - 1), st.integers(0, items - 1))
    return sorted(draw(st.sets(pair, max_size=20))), users, items


def test_two_users_three_items(log_of):
    """Values computed by hand: user 0 has used items 0 and 1, user 1 has used item 1, and nobody has used item 2."""
    backbone = model(log_of([(0, 0), (0, 1), (1, 1)], 2, 3), dim=1, layers=2)
    with torch.no_grad():
        backbone.user_table.copy_(torch.tensor([[1.0], [2.0]]))
        backbone.item_table.copy_(torch.tensor([[4.0], [8.0], [5.0]]))
    z_user, z_item = backbone.reps()
    layer_1 = [2 * ROOT + 4, 4 * ROOT, 1 / ROOT, 0.5 + ROOT, 0]
    layer_2 = [0.75 + ROOT / 2, ROOT / 4 + 1, 2 + 2 * ROOT, ROOT + 2 + 4, 0]
    start = [1, 2, 4, 8, 5]
    expected = [(a + b + c) / 3 for a, b, c in zip(start, layer_1, layer_2, strict=True)]
    assert torch.cat((z_user, z_item))[:, 0].tolist() == pytest.approx(expected, abs=1e-14)
    assert z_user[0, 0].item() == pytest.approx(3.0951779686, abs=1e-9)
    z_user[0].sum().backward()
    found = [*backbone.user_table.grad[:, 0].tolist(), *backbone.item_table.grad[:, 0].tolist()]
    assert found == pytest.approx([1.75 / 3, ROOT / 12, 1 / ROOT / 3, 1 / 6, 0], abs=1e-15)


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_graph_is_the_normalised_adjacency(case):
    pairs, users, items = case
    user, item = np.array(pairs, np.int32).reshape(-1, 2).T
    graph = build_graph(user, item, users, items)
    torch.testing.assert_close(dense(graph), by_hand(pairs, users, items))
    assert torch.equal(graph.mirror[graph.mirror.long()].long(), torch.arange(len(graph.columns)))
    other = graph.drop(0.5, torch.Generator().manual_seed(len(pairs)))
    torch.testing.assert_close(dense(other.transposed), dense(other).T)
    assert graph.transposed is graph
    if pairs:
        assert torch.linalg.eigvalsh(dense(graph)).max().item() == pytest.approx(1, abs=1e-12)  # T4


@given(graphs(), st.integers(0, 4), st.sampled_from([0, 0.4]), st.sampled_from([0, 0.4]))
@settings(deadline=None, max_examples=80)
def test_values_and_gradients_equal_the_dense_computation(log_of, case, layers, node, message):
    """A call samples one mask of entries for all layers and one mask of numbers for each layer, and nothing else."""
    pairs, users, items = case
    backbone = model(log_of(pairs, users, items), layers=layers, node_dropout=node, message_dropout=message)
    z = backbone.reps(torch.Generator().manual_seed(5))
    rng, start = torch.Generator().manual_seed(5), tables(backbone)
    matrix = by_hand(pairs, users, items)
    if node:
        matrix = dense(backbone.graph.drop(node, rng))
        kept = matrix != 0
        torch.testing.assert_close(matrix[kept], by_hand(pairs, users, items)[kept] / 0.6)
    total, layer = start, start
    for _ in range(layers):
        layer = matrix @ layer
        if message:
            layer = layer * keep_mask(start, 1 - message, rng) / (1 - message)
        total = total + layer
    total = total / (layers + 1)
    torch.testing.assert_close(torch.cat(z), total, rtol=1e-12, atol=1e-14)
    weights = torch.randn(total.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    (total * weights).sum().backward()
    torch.testing.assert_close(gradients(backbone, z, weights), start.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "kernels"])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize(("node", "message"), [(0, 0), (0.3, 0), (0, 0.3), (0.3, 0.3)])
def test_rows_of_a_batch_are_rows_of_all(skewed, generator, monkeypatch, compiled, layers, node, message):
    """Values, gradients and random numbers agree, also for repeated users and items."""
    if compiled:
        monkeypatch.setattr(graph_module, "WORTH_COMPILING_PRODUCT", 0)
    backbone = model(skewed, layers=layers, node_dropout=node, message_dropout=message)
    users, items = torch.tensor([3, 0, 3, 7]), torch.tensor([1, 1, 0, 5, 9, 1])
    weights = torch.randn(len(users) + len(items), 3, dtype=torch.float64, generator=generator(6))
    results = []
    for rows in (backbone.rows, super(LightGCN, backbone).rows):
        rng = generator(5)
        z = rows(users, items, rng)
        results.append((torch.cat(z), gradients(backbone, z, weights), rng.get_state()))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-13)


def test_later_steps_do_not_change_gradients(skewed, monkeypatch):
    """Memory is reused, but never that of a gradient that is still in use."""
    monkeypatch.setattr(graph_module, "WORTH_COMPILING_PRODUCT", 0)
    backbone, held = model(skewed), []
    for step in range(4):
        z_user, z_item = backbone.rows(torch.tensor([step]), torch.tensor([step, 5]))
        held.append(torch.autograd.grad(z_user.sum() * (step + 1) + z_item.square().sum(), backbone.user_table)[0])
        held.append(held[-1].clone())
    for one, copy in zip(held[::2], held[1::2], strict=True):
        assert torch.equal(one, copy)


def test_no_layers_is_mf(skewed):
    """T1: the same start values give the same scores and gradients."""
    graph_model, plain = LightGCN(dim=5, layers=0, node_dropout=0, message_dropout=0), MF(dim=5, init_std=0.1)
    results = []
    for backbone in (graph_model, plain):
        backbone.build(skewed, np.random.default_rng(1))
        z_user, z_item = backbone.reps()
        scores = backbone.score(z_user[:50], z_item[:50])
        torch.nn.functional.softplus(scores).sum().backward()
        results.append((scores.detach(), backbone.user_table.grad, backbone.item_table.grad))
    for one, two in zip(*results, strict=True):
        assert torch.equal(one, two)


def test_without_dropout_training_and_evaluation_are_the_same(skewed, generator):
    """T2, first half."""
    backbone = LightGCN(dim=5, node_dropout=0, message_dropout=0)
    backbone.build(skewed, np.random.default_rng(1))
    rng = generator(0)
    before = rng.get_state()
    training, evaluation = backbone.train().reps(rng), backbone.eval().reps(rng)
    assert torch.equal(rng.get_state(), before)
    for one, two in zip(training, evaluation, strict=True):
        assert torch.equal(one, two)


def test_dropped_graph_is_right_on_average(log_of, generator):
    """T2, second half: the two directions of a pair are dropped independently."""
    graph = graph_of(log_of([(0, 0), (0, 1), (1, 1), (2, 0)], 3, 2))
    rng, draws = generator(0), 5_000
    values = torch.stack([graph.drop(0.1, rng).values for _ in range(draws)])
    torch.testing.assert_close(values.mean(0), graph.values, rtol=0.024, atol=0)  # five standard errors
    kept = values > 0
    assert torch.equal(values[kept], (graph.values / 0.9).expand_as(values)[kept])
    together = torch.corrcoef(kept.double().T) - torch.eye(len(graph.values))
    assert together.abs().max() < 5 / draws**0.5


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.9, 0.999])
def test_masks_keep_the_requested_share(keep, generator):
    mask = keep_mask(torch.empty(1000, 1003), keep, generator(1))
    assert mask.shape == (1000, 1003)
    assert mask.float().mean().item() == pytest.approx(keep, abs=5 * (keep * (1 - keep) / 1_003_000) ** 0.5)
    assert keep_mask(torch.empty(0, 3), keep, None).shape == (0, 3)


def test_dropout_follows_the_generator_and_ends_in_evaluation(skewed, generator):
    backbone = LightGCN(dim=5)
    backbone.build(skewed, np.random.default_rng(1))
    rng = generator(0)
    first, second, again = backbone.reps(rng)[0], backbone.reps(rng)[0], backbone.reps(generator(0))[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    own = backbone.reps()[0]
    torch.manual_seed(3)
    assert torch.equal(own, backbone.reps()[0])
    average = torch.stack([backbone.reps(rng)[0].detach() for _ in range(120)]).mean(0)
    exact = backbone.eval().reps(rng)[0]
    assert torch.equal(exact, backbone.reps()[0])
    assert (average - exact).abs().mean() < 0.15 * (first - exact).abs().mean()


def test_models_of_one_log_share_its_graph(skewed):
    one, two = LightGCN(dim=2), LightGCN(dim=3)
    for backbone in (one, two):
        backbone.build(skewed, np.random.default_rng(0))
    assert one.graph is two.graph


def test_a_log_without_pairs_keeps_the_start_values(log_of):
    backbone = model(log_of([], 2, 3), layers=3)
    torch.testing.assert_close(torch.cat(backbone.reps()), tables(backbone) / 4)
