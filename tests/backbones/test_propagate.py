"""The kernels give the same product as torch, for any number of threads."""

import numpy as np
import pytest
import torch

from icpe import threads
from icpe.backbones import LightGCN
from icpe.backbones import graph as graph_module
from icpe.backbones.graph import graph_of
from icpe.kernels.propagate import multiply, multiply_few, multiply_rows
from icpe.testing import skewed_log

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}


@pytest.fixture
def kernel(monkeypatch):
    """Return a function that makes all products use the kernels, even small ones."""
    return lambda: monkeypatch.setattr(graph_module, "WORTH_COMPILING_PRODUCT", 0)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 64, 192])
@pytest.mark.parametrize("plus", [False, True], ids=["", "plus"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_products(skewed, kernel, dtype, width, plus, masked):
    dense = torch.randn(len(skewed.users) + len(skewed.items), width, dtype=dtype)
    graph = graph_of(skewed).like(dense).drop(0.2, None)
    added = torch.randn_like(dense) if plus else None
    keep = torch.rand_like(dense) < 0.7 if masked else None
    results = []
    for take in (lambda: None, kernel):
        take()
        results.append(graph.times(dense, added, keep))
        parts = [graph.times(dense, added, keep, nodes=ends) for ends in ((0, 7), (7, 7), (7, graph.nodes))]
        assert torch.equal(torch.cat(parts), results[-1])
    torch.testing.assert_close(*results, rtol=0, atol=TOLERANCE[dtype] * 8)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("width", [1, 64])
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_products_of_few_rows(skewed, kernel, dtype, width, masked):
    """Products with a table that has few rows that are not 0, and some rows of a product, by torch and by the kernels."""
    whole = torch.zeros(len(skewed.users) + len(skewed.items), width, dtype=dtype)
    graph = graph_of(skewed).like(whole).drop(0.2, None)
    nodes = torch.randperm(graph.nodes)[: graph.nodes // 5].sort().values
    few, added = torch.randn(2, len(nodes), width, dtype=dtype)
    places = torch.full((graph.nodes,), -1, dtype=torch.int32)
    places[nodes] = torch.arange(len(nodes), dtype=torch.int32)
    keep = torch.rand_like(whole) < 0.7 if masked else None
    dense, plus = whole.index_add(0, nodes, few), whole.index_add(0, nodes, added)
    expected, product = graph.times(dense, plus, keep), graph.times(dense)[nodes]
    near = {"rtol": 0, "atol": TOLERANCE[dtype] * 8}
    for take in (lambda: None, kernel):
        take()
        torch.testing.assert_close(graph.times(dense, added, keep, places), expected, **near)
        torch.testing.assert_close(graph.times_few(few, added, keep, places), expected, **near)
        for ends in ((0, 9), (9, graph.nodes)):
            part = graph.times_few(few, added, keep, places, ends)
            torch.testing.assert_close(part, expected[slice(*ends)], **near)
        torch.testing.assert_close(graph.rows_times(nodes, dense), product, **near)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("dropout", [0, 0.2])
def test_representations_and_gradients(skewed, generator, kernel, dtype, dropout):
    results = []
    for take in (lambda: None, kernel):
        take()
        backbone = LightGCN(dim=16, node_dropout=dropout, message_dropout=dropout)
        backbone.build(skewed, np.random.default_rng(0))
        z = torch.cat(backbone.to(dtype).reps(generator(1)))
        (z * torch.linspace(-1, 1, 16)).square().sum().backward()
        results.append((z.detach(), backbone.user_table.grad, backbone.item_table.grad))
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=TOLERANCE[dtype] * 16)


@pytest.mark.parametrize("number", [2, 3, 16])
def test_threads_change_nothing(number):
    log = skewed_log(users=500, items=80, pairs=9000, seed=2)
    graph = graph_of(log)
    dense = np.random.default_rng(0).standard_normal((graph.nodes, 33)).astype(np.float32)
    matrix = graph.starts.numpy(), graph.columns.numpy(), graph.values.float().numpy()
    rows = np.arange(3, graph.nodes, 3)
    places = np.full(graph.nodes, -1, np.int32)
    places[rows] = np.arange(len(rows))
    few = dense[: len(rows)]
    products = (
        (dense, lambda result: multiply(*matrix, dense, result, plus=dense)),
        (dense, lambda result: multiply_few(*matrix, few, places, result, plus=few)),
        (few, lambda result: multiply_rows(*matrix, dense, rows, result)),
    )
    for like, product in products:
        alone, shared = np.empty_like(like), np.empty_like(like)
        with threads.use(1):
            product(alone)
        with threads.use(number):
            product(shared)
        assert alone.tobytes() == shared.tobytes()


@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_empty_matrices(nodes):
    result = np.ones((nodes, 2), np.float32)
    dense = np.ones((nodes, 2), np.float32)
    empty = np.zeros(nodes + 1, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)
    for number in (1, 2):
        with threads.use(number):
            multiply(*empty, dense, result)
        assert not result.any()


def test_threads_of_a_backbone_change_nothing(skewed, kernel):
    kernel()
    backbone = LightGCN(dim=16).eval()
    backbone.build(skewed, np.random.default_rng(0))
    found = []
    for number in (1, 2):
        with threads.use(number):
            found.append(torch.cat(backbone.reps()).detach().numpy().tobytes())
    assert found[0] == found[1]
