"""BC loss: margins from the popularity model, the softmax with margins from its formula, and who moves when."""

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F

from icpe import MF, ConfigError, Interactions, LightGCN, NeuMF
from icpe.data.popularity import head_mask
from icpe.errors import DataError
from icpe.methods._parts.margin import (
    add_margin,
    in_batch_with_margin,
    plain_vectors_with_margin,
    softmax_with_margin,
    vectors_with_margin,
)
from icpe.methods._parts.popularity_model import softmax_gradient
from icpe.methods.bc_loss import BCLoss
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.rng import stream
from icpe.runs.earlier_versions import renamed
from icpe.testing.backbones import Distance
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, block_log, check_method
from icpe.train import Trainer, TrainSettings
from icpe.train.batch import Batch
from icpe.train.loop import Validation

LOG = skewed_log(users=40, items=30, pairs=400)
EVERYBODY = np.arange(len(LOG.users), dtype=np.int32)
WIDE_MF = lambda: MF(dim=4, init_std=1)  # noqa: E731
WIDE_NEUMF = lambda: NeuMF(dim=4, layers=(8, 4), init_std=1)  # noqa: E731
WIDE_LIGHTGCN = lambda: LightGCN(dim=4, layers=2, init_std=1, node_dropout=0.0, message_dropout=0.0)  # noqa: E731


class Curved(Distance):
    def out(self, phi):
        return -phi.sum(-1).sqrt()


@pytest.mark.parametrize("backbone", [*SMALL, Distance], ids=["mf", "neumf", "lightgcn", "own"])
def test_contract(backbone):
    check_method(lambda one: BCLoss(one, negatives=4, bias_epochs=1), [backbone])


def test_contract_with_the_batchs_own_negatives_and_cosines():
    check_method(lambda one: BCLoss(one, batch_negatives=True, rank_by="cos", negatives=4, bias_epochs=1), SMALL[:1])


def built(backbone, log=LOG, **settings):
    method = BCLoss(backbone, **settings)
    method.build(log, stream(0, "test"))
    return method.double()


def a_batch(count=5, size=6):
    rng = np.random.default_rng(0)
    users, items = torch.from_numpy(rng.integers(0, 40, size)), torch.from_numpy(rng.integers(0, 30, size))
    items[1] = items[0]  # an item may be there twice
    return Batch(users, items, torch.from_numpy(rng.integers(0, 30, (size, count) if count else 0)))


# The popularity model


def test_levels_are_places_among_distinct_counts():
    method = built(MF(dim=4))
    for counts, levels, table in (
        (LOG.user_counts, method.user_level, method.activity),
        (LOG.item_counts, method.item_level, method.popularity),
    ):
        distinct = sorted(set(counts.tolist()))
        assert levels.tolist() == [distinct.index(count) for count in counts]
        assert len(table) == len(distinct) < len(counts)


def test_the_popularity_models_gradient():
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(3, 4))).requires_grad_()
    users, items, negatives = (torch.from_numpy(rng.integers(0, top, shape)) for top, shape in ((3, 7), (4, 7), (4, (7, 5))))  # fmt: skip
    each = logits[users[:, None], torch.cat([items[:, None], negatives], 1)]
    F.cross_entropy(each, torch.zeros(7, dtype=torch.int64)).backward()
    found = softmax_gradient(logits.detach(), users, items, negatives)
    torch.testing.assert_close(found, logits.grad, rtol=1e-12, atol=1e-12)


def test_the_popularity_model_sees_every_pair_once_an_epoch_and_only_unused_negatives():
    method = built(MF(dim=4), bias_epochs=2, negatives=20)
    batches = list(method.bias_batches(3))
    pairs = [(user, item) for users, items, _ in batches for user, item in zip(users, items, strict=True)]
    known = list(zip(LOG.user, LOG.item, strict=True))
    assert sorted(pairs) == sorted(2 * known)
    drawn = {(user, item) for users, _, negatives in batches for user, row in zip(users, negatives, strict=True) for item in row}  # fmt: skip
    assert not drawn & set(known)
    assert len(drawn) > 0.95 * (40 * 30 - len(known))  # everything else comes up


