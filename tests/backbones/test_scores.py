"""Score tables: blocks of any shape agree with scores of pairs, and memory stays bounded."""

import numpy as np
import pytest
import torch

from icpe.backbones import MF
from icpe.ranking.tables import DotScores, PairScores, to_numpy


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 6)).astype(np.float32), rng.standard_normal((23, 6)).astype(np.float32)


def test_dot_scores(vectors):
    bias = np.arange(23, dtype=np.float32)
    users = np.array([8, 0, 8])
    expected = vectors[0][users] @ vectors[1].T
    np.testing.assert_allclose(DotScores(*vectors).block(users, 4, 19), expected[:, 4:19], rtol=1e-6)
    np.testing.assert_allclose(DotScores(*vectors, bias).block(users, 4, 19), (expected + bias)[:, 4:19], rtol=1e-6)


@pytest.mark.parametrize("tile", [1, 6, 60, 1000, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pair_scores_in_tiles(vectors, tile, dtype):
    largest = 0

    def score(z_user, z_item):
        nonlocal largest
        product = z_user * z_item
        largest = max(largest, product.numel())
        assert not product.requires_grad
        return product.sum(-1)

    z_user, z_item = (torch.from_numpy(z).to(dtype).requires_grad_() for z in vectors)
    table = PairScores(score, z_user, z_item, tile_size=tile)
    assert (table.users, table.items) == (9, 23)
    block = table.block(np.array([1, 5, 5, 2], np.int32), 3, 22)
    assert block.dtype == np.float32
    np.testing.assert_allclose(block, DotScores(*vectors).block(np.array([1, 5, 5, 2]), 3, 22), rtol=1e-5, atol=1e-6)
    assert largest <= max(tile, 6)


def test_pair_scores_of_a_backbone_equal_its_own_table(skewed):
    backbone = MF(dim=5)
    backbone.build(skewed, np.random.default_rng(0))
    z = backbone.reps()
    users = np.arange(7)
    np.testing.assert_allclose(
        PairScores(backbone.score, *z).block(users, 0, 99),
        backbone.scores(*z).block(users, 0, 99),
        rtol=1e-4,
        atol=1e-8,
    )


def test_to_numpy_shares_memory_where_it_can():
    values = torch.ones(2, 3)
    assert np.shares_memory(to_numpy(values), values.numpy())
    assert to_numpy(values.double().T).flags.c_contiguous
