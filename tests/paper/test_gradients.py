"""Gradients of single items against autograd, cosines and arrows against the vectors themselves."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from icpe import MF, DataError, LightGCN, NeuMF, Normal
from icpe.data.popularity import head_mask
from icpe.paper.analysis.gradients import conflicts, first_epoch, item_gradients, principal_arrows
from icpe.paper.analysis.logits import pair_logits
from icpe.rng import stream
from icpe.runs.config import RunConfig
from icpe.testing import skewed_log

LOG = skewed_log(users=30, items=20, pairs=250)
BACKBONES = {
    "mf": lambda: MF(dim=4, init_std=0.3),
    "neumf": lambda: NeuMF(dim=4, layers=(8, 4), init_std=0.3),
    "lightgcn": lambda: LightGCN(dim=4, layers=2, init_std=0.3),  # with dropout, which must be off
}
each_backbone = pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES.keys())


def built(backbone, **settings):
    method = Normal(backbone(), **settings)
    method.build(LOG, stream(0, "test"))
    return method.double().train()


def gradient_of(method, item):
    """The whole gradient of Σ −log σ(s_ui) over the users of an item, by a pass of its own."""
    backbone = method.backbone.eval()
    z_user, z_item = backbone.reps()
    total = 0
    for user in LOG.user[LOG.item == item]:
        score = backbone.score(z_user[int(user)], z_item[int(item)])
        if method.settings.loss == "softmax":
            score = F.cosine_similarity(z_user[int(user)], z_item[int(item)], dim=0) / method.settings.temperature
        total = total - torch.log(torch.sigmoid(score))
    gradients = torch.autograd.grad(total, backbone.shared_parameters())
    return torch.cat([one.reshape(-1) for one in gradients]).numpy()


@each_backbone
def test_norms_equal_one_pass_per_item(backbone):
    method = built(backbone)
    frame = item_gradients(method, LOG)
    assert method.training  # as it was
    assert sorted(frame["item_id"]) == sorted(LOG.items)
    assert frame["popularity"].is_sorted(descending=True)
    codes = {item: code for code, item in enumerate(LOG.items)}
    for item, popularity, head, found in frame.iter_rows():
        assert popularity == (LOG.item == codes[item]).sum()
        assert head == head_mask(LOG.item_counts)[codes[item]]
        assert found == pytest.approx(np.linalg.norm(gradient_of(method, codes[item])), rel=1e-9)


def test_norms_after_softmax_are_those_of_the_cosine():
    method = built(BACKBONES["mf"], loss="softmax")
    frame = item_gradients(method, LOG, most=3)
    codes = [list(LOG.items).index(item) for item in frame["item_id"]]
    expected = [np.linalg.norm(gradient_of(method, code)) for code in codes]
    assert frame["gradient_norm"].to_list() == pytest.approx(expected)


def test_fewer_items_are_spread_over_popularity():
    frame = item_gradients(built(BACKBONES["mf"]), LOG, most=5)
    ranked = sorted(LOG.item_counts, reverse=True)
    assert frame["popularity"].to_list() == [ranked[place] for place in (0, 5, 10, 14, 19)]


@each_backbone
def test_cosines_equal_those_of_whole_gradients(backbone):
    method = built(backbone)
    found = conflicts(method, LOG, niche=6, rng=1)
    codes = {item: code for code, item in enumerate(LOG.items)}
    head = gradient_of(method, codes[found.head_item])
    assert codes[found.head_item] == LOG.item_counts.argmax()
    assert len(found.niche) == 6
    niche_items = ~head_mask(LOG.item_counts)
    cosines = []
    for item, _, cosine in found.niche.iter_rows():
        one = gradient_of(method, codes[item])
        assert niche_items[codes[item]]
        cosines.append(one @ head / np.linalg.norm(one) / np.linalg.norm(head))
        assert cosine == pytest.approx(cosines[-1], abs=1e-9)
    assert found.niche["cosine"].is_sorted()
    assert found.share_below_zero == np.mean(np.array(cosines) < 0)


def test_arrows_are_the_gradients_along_their_principal_directions():
    method = built(BACKBONES["neumf"])
    found = conflicts(method, LOG, niche=7)
    codes = {item: code for code, item in enumerate(LOG.items)}
    names = [found.head_item, found.niche["item_id"][0], found.niche["item_id"][3]]
    assert found.arrows["item_id"].to_list() == [*names, None]
    vectors = np.stack([gradient_of(method, codes[item]) for item in names])
    vectors = np.vstack([vectors, vectors.sum(axis=0)])
    _, values, directions = np.linalg.svd(vectors, full_matrices=False)
    assert found.explained == pytest.approx(tuple(values[:2] ** 2 / (values**2).sum()))
    places = found.arrows.select("x", "y").to_numpy()
    assert np.allclose(np.abs(places), np.abs(vectors @ directions[:2].T), atol=1e-9)
    assert np.allclose(places[3], places[:3].sum(axis=0))  # still the sum of the three
    assert found.arrows["length"].to_list() == pytest.approx(np.linalg.norm(vectors, axis=1))


def test_arrows_of_nothing():
    places, explained = principal_arrows(np.zeros((3, 3)))
    assert not places.any()
    assert explained == (0, 0)


def test_first_epoch_is_one_epoch():
    config = RunConfig(backbone={"name": "mf", "dim": 4}, train={"epochs": 50, "batch_size": 64, "lr": 0.01, "seed": 3})
    seen = []
    method = first_epoch(config, LOG, lambda done, total: seen.append((done, total)))
    model = Normal(MF(dim=4)).fit(LOG, rng=3, epochs=1, batch_size=64, lr=0.01)
    assert seen[-1] == (len(seen), len(seen)) == (-(-len(LOG) // 64), len(seen))
    assert torch.equal(method.backbone.user_table, model.method.backbone.user_table)
    frame = LOG.to_frame()
    scores = model.score(frame["user_id"], frame["item_id"])
    assert pair_logits(model, LOG.user, LOG.item) == pytest.approx(scores, rel=1e-5)


def test_conflicts_need_niche_items():
    log = LOG.keep(LOG.item == 0)
    method = Normal(MF(dim=4))
    method.build(log, stream(0, "test"))
    with pytest.raises(DataError, match="0 niche items have training pairs"):
        conflicts(method, log)