def test_margins_by_hand():
    method = built(MF(dim=4))
    found = method.margins(*(torch.arange(5), torch.arange(5, 10)))
    for row in range(5):
        levels = sorted(set(LOG.user_counts)).index(LOG.user_counts[row]), sorted(set(LOG.item_counts)).index(LOG.item_counts[row + 5])  # fmt: skip
        product = float(method.activity[levels[0]] @ method.popularity[levels[1]])
        assert float(found[row]) == pytest.approx(1 - 1 / (1 + math.exp(-product)), rel=1e-10)


def test_head_pairs_get_smaller_margins_than_niche_pairs():
    """Also where the backbone takes its negatives from the batch, which would teach nothing of popularity."""
    log = skewed_log()
    method = built(MF(dim=64), log, negatives=32, bias_epochs=20, batch_negatives=True)
    before = method.diagnostics()
    method.refresh(0, 0)
    shown = method.diagnostics()
    users, items = torch.from_numpy(log.user.astype(np.int64)), torch.from_numpy(log.item.astype(np.int64))
    margins, head = method.margins(users, items).numpy(), head_mask(log.item_counts)[log.item]
    assert shown["head_margin"] == pytest.approx(margins[head].mean())
    assert shown["niche_margin"] == pytest.approx(margins[~head].mean())
    assert shown["niche_margin"] - shown["head_margin"] > 0.02
    assert abs(before["niche_margin"] - before["head_margin"]) < 0.02


@pytest.mark.parametrize("backbone", SMALL, ids=["mf", "neumf", "lightgcn"])
def test_each_phase_leaves_the_others_numbers_alone(backbone):
    method = BCLoss(backbone(), negatives=4)
    trainer = Trainer(method, LOG, 0, TrainSettings(epochs=3, batch_size=64, lr=0.01))
    main = {name: value.clone() for name, value in method.backbone.state_dict().items()}
    bias = method.activity.clone(), method.popularity.clone()
    method.refresh(0, 0)
    assert all(torch.equal(main[name], value) for name, value in method.backbone.state_dict().items())
    learnt = method.activity.clone(), method.popularity.clone()
    assert not torch.equal(learnt[0], bias[0])
    assert not torch.equal(learnt[1], bias[1])
    method.activity.copy_(bias[0])  # the run does the same again before its first step
    method.popularity.copy_(bias[1])
    trainer.run()
    assert torch.equal(method.activity, learnt[0])
    assert torch.equal(method.popularity, learnt[1])
    for name, value in method.backbone.named_parameters():
        if name != "output_bias":  # NeuMF's, which no cosine knows of
            assert not torch.equal(value, main[name]), name


# The margin


def test_cosine_of_a_sum_of_angles():
    theta, margin = torch.meshgrid(torch.linspace(0.01, 3.1, 50, dtype=torch.float64), torch.linspace(0, 1, 11, dtype=torch.float64), indexing="ij")  # fmt: skip
    found = add_margin(theta.cos(), margin)
    expected = torch.cos(torch.clamp(theta + margin, max=math.pi))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    uncapped = theta + margin <= math.pi
    torch.testing.assert_close(found[uncapped], torch.cos(theta + margin)[uncapped], rtol=0, atol=1e-12)
    assert not uncapped.all()


def test_the_loss_grows_with_the_margin_and_never_falls():
    rng = torch.Generator().manual_seed(0)
    cosines = torch.rand((4, 6), generator=rng, dtype=torch.float64) * 2 - 1
    losses = [float(softmax_with_margin(cosines, torch.full((4,), m, dtype=torch.float64), 0.2)) for m in np.linspace(0, 1, 9)]  # fmt: skip
    assert all(after > before for before, after in pairwise(losses))
    behind = torch.tensor([[-0.99, 0.2]], dtype=torch.float64)  # θ + M > π for large M: there the cap holds
    capped = [float(softmax_with_margin(behind, torch.tensor([m], dtype=torch.float64), 0.2)) for m in (0.1, 0.5, 1.0)]
    assert capped[0] < capped[1]
    assert capped[1] == pytest.approx(capped[2], rel=1e-12)


