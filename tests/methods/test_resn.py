"""ReSN: the estimate of the spectral norm against a decomposition, the loss from its formula, and what it does."""

import numpy as np
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.methods import Batch, ReSN
from icpe.methods.resn import squared_spectral_norm
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
INNER = (SMALL[0], SMALL[2])
# User 1 and items 5 and 7 occur several times.
OWN = Batch(torch.tensor([0, 1, 2, 1]), torch.tensor([5, 7, 5, 9]), torch.tensor([[3], [5], [7], [21]]))
SHARED = Batch(OWN.users, OWN.items, torch.tensor([3, 5, 7, 21]))


def built(method):
    method.build(LOG, stream(0, "test"))
    return method.double()


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_contract(loss):
    check_method(lambda backbone: ReSN(backbone, loss=loss, strength=0.5, negatives=3), INNER)


def rows(users, items, dim, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn((size, dim), generator=rng, dtype=torch.float64) for size in (users, items)]


def leading(users, items):
    return float(np.linalg.svd((users @ items.T).numpy(), compute_uv=False)[0] ** 2)


def test_the_estimate_is_exact_for_rank_one_and_never_too_large():
    for seed in range(20):
        one = rows(7, 5, 1, seed)
        assert float(squared_spectral_norm(*one)) == pytest.approx(leading(*one), rel=1e-10)
        more = rows(7, 5, 3, seed)
        assert float(squared_spectral_norm(*more)) <= leading(*more) * (1 + 1e-12)


def test_the_estimate_is_close_where_popularity_dominates():
    users, items = rows(200, 100, 8)
    users[:, 0] += 5
    items[:, 0] += torch.linspace(0, 5, 100, dtype=torch.float64)
    assert float(squared_spectral_norm(users, items)) == pytest.approx(leading(users, items), rel=0.01)


def test_zero_rows_have_no_norm():
    users, items = (torch.zeros((3, 2), requires_grad=True) for _ in range(2))
    squared_spectral_norm(users, items).backward()
    assert not users.grad.any()
    assert not items.grad.any()


@pytest.mark.parametrize(("loss", "batch"), [("bce", OWN), ("bpr", OWN), ("softmax", SHARED)])
@pytest.mark.parametrize("backbone", [MF, LightGCN])
def test_loss_by_hand(backbone, loss, batch):
    """Every user and every item of the batch counts once, and the scores have the unit of training."""
    settings = {"loss": loss, "temperature": 0.3, "reg": 0.1}
    plain = float(built(Normal(backbone(dim=4), **settings)).eval().loss(batch).detach())
    method = built(ReSN(backbone(dim=4), strength=2.0, **settings)).eval()
    user, item = (one.detach().numpy() for one in method.backbone.reps())
    user, item = user[[0, 1, 2]], item[[3, 5, 7, 9, 21]]
    if loss == "softmax":
        user, item = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (user / 0.3, item))
        user = user / 0.3
    scores = user @ item.T
    direction = scores.sum(0) / np.linalg.norm(scores.sum(0))
    expected = plain + 2.0 * np.square(scores @ direction).sum() / 15
    assert float(method.loss(batch).detach()) == pytest.approx(expected, rel=1e-6)


def test_strength_zero_is_normal():
    trained = []
    for method in (ReSN(MF(dim=4), loss="bce", strength=0.0), Normal(MF(dim=4))):
        Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=64, lr=0.01)).run()
        trained.append(method.backbone.item_table.detach())
    assert torch.equal(*trained)


def test_it_lowers_the_part_of_the_leading_singular_value():
    """With the penalty, the leading singular value is a smaller part of all, which is what the paper aims at."""
    parts = []
    for strength in (0.0, 1.0):
        method = ReSN(MF(dim=8), loss="bce", strength=strength, reg=0.0)
        Trainer(method, skewed_log(), 0, TrainSettings(epochs=40, batch_size=256, lr=0.02)).run()
        with torch.no_grad():
            users, items = method.backbone.reps()
            values = np.linalg.svd((users @ items.T).numpy(), compute_uv=False) ** 2
        parts.append(values[0] / values.sum())
    assert parts[1] < 0.8 * parts[0]


def test_it_needs_inner_products():
    with pytest.raises(ConfigError, match=r"NeuMF scores pairs one by one, but resn needs .*\(mf, lightgcn\)"):
        ReSN(NeuMF()).build(LOG, np.random.default_rng(0))
