"""MACR: its loss from the formula, the effect of gates and strength on rankings, and how the strength is chosen."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal, make_world
from icpe.methods.macr import GRID, MACR, gated_loss, gated_loss_of_vectors, neighbours
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.ranking.tables import DotScores, ScaledScores
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


@pytest.mark.parametrize("backbone", [*SMALL, Distance], ids=["mf", "neumf", "lightgcn", "own"])
def test_contract(backbone):
    check_method(lambda one: MACR(one, strength=20.0), [backbone])


def test_contract_of_the_public_codes_average():
    check_method(lambda one: MACR(one, broadcast=True), SMALL[:1])


def built(backbone, **settings):
    method = MACR(backbone, **settings)
    method.build(LOG, stream(0, "test"))
    return method.double()


def a_batch(size=6, seed=0):
    rng = np.random.default_rng(seed)
    users, items, negatives = (torch.from_numpy(rng.integers(0, top, size)) for top in (40, 30, 30))
    return Batch(users, items, negatives[:, None])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(method, batch):
    """The formula, pair by pair."""
    users, items = (one.detach().numpy() for one in method.backbone.reps())
    of_user, of_item = method.user_gate.detach().numpy()[0], method.item_gate.detach().numpy()[0]
    with torch.no_grad():
        logits = method.backbone.score(
            *(one[:, None] if n == 0 else one for n, one in enumerate(method.backbone.reps()))
        )
    scores, size = logits.numpy(), len(batch.users)
    user, item, other = batch.users.numpy(), batch.items.numpy(), batch.negatives[:, 0].numpy()
    match = item_loss = user_loss = norms = 0.0
    for row in range(size):
        gate_u, gate_i, gate_j = users[user[row]] @ of_user, items[item[row]] @ of_item, items[other[row]] @ of_item
        columns = range(size) if method.settings.broadcast else [row]
        for column in columns:
            positive = scores[user[column], item[column]] * sigmoid(gate_i) * sigmoid(gate_u)
            negative = scores[user[column], other[column]] * sigmoid(gate_j) * sigmoid(gate_u)
            match -= (np.log(sigmoid(positive)) + np.log(1 - sigmoid(negative))) / len(columns) / size
        item_loss -= (np.log(sigmoid(gate_i)) + np.log(1 - sigmoid(gate_j))) / size
        user_loss -= (np.log(sigmoid(gate_u)) + np.log(1 - sigmoid(gate_u))) / size
        rows = (
            method.backbone.ego_users(batch.users[row]),
            *(method.backbone.ego_items(one[row]) for one in (batch.items, batch.negatives[:, 0])),
        )
        norms += sum(float(one.detach().square().sum()) for one in rows) / size
    gates = method.settings.item_weight * item_loss + method.settings.user_weight * user_loss
    return match + gates + method.reg / 2 * norms


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("backbone", [lambda: MF(dim=4, init_std=1), lambda: NeuMF(dim=4, layers=(8, 4), init_std=1), lambda: LightGCN(dim=4, layers=2, init_std=1, node_dropout=0.0, message_dropout=0.0), Distance], ids=["mf", "neumf", "lightgcn", "own"])  # fmt: skip
def test_loss_by_hand(backbone, broadcast):
    method = built(backbone(), item_weight=0.3, user_weight=0.2, broadcast=broadcast, reg=0.1)
    batch = a_batch()
    assert float(method.loss(batch).detach()) == pytest.approx(by_hand(method, batch), rel=1e-10)


def inputs(seed=0, size=5, width=3):
    rng = torch.Generator().manual_seed(seed)
    shapes = ((size, width), (2 * size, width), (1, width), (1, width))
    return [torch.randn(shape, generator=rng, dtype=torch.float64).requires_grad_() for shape in shapes]


def plain(users, items, user_gate, item_gate, reg=0.0, broadcast=False):
    pairs = items.view(2, *users.shape)
    scores, of_item = (users * pairs).sum(-1), (items @ item_gate[0]).view(2, -1)
    loss = gated_loss(scores, users @ user_gate[0], of_item, 0.3, 0.2, broadcast)
    return loss + reg / 2 * (users.square().sum() + items.square().sum()) / len(users)


@pytest.mark.parametrize("broadcast", [False, True])
def test_gradients_of_the_product_against_finite_differences(broadcast):
    assert torch.autograd.gradcheck(lambda *one: plain(*one, broadcast=broadcast), inputs())


@pytest.mark.parametrize("reg", [0.0, 0.4])
def test_closed_form_gradients(reg):
    expected, found = inputs(), inputs()
    (2 * plain(*expected, reg=reg)).backward()
    (2 * gated_loss_of_vectors(*found, 0.3, 0.2, reg)).backward()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-12)


def test_open_gates_without_losses_of_their_own_are_normal_training():
    """The last coordinates of user and item open the gates and do nothing else."""
    method = built(MF(dim=6, init_std=1), item_weight=0.0, user_weight=0.0, reg=0.0)
    normal = Normal(MF(dim=6), reg=0.0)
    normal.build(LOG, stream(0, "test"))
    with torch.no_grad():
        tables = method.backbone.user_table, method.backbone.item_table
        for table, gate, place in zip(tables, (method.user_gate, method.item_gate), (4, 5), strict=True):
            table[:, 4:] = 0
            table[:, place] = 50
            gate.copy_(torch.eye(6, dtype=torch.float64)[[place]])
    normal.double().backbone.load_state_dict(method.backbone.state_dict())
    batch, gradients = a_batch(), []
    for one in (method, normal):
        loss = one.loss(batch)
        loss.backward()
        gradients.append((loss.detach(), one.backbone.user_table.grad[:, :4], one.backbone.item_table.grad[:, :4]))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        method.item_gate.zero_()
    assert abs(float(method.loss(batch).detach() - gradients[1][0])) > 0.01  # gates without losses are not Normal


def test_shut_gates_are_normal_training_on_a_quarter_of_the_logits():
    method = built(MF(dim=4, init_std=1), item_weight=0.0, user_weight=0.0, reg=0.0)
    with torch.no_grad():
        method.user_gate.zero_()
        method.item_gate.zero_()
        users, items = method.backbone.reps()
        scores, batch = (users @ items.T).numpy(), a_batch()
    positive, negative = (scores[batch.users, codes] / 4 for codes in (batch.items, batch.negatives[:, 0]))
    expected = np.log1p(np.exp(-positive)).mean() + np.log1p(np.exp(negative)).mean()
    assert float(method.loss(batch).detach()) == pytest.approx(expected, rel=1e-10)
    for strength in (0.0, 3.0, 500.0):
        method.settings = method.settings.replace(strength=strength)
        found = order(method)
        assert np.array_equal(found, np.argsort(-scores, 1, kind="stable"))


def order(method):
    """Items of each user, best first."""
    with torch.no_grad():
        return np.argsort(-method.scores().block(EVERYBODY, 0, 30).astype(np.float64), 1, kind="stable")


@pytest.mark.parametrize("backbone", [lambda: MF(dim=4, init_std=1), lambda: NeuMF(dim=4, layers=(8, 4), init_std=1)])
def test_ranking_is_by_the_formula_and_needs_no_user_gate(backbone):
    method = built(backbone(), strength=7.0)
    with torch.no_grad():
        users, items = method.backbone.reps()
        scores = method.backbone.score(users[:, None], items).numpy()
        of_item, of_user = (torch.sigmoid(one @ gate[0]).numpy() for one, gate in ((items, method.item_gate), (users, method.user_gate)))  # fmt: skip
        found = method.scores().block(EVERYBODY, 0, 30)
    assert np.allclose(found, (scores - 7) * of_item, rtol=1e-5, atol=1e-5)
    whole = (scores - 7) * of_item * of_user[:, None]
    assert of_user.std() > 0.1
    assert np.array_equal(order(method), np.argsort(-whole, 1, kind="stable"))
    assert isinstance(method.unbiased_scores(), DotScores if isinstance(method.backbone, MF) else ScaledScores)


def test_a_very_large_strength_ranks_by_ascending_gates():
    method = built(MF(dim=4, init_std=0.1), strength=1e4)
    with torch.no_grad():
        gates = method.item_gates(method.backbone.reps()[1]).numpy()
    assert np.array_equal(order(method), np.tile(np.argsort(gates), (40, 1)))


@pytest.fixture(scope="module")
def trained():
    # With a small α, the gates follow popularity only late in training.
    log, settings = (
        make_world(users=300, items=150, interactions=6000, seed=0).log,
        {"epochs": 20, "lr": 0.01, "batch_size": 512},
    )
    macr, normal = MACR(MF(dim=16), item_weight=0.1, strength=0.0), Normal(MF(dim=16))
    return SimpleNamespace(log=log, macr=macr.fit(log, **settings), normal=normal.fit(log, **settings))


def test_the_item_gate_follows_popularity(trained):
    with torch.no_grad():
        gates = trained.macr.method.item_gates(trained.macr.method.backbone.reps()[1]).numpy()
    ranks = (np.argsort(np.argsort(one, kind="stable")) for one in (gates, trained.log.item_counts))
    assert np.corrcoef(*ranks)[0, 1] > 0.5


def test_a_larger_strength_shows_less_popular_items(trained):
    log, everybody = trained.log, np.arange(len(trained.log.users), dtype=np.int32)

    def popularity(model):
        return log.item_counts[top_n(model.scores, everybody, 10).items].mean()

    found = [popularity(trained.macr.adjusted(strength=one)) for one in (0.0, 10.0, 80.0)]
    assert found[0] > found[1] > found[2]
    assert popularity(trained.normal) > found[1]


def test_groups_are_learnt():
    log = block_log()
    model = MACR(MF(dim=16), strength=0.0).fit(log, epochs=60, batch_size=128, lr=0.02)
    lists = top_n(model.scores, np.arange(len(log.users), dtype=np.int32), 20)
    assert evaluate_lists(lists, log, log, n=[20]).values["ndcg@20"] > 0.9
    assert set(model.fold_in([0, 1, 2, 3], n=4)["item_id"]) == {4, 5, 6, 7}  # the rest of the first group


def test_neighbours_on_the_grid():
    assert neighbours(0.0) == [0.0, 5.0]
    assert neighbours(50.0) == [40.0, 50.0, 80.0]
    assert neighbours(640.0) == [320.0, 640.0, 1280.0]


def run_to(best, **settings):
    """Return a method after a run whose validation prefers one strength, and the strengths tried at each validation."""
    method, tried = MACR(MF(dim=4), **settings), [[]]

    def validate(validated, last_share=None):
        assert validated is method
        tried[-1].append(method.strength)
        return Validation(-abs(method.strength - best), {}, None, 0.0)

    trainer = Trainer(method, LOG, 0, TrainSettings(epochs=4, batch_size=100, evaluate_every=3), validate)
    trainer.run(on_evaluation=lambda _: tried.append([]))
    return method, tried[:-1]


def test_the_strength_is_chosen_at_validations():
    method, tried = run_to(31)
    assert tried[0] == list(GRID)
    assert tried[1:] == [[20.0, 30.0, 40.0]] * (len(tried) - 1)
    assert len(tried) > 2
    assert method.strength == 30
    again = MACR(MF(dim=4))
    again.build(LOG, stream(1, "other"))
    again.load_state_dict(method.state_dict())
    assert again.strength == 30
    assert [option["strength"] for option in again.ranking_options()] == [20.0, 30.0, 40.0]


def test_the_grid_is_widened_where_its_end_is_best():
    method, tried = run_to(700)
    assert tried[1:4] == [[80.0, 160.0, 320.0], [160.0, 320.0, 640.0], [320.0, 640.0, 1280.0]]
    assert method.strength == 640


def test_a_strength_that_is_set_is_kept():
    method, tried = run_to(31, strength=12.5)
    assert all(one == [12.5] for one in tried)
    assert method.ranking_options() == []


def test_without_validation_the_strength_is_that_of_the_public_code():
    model = MACR(MF(dim=4)).fit(LOG, epochs=1)
    assert model.method.strength == 40
    gates = model.method.item_gates(model.method.backbone.reps()[1]).detach().numpy()
    one, other = (model.adjusted(strength=value).scores.block(EVERYBODY, 0, 30) for value in (None, 10.0))
    assert np.allclose(other - one, 30 * gates, atol=1e-4)


def test_diagnostics_tell_head_from_niche():
    method = built(MF(dim=4, init_std=1))
    shown = method.diagnostics()
    with torch.no_grad():
        gates = method.item_gates(method.backbone.reps()[1]).numpy()
    head = np.argsort(-LOG.item_counts, kind="stable")[:6]
    assert shown["head_gate"] == pytest.approx(gates[head].mean())
    assert shown["niche_gate"] == pytest.approx(np.delete(gates, head).mean())
    assert 0 < shown["user_gate"] < 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"item_weight": -1}, "item_weight is -1; expected a number of at least 0"),
        ({"user_weight": "much"}, "user_weight is 'much'"),
        ({"strength": -0.1}, "strength is -0.1"),
        ({"strength": float("nan")}, "strength is nan"),
        ({"broadcast": 1}, "broadcast is 1; expected true or false"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ConfigError, match=words):
        MACR(MF(), **settings)


def test_settings_of_version_0_1():
    old = {"alpha": 0.2, "beta": 0.3, "c": 5.0, "broadcast": True, "reg": 0.5}
    found = MACR.Settings.parse(renamed("macr", old))
    assert (found.item_weight, found.user_weight, found.strength) == (0.2, 0.3, 5.0)