def test_gradients_against_finite_differences():
    rng = torch.Generator().manual_seed(1)
    users, items = (torch.randn((5, 3), generator=rng, dtype=torch.float64).requires_grad_() for _ in range(2))
    margin = torch.rand(5, generator=rng, dtype=torch.float64) * 0.3  # below the cap, which is a constant
    angle = torch.arccos(F.cosine_similarity(users, items)).detach()
    assert (angle + margin < math.pi).all()
    places = torch.tensor([[0, 1, 2], [1, 0, 4], [2, 2, 3], [3, 4, 1], [4, 0, 0]])
    rows = torch.tensor([0, 1, 1, 2, 4]), torch.tensor([3, 0, 3, 1, 2])  # a user and an item twice
    angle = torch.arccos(F.cosine_similarity(users[rows[0]], items[rows[1]])).detach()
    assert (angle + margin < math.pi).all()
    assert torch.autograd.gradcheck(lambda *one: in_batch_with_margin(*one, rows, margin, 0.2), (users, items))
    assert torch.autograd.gradcheck(
        lambda *one: plain_vectors_with_margin(*one, places[:, 0], places[:, 1:], margin, 0.2), (users, items)
    )


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_closed_form_equals_torch(kind):
    rng = torch.Generator().manual_seed(2)
    users, items = torch.randn((9, 4), generator=rng), torch.randn((7, 4), generator=rng)
    positives, negatives = torch.randint(7, (9,), generator=rng), torch.randint(7, (9, 6), generator=rng)
    users[0], users[1], users[2] = items[positives[0]], -2 * items[positives[1]], 0.0  # θ = 0, π and none
    found = []
    for loss in (vectors_with_margin, plain_vectors_with_margin):
        rows = [one.to(kind, copy=True).requires_grad_() for one in (users, items)]
        value = loss(*rows, positives, negatives, torch.linspace(0, 1, 9), 0.2)
        (3 * value).backward()
        assert value.dtype == kind
        # The user without length has a gradient of 1/ε times what others have; it is compared by itself.
        found.append([value.detach(), rows[0].grad[:2], rows[0].grad[2] * 1e-8, rows[0].grad[3:], rows[1].grad])
    precision = {"rtol": 1e-8, "atol": 1e-10} if kind == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **precision)


def in_batch_as_written(users, items, margin, temperature):
    """The formula on a square of all rows against all rows."""
    cosines = F.normalize(users, dim=-1, eps=1e-8) @ F.normalize(items, dim=-1, eps=1e-8).T
    logits = cosines.diagonal_scatter(add_margin(cosines.diagonal(), margin)) / temperature
    return F.cross_entropy(logits, torch.arange(len(logits)))


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0])
@pytest.mark.parametrize(("users", "items"), [(3, 2), (1, 9), (9, 1), (40, 40)])
def test_distinct_rows_give_what_all_pairs_of_rows_give(users, items, temperature):
    rng = torch.Generator().manual_seed(3)
    rows = torch.randint(users, (30,), generator=rng), torch.randint(items, (30,), generator=rng)
    margin, found = torch.rand(30, generator=rng), []
    tables = [torch.randn((users, 6), generator=rng), torch.randn((items, 6), generator=rng)]
    for kind, distinct in ((torch.float64, False), (torch.float64, True), (torch.float32, True)):
        user, item = (one.to(kind, copy=True).requires_grad_() for one in tables)
        each = (user, item, rows) if distinct else (user[rows[0]], item[rows[1]])
        value = (in_batch_with_margin if distinct else in_batch_as_written)(*each, margin, temperature)
        value.backward()
        found.append([one.double() for one in (value.detach(), user.grad, item.grad)])
        assert value.dtype == kind
    for one, two, three in zip(*found, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(three, one, rtol=1e-3, atol=1e-4 / temperature)


def test_a_positive_that_is_nearly_the_whole_sum_keeps_its_gradient():
    users, items = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([[1.0, 1e-3], [-1.0, 0.1]])
    rows = torch.tensor([0, 0]), torch.tensor([0, 1])
    value = in_batch_with_margin(users, items, rows, torch.tensor([0.5, 0.5]), 0.05)
    value.backward()
    other = users.detach().double().requires_grad_()
    expected = in_batch_as_written(other[rows[0]], items.double()[rows[1]], torch.tensor([0.5, 0.5]), 0.05)
    expected.backward()
    assert float(value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(users.grad.double(), other.grad, rtol=1e-3, atol=1e-4)


# The loss of a batch


def cosines_by_hand(method):
    """All cosines, [users, items]."""
    users, items = (one.detach() for one in method.backbone.reps())
    if not isinstance(method.backbone, NeuMF):
        return F.normalize(users).numpy() @ F.normalize(items).numpy().T
    phi = method.backbone.interact(users[:, None], items).detach().numpy()
    output = method.backbone.output.detach().numpy()[0]
    return phi @ output / np.linalg.norm(phi, axis=-1) / np.linalg.norm(output)


@pytest.mark.parametrize(
    ("backbone", "batch_negatives"),
    [(WIDE_MF, False), (WIDE_MF, True), (WIDE_LIGHTGCN, True), (WIDE_LIGHTGCN, False), (WIDE_NEUMF, False)],
    ids=["mf", "mf in batch", "lightgcn in batch", "lightgcn", "neumf"],
)
def test_loss_by_hand(backbone, batch_negatives):
    method = built(backbone(), temperature=0.3, bias_weight=0.2, negatives=5, batch_negatives=batch_negatives, reg=0.1)
    batch = a_batch(0 if batch_negatives else 5)
    margins, cosines = method.margins(batch.users, batch.items).numpy(), cosines_by_hand(method)
    contrast, norms = 0.0, 0.0
    for row, (user, item) in enumerate(zip(batch.users.tolist(), batch.items.tolist(), strict=True)):
        angle = np.arccos(cosines[user, item])
        positive = np.cos(min(angle + margins[row], np.pi)) / 0.3
        others = np.delete(batch.items.numpy(), row) if batch_negatives else batch.negatives[row].numpy()
        negative = cosines[user, others] / 0.3
        contrast += (np.log(np.exp(positive) + np.exp(negative).sum()) - positive) / 6
        norms += float(method.backbone.ego_users(batch.users[row]).detach().square().sum()) / 6
        norms += float(method.backbone.ego_items(batch.items[row]).detach().square().sum()) / 6
        if not batch_negatives:
            norms += float(method.backbone.ego_items(batch.negatives[row]).detach().square().sum()) / 30
    expected = 0.8 * contrast + 0.05 * norms
    assert float(method.loss(batch).detach()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("batch_negatives", [False, True])
def test_without_margins_it_is_the_plain_softmax_of_cosines(batch_negatives, monkeypatch):
    method = built(WIDE_MF(), temperature=0.3, bias_weight=0.0, batch_negatives=batch_negatives, reg=0.0)
    batch = a_batch(0 if batch_negatives else 5)
    monkeypatch.setattr(method, "margins", lambda users, _: torch.zeros(len(users), dtype=torch.float64))
    cosines = torch.from_numpy(cosines_by_hand(method))[batch.users]
    if batch_negatives:
        expected = F.cross_entropy(cosines[:, batch.items] / 0.3, torch.arange(6))
    else:
        each = cosines.gather(1, torch.cat([batch.items[:, None], batch.negatives], 1))
        expected = F.cross_entropy(each / 0.3, torch.zeros(6, dtype=torch.int64))
    assert float(method.loss(batch).detach()) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("batch_negatives", [False, True])
def test_the_length_of_a_row_does_not_matter(batch_negatives):
    method = built(WIDE_MF(), batch_negatives=batch_negatives, reg=0.0)
    batch = a_batch(0 if batch_negatives else 5)
    first = method.loss(batch)
    first.backward()
    for table in (method.backbone.user_table, method.backbone.item_table):
        assert table.grad.norm() > 1e-3
        assert (table.grad * table).sum(1).abs().max() < 1e-12
    with torch.no_grad():
        method.backbone.user_table[batch.users[0]] *= 7
        method.backbone.item_table[batch.items[0]] *= 0.1
    assert float(method.loss(batch).detach()) == pytest.approx(float(first.detach()), rel=1e-10)


# Ranking


@pytest.mark.parametrize("backbone", [WIDE_MF, WIDE_NEUMF, WIDE_LIGHTGCN])
def test_scores_of_both_kinds(backbone):
    method = built(backbone(), negatives=4).eval()
    with torch.no_grad():
        users, items = method.backbone.reps()
        for kind, expected in (("dot", method.backbone.score(users[:, None], items)), ("cos", cosines_by_hand(method))):
            method.settings = method.settings.replace(rank_by=kind)
            found = method.scores().block(EVERYBODY, 0, 30)
            assert np.allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)
            assert np.allclose(method.score_user(users[3], items).numpy(), found[3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("liked", "set_to"), [("dot", None), ("cos", None), ("dot", "cos")])
def test_the_score_is_chosen_at_validations(liked, set_to):
    method, tried = BCLoss(MF(dim=4), negatives=4, rank_by=set_to), []

    def validate(validated, last_share=None):
        assert validated is method
        tried.append(method.ranks_by)
        return Validation(float(method.ranks_by == liked), {}, None, 0.0)

    Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=100, evaluate_every=2), validate).run()
    assert method.ranks_by == (set_to or liked)
    assert tried[:2] == ([set_to] * 2 if set_to else ["dot", "cos"])
    again = BCLoss(MF(dim=4), rank_by=set_to)
    again.build(LOG, stream(1, "other"))
    again.load_state_dict(method.state_dict())
    assert again.ranks_by == method.ranks_by


def test_the_score_may_be_changed_after_training():
    model = BCLoss(MF(dim=4, init_std=1), negatives=4).fit(LOG, epochs=1)
    dot, cos, left = (model.adjusted(rank_by=kind).scores.block(EVERYBODY, 0, 30) for kind in ("dot", "cos", None))
    assert np.array_equal(left, dot)
    users, items = (one.detach().norm(dim=1).numpy() for one in model.method.backbone.reps())
    assert np.allclose(dot, cos * users[:, None] * items, rtol=1e-4, atol=1e-5)


def test_groups_are_learnt():
    log = block_log()
    trained = BCLoss(MF(dim=16), negatives=16).fit(log, epochs=20, batch_size=128, lr=0.02)
    histories = [list(range(first, first + 4)) for first in (0, 32)]  # half of the items of a group
    for model in (trained.adjusted(rank_by="dot"), trained.adjusted(rank_by="cos")):
        lists = top_n(model.scores, np.arange(len(log.users), dtype=np.int32), 20)
        assert evaluate_lists(lists, log, log, n=[20]).values["ndcg@20"] > 0.9
        found = [np.isin(model.fold_in(one, n=4)["item_id"].to_numpy(), np.add(one, 4)).mean() for one in histories]
        assert np.mean(found) > 0.6  # the other half comes first; by chance it would be 1 in 19


# What it refuses


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 0}, "temperature is 0; expected a number above 0"),
        ({"bias_temperature": -1}, "bias_temperature is -1"),
        ({"bias_epochs": 0}, "bias_epochs is 0; expected a whole number from 1 up"),
        ({"bias_weight": 1}, "bias_weight is 1; expected a number of at least 0 and at most 0.999"),
        ({"negatives": 0}, "negatives is 0"),
        ({"batch_negatives": "yes"}, "batch_negatives is 'yes'; expected true or false"),
        ({"rank_by": "norm"}, "rank_by is 'norm'; expected one of dot, cos"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ConfigError, match=words):
        BCLoss(MF(), **settings)


def test_settings_by_backbone():
    settings = {one.name: BCLoss(one).settings for one in (MF(), NeuMF(), LightGCN())}
    found = {name: (one.negatives, one.batch_negatives) for name, one in settings.items()}
    assert found == {"mf": (128, False), "neumf": (32, False), "lightgcn": (128, True)}
    with pytest.raises(ConfigError, match="NeuMF scores pairs one by one"):
        BCLoss(NeuMF(), batch_negatives=True)


def test_a_backbone_without_angles_is_refused():
    with pytest.raises(ConfigError, match="the score of Curved is not linear"):
        built(Curved())


def test_a_user_of_all_items_is_refused():
    pairs = np.array([0, 0, 1], np.int32), np.array([0, 1, 0], np.int32)
    log = Interactions.from_codes(pl.Series(range(2)), pl.Series(range(2)), *pairs)
    with pytest.raises(DataError, match="user 0 has used all 2 items"):
        built(MF(), log, batch_negatives=True)


def test_settings_of_version_0_1():
    old = {"temperature": 0.2, "bias_temperature": 0.3, "bias_epochs": 2, "weight": 0.4, "negatives": 9}
    old |= {"in_batch": False, "score": "cos", "reg": 0.5}
    found = BCLoss.Settings.parse(renamed("bc_loss", old))
    assert (found.bias_weight, found.batch_negatives, found.rank_by) == (0.4, False, "cos")
