"""InvPref: products of probabilities, reversed gradients, assignments, and the loss computed from its formula."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from icpe import MF, ConfigError, LightGCN, NeuMF, Normal
from icpe.backbones import Backbone
from icpe.backbones.base import normal_table
from icpe.backbones.graph import Graph
from icpe.methods import Batch, InvPref
from icpe.methods._parts.environments import best_environments, joint_logit, logits_of_products, reverse_gradient
from icpe.metrics import evaluate_lists
from icpe.ranking import top_n
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import SMALL, block_log, check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
MODELS = [
    lambda: MF(dim=4, init_std=0.5),
    lambda: NeuMF(dim=3, layers=(4, 2), init_std=0.5),
    lambda: LightGCN(dim=4, layers=2, init_std=0.5),
]
IDS = ["mf", "neumf", "lightgcn"]


class Nonlinear(Backbone):
    """A user-defined backbone without inner products and row tables, whose output is not linear."""

    name = "nonlinear"

    def build(self, train, rng):
        self.users, self.items = len(train.users), len(train.items)
        self.of_users = normal_table(self.users, 3, 0.5, rng)
        self.of_items = normal_table(self.items, 3, 0.5, rng)

    def reps(self, rng=None):
        return self.of_users, self.of_items

    def interact(self, z_user, z_item):
        return (z_user - z_item).square()

    def out(self, phi):
        return torch.tanh(phi).sum(-1)

    def ego_users(self, users):
        return self.of_users[users]

    def ego_items(self, items):
        return self.of_items[items]

    def user_parameters(self):
        return [self.of_users]

    def item_parameters(self):
        return [self.of_items]


def built(method, double=True):
    method.build(LOG, stream(0, "test"))
    return method.double() if double else method


def perturbed(method):
    """Return the method with environments and a classifier that differ from their small initial values."""
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for values in (method.environment_table, method.classifier, method.classifier_bias):
            values += torch.from_numpy(rng.normal(0, 0.7, values.shape)).to(values.dtype)
    return method


def batch_of(count=1, size=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(LOG))[:size]
    users, items = (torch.from_numpy(one[rows].astype(int)) for one in (LOG.user, LOG.item))
    return Batch(users, items, torch.from_numpy(rng.integers(0, 30, (size, count))), torch.from_numpy(rows))


def assigned(method):
    """Return the method after an assignment, so that the environments of negatives are not random any more."""
    method.refresh(7, 0)
    return method


def logits_by_hand(method, users, items):
    """a [n], classifier logits [n, E] and b [n, E] of pairs, as arrays."""
    with torch.no_grad():
        first, second = method.backbone.reps(), method.second.reps()
        phi = method.backbone.interact(first[0][users], first[1][items])
        other = method.second.interact(second[0][users], second[1][items])
        b = torch.stack([method.second.out(other * one) for one in method.environment_table], 1)
        return [
            one.numpy() for one in (method.backbone.out(phi), phi @ method.classifier.T + method.classifier_bias, b)
        ]


def softplus(x):
    return np.logaddexp(0, x)


@pytest.mark.parametrize("backbone", [*SMALL, Nonlinear], ids=[*IDS, "own"])
def test_contract(backbone):
    check_method(lambda one: InvPref(one, environments=3, reassign_every=1, negatives=2), [backbone])


def test_contract_of_the_other_settings():
    check_method(lambda one: InvPref(one, weights_on="predictions", square_weight=0.1, absolute_weight=0.1), SMALL[:1])


def test_joint_logit():
    rng = np.random.default_rng(0)
    one, other = (torch.from_numpy(rng.normal(0, 4, 500)).requires_grad_() for _ in range(2))
    product = torch.sigmoid(one) * torch.sigmoid(other)
    torch.testing.assert_close(torch.sigmoid(joint_logit(one, other)), product)
    torch.testing.assert_close(functional.softplus(-joint_logit(one, other)), -torch.log(product))
    torch.testing.assert_close(functional.softplus(joint_logit(one, other)), -torch.log1p(-product))
    assert torch.autograd.gradcheck(joint_logit, (one[:7].detach().requires_grad_(), other[:7]))
    equal = torch.tensor([0.3, -2.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(
        joint_logit(equal, equal).sum(), equal
    )  # both arguments get their gradient where they are equal
    (plain,) = torch.autograd.grad(-torch.log(2 * torch.exp(-equal) + torch.exp(-2 * equal)).sum(), equal)
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize(
    ("a", "b"), [(40, 40), (300, 300), (-300, -300), (200, -200), (-200, 200), (-40, -40), (0, 90)]
)
def test_joint_logit_of_extreme_values(a, b):
    """−log(e^−a + e^−b + e^−(a+b)) in float32, and finite gradients of both losses."""
    one, other = torch.tensor(float(a), requires_grad=True), torch.tensor(float(b), requires_grad=True)
    expected = -np.logaddexp(np.logaddexp(-float(a), -float(b)), -float(a + b))
    assert float(joint_logit(one, other).detach()) == pytest.approx(expected, rel=1e-5)
    for sign in (1, -1):
        grads = torch.autograd.grad(functional.softplus(sign * joint_logit(one, other)), (one, other))
        assert all(torch.isfinite(grad) and abs(float(grad)) <= 1.0001 for grad in grads)


def test_reversed_gradient():
    """The gradient of the rows is −α times the plain one; that of the classifier stays the same."""
    rng = np.random.default_rng(1)
    rows, weight = (torch.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in ((6, 4), (3, 4)))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    plain = torch.autograd.grad(functional.cross_entropy(rows @ weight.T, labels), (rows, weight))
    against = functional.cross_entropy(reverse_gradient(rows, 1.7) @ weight.T, labels)
    found = torch.autograd.grad(against, (rows, weight))
    torch.testing.assert_close(found[0], -1.7 * plain[0])
    torch.testing.assert_close(found[1], plain[1])


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_of_products(count):
    rng = np.random.default_rng(2)
    shapes = ((5, 4), (5 + 5 * count, 4), (3, 4))
    users, items, weight = (torch.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in shapes)
    ones = torch.ones(3, 1, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *values: logits_of_products(*values, ones), (users, items, weight))
    wide = torch.cat([users, users.repeat_interleave(count, 0)])
    logits, norms = logits_of_products(users, items, weight, ones)
    torch.testing.assert_close(logits, (wide * items) @ weight.T)
    parts = (users, items[:5], items[5:])
    torch.testing.assert_close(norms, sum(part.square().sum(1).mean() for part in parts))
    factors = torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    outer = torch.from_numpy(rng.normal(size=logits.shape))
    found = torch.autograd.grad((logits_of_products(users, items, weight, factors)[0] * outer).sum(), (users, weight))
    scaled = torch.autograd.grad((((wide * items) @ weight.T) * outer * factors.T).sum(), users)[0]
    torch.testing.assert_close(found[0], scaled)
    torch.testing.assert_close(found[1], torch.autograd.grad((((wide * items) @ weight.T) * outer).sum(), weight)[0])


def test_best_environments_have_the_smallest_loss():
    rng = np.random.default_rng(5)
    a, b = torch.from_numpy(rng.normal(0, 3, 200)), torch.from_numpy(rng.normal(0, 3, (200, 4)))
    product = torch.sigmoid(a)[:, None] * torch.sigmoid(b)
    assert torch.equal(best_environments(b, positive=True), (-torch.log(product)).argmin(1))
    assert torch.equal(best_environments(b, positive=False), (-torch.log1p(-product)).argmin(1))


def test_ties_are_broken_at_random():
    logits = torch.tensor([0.5, 1.0, 1.0, 1.0, -2.0, -2.0]).expand(9000, 6)
    rng = torch.Generator().manual_seed(0)
    high, low = (
        np.bincount(best_environments(logits, positive, rng), minlength=6) / 9000 for positive in (True, False)
    )
    assert np.abs(high - np.array([0, 1, 1, 1, 0, 0]) / 3).max() < 0.02
    assert np.abs(low - np.array([0, 0, 0, 0, 1, 1]) / 2).max() < 0.02


@pytest.mark.parametrize("weights_on", ["classifier", "predictions", "none"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("backbone", MODELS, ids=IDS)
def test_loss_from_the_formula(backbone, count, weights_on):
    weights = {"invariant_weight": 0.7, "environment_weight": 1.3, "classifier_weight": 0.4, "weights_on": weights_on}
    penalties = {"square_weight": 0.3, "absolute_weight": 0.2, "reg": 0.1}
    method = InvPref(backbone(), environments=3, **weights, negatives=count, **penalties)
    method = assigned(perturbed(built(method))).eval()
    batch = batch_of(count)
    total = 0.0
    sizes = np.bincount(method.labels, minlength=3)
    omega = np.minimum(sizes + 1, len(LOG) - 1) / len(LOG)
    for user, item, negatives, row in zip(batch.users, batch.items, batch.negatives, batch.labels, strict=True):
        for number, other in enumerate([item, *negatives]):
            (a,), (guess,), (b,) = logits_by_hand(method, user[None], other[None])
            label = int(method.labels[row]) if number == 0 else int(b.argmin())
            right, joint = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-a)) / (1 + np.exp(-b[label]))
            losses = [-np.log(right), -np.log(joint)] if number == 0 else [-np.log(1 - right), -np.log(1 - joint)]
            wrong = np.log(np.exp(guess).sum()) - guess[label]
            predicted = 0.7 * losses[0] + 1.3 * losses[1]
            first, second = (omega[label] if weights_on == kind else 1 for kind in ("predictions", "classifier"))
            total += (first * predicted + 0.4 * second * wrong) / (6 if number == 0 else 6 * count)
    for model in (method.backbone, method.second):
        users, items, others = (
            one.detach().numpy()
            for one in (
                model.ego_users(batch.users),
                model.ego_items(batch.items),
                model.ego_items(batch.negatives.reshape(-1)),
            )
        )
        both = np.concatenate([items, others])
        total += 0.05 * sum((rows**2).sum(1).mean() for rows in (users, items, others))
        total += 0.15 * ((users**2).mean() + (both**2).mean()) + 0.1 * (np.abs(users).mean() + np.abs(both).mean())
    assert float(method.loss(batch).detach()) == pytest.approx(total, rel=1e-6)  # ω is stored in float32


@pytest.mark.parametrize("backbone", MODELS[:2], ids=IDS[:2])
def test_gradients_by_differences(backbone):
    """Without the classifier, no gradient is reversed, so all gradients are those of the loss."""
    method = assigned(
        perturbed(built(InvPref(backbone(), environments=3, classifier_weight=0.0, negatives=2, reg=0.1)))
    )
    batch, rng = batch_of(2), np.random.default_rng(0)
    torch.autograd.backward(method.loss(batch))
    for name, values in method.named_parameters():
        direction = torch.from_numpy(rng.normal(size=values.shape))
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                values += sign * 1e-6 * direction
                ends.append(float(method.loss(batch)))
                values -= sign * 1e-6 * direction
        slope = float((values.grad * direction).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("backbone", MODELS, ids=IDS)
def test_the_gradient_of_the_classifier_is_reversed(backbone):
    """The first copy gets −α times the plain gradient, and the second copy none."""
    predictions = {"invariant_weight": 0.0, "environment_weight": 0.0}
    settings = {**predictions, "reg": 0.0, "weights_on": "none", "environments": 3}
    method = assigned(perturbed(built(InvPref(backbone(), reversal=1.7, **settings)))).eval()
    batch = batch_of()
    torch.autograd.backward(method.loss(batch))
    users, items = method.backbone.reps()
    pairs = [(batch.users, batch.items), (batch.users, batch.negatives[:, 0])]
    labels = [method.labels[batch.labels].long()]
    labels.append(torch.from_numpy(logits_by_hand(method, *pairs[1])[2].argmin(1)))
    plain = sum(
        functional.cross_entropy(
            functional.linear(
                method.backbone.interact(users[user], items[item]), method.classifier, method.classifier_bias
            ),
            label,
        )
        for (user, item), label in zip(pairs, labels, strict=True)
    )
    names = ["user_table", "item_table"]
    tables = [getattr(method.backbone, name) for name in names]
    expected = torch.autograd.grad(plain, [*tables, method.classifier, method.classifier_bias])
    for table, grad in zip(tables, expected[:2], strict=True):
        torch.testing.assert_close(table.grad, -1.7 * grad)
    torch.testing.assert_close(method.classifier.grad, expected[2])
    torch.testing.assert_close(method.classifier_bias.grad, expected[3])
    assert not any(getattr(method.second, name).grad.any() for name in names)


@pytest.mark.parametrize("backbone", MODELS, ids=IDS)
def test_one_environment_leaves_nothing_to_classify(backbone):
    alone = perturbed(built(InvPref(backbone(), environments=1, invariant_weight=0.0, environment_weight=0.0, reg=0.0)))
    loss = alone.loss(batch_of())
    torch.autograd.backward(loss)
    assert float(loss.detach()) == 0
    assert not any(one.grad is not None and one.grad.any() for one in alone.parameters())


@pytest.mark.parametrize("backbone", [MF, NeuMF, LightGCN], ids=IDS)
def test_without_environments_it_is_normal(backbone):
    def run(method):
        Trainer(method, LOG, 0, TrainSettings(epochs=3, batch_size=64, lr=0.003)).run()
        return [one.detach() for one in method.backbone.parameters()]

    plain = run(Normal(backbone(dim=8), negatives=2, reg=1e-3))
    unused = {"environment_weight": 0.0, "classifier_weight": 0.0, "reassign_every": 1}
    found = run(InvPref(backbone(dim=8), negatives=2, reg=1e-3, **unused))
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_order_of_environments_does_not_matter():
    for backbone in MODELS:
        method = assigned(perturbed(built(InvPref(backbone(), environments=3, negatives=2)))).eval()
        batch, order = batch_of(2), torch.tensor([2, 0, 1])
        before = float(method.loss(batch).detach())
        with torch.no_grad():
            for values in (method.environment_table, method.classifier, method.classifier_bias, method.shares):
                values.copy_(values[order].clone())
        changed = float(method.loss(batch).detach())
        method.labels.copy_(torch.argsort(order)[method.labels.long()])
        assert float(method.loss(batch).detach()) == pytest.approx(before, rel=1e-12)
        assert changed != pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize("backbone", [*MODELS, Nonlinear], ids=[*IDS, "own"])
def test_ranking_uses_the_first_copy_alone(backbone):
    method = perturbed(built(InvPref(backbone()), double=False)).eval()
    with torch.no_grad():
        before = method.scores().block(np.arange(40), 0, 30)
        users, items = method.backbone.reps()
        assert np.allclose(before[3], method.backbone.score(users[3], items), atol=1e-6)
        for values in (method.environment_table, method.classifier, *method.second.parameters()):
            values += 5
        assert np.array_equal(method.scores().block(np.arange(40), 0, 30), before)


def joint_losses(method, labels):
    """BCE of σ(a)·σ(b) for all training pairs."""
    a, _, b = logits_by_hand(method, torch.from_numpy(LOG.user).long(), torch.from_numpy(LOG.item).long())
    return softplus(-a) + softplus(-b[np.arange(len(LOG)), labels])


@pytest.mark.parametrize("backbone", [*MODELS, Nonlinear], ids=[*IDS, "own"])
def test_assignment(backbone):
    """Every pair gets the environment with the smallest loss, and a second assignment changes nothing."""
    method = perturbed(built(InvPref(backbone(), environments=3)))
    before = method.labels.numpy().astype(int)
    method.train()
    assigned(method)
    assert method.training  # evaluation mode lasts only for the assignment
    method.eval()
    labels = method.labels.numpy().astype(int)
    losses = np.stack([joint_losses(method, np.full(len(LOG), one)) for one in range(3)], 1)
    assert np.array_equal(labels, losses.argmin(1))
    assert (joint_losses(method, labels) <= joint_losses(method, before)).all()
    counts = np.bincount(labels, minlength=3)
    assert counts.min() > 0.001 * len(LOG)  # otherwise some labels would have been drawn at random
    shown = method.diagnostics()
    assert shown == {"pairs": counts.tolist(), "moves": 1, "changed": pytest.approx((labels != before).mean())}
    assert np.allclose(method.shares, (counts + 1) / len(LOG))
    assigned(method)
    assert np.array_equal(method.labels.numpy(), labels)
    assert method.diagnostics()["changed"] == 0


def test_assignment_in_chunks():
    method = perturbed(built(InvPref(MODELS[0](), environments=3)))
    whole = method.best_assignment()
    assert len(whole) == len(LOG)
    assert torch.equal(method.best_assignment(chunk=30), whole)


def test_an_empty_environment_is_filled_again():
    method = built(InvPref(MODELS[0](), environments=2))
    with torch.no_grad():
        method.second.user_table.abs_()
        method.second.item_table.abs_()
        method.environment_table[0], method.environment_table[1] = 1.0, -1.0  # all pairs would be in the first
    assert not method.best_assignment().any()
    assigned(method)
    share = float(method.labels.double().mean())
    assert 0.01 < share < 0.1  # a tenth is drawn at random, half of it for the second
    again = method.labels.clone()
    method.refresh(7, 0)
    assert torch.equal(method.labels, again)  # seed and step decide
    method.refresh(8, 0)
    assert not torch.equal(method.labels, again)


def test_first_labels_are_uniform():
    log = skewed_log(users=200, items=100, pairs=6000)
    method = InvPref(MF(dim=4, init_std=0.5), environments=4)
    method.build(log, stream(0, "test"))
    assert np.abs(np.bincount(method.labels, minlength=4) / len(log) - 0.25).max() < 0.04
    far = torch.zeros(6000, 4)
    far[:, 2] = -9.0  # negatives have the smallest loss here
    nothing = torch.empty(0, dtype=torch.int64)
    empty = Batch(nothing, nothing, nothing, nothing)
    random = method.batch_labels(empty, far, torch.Generator().manual_seed(0))
    assert np.abs(np.bincount(random, minlength=4) / 6000 - 0.25).max() < 0.03
    method.refresh(3, 0)
    assert (method.batch_labels(empty, far, None) == 2).all()


def test_when_pairs_are_assigned():
    method = InvPref(MF(), reassign_every=3)
    assert [step for step in range(65) if method.refresh_due(step, 10)] == [30, 60]
    steps = []
    method = InvPref(MF(dim=4), reassign_every=2)
    method.refresh = lambda step, seed: steps.append(step)
    trainer = Trainer(method, LOG, 0, TrainSettings(epochs=5, batch_size=64))
    trainer.run()
    assert steps == [2 * trainer.steps // 5, 4 * trainer.steps // 5]


def test_labels_are_positions_of_the_training_pairs():
    method, seen = InvPref(MF(dim=4)), []
    trainer = Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=64))
    loss = method.loss

    def noted(batch, rng=None):
        seen.append(batch)
        return loss(batch, rng)

    method.loss = noted
    trainer.run()
    for batch in seen:
        assert np.array_equal(LOG.user[batch.labels], batch.users)
        assert np.array_equal(LOG.item[batch.labels], batch.items)
    assert sorted(np.concatenate([batch.labels for batch in seen])) == list(range(len(LOG)))


def test_copies_of_lightgcn_share_one_graph():
    method = built(InvPref(LightGCN(dim=4)), double=False)
    copies = (method.backbone, method.second)
    graphs = {id(value) for copy in copies for value in vars(copy).values() if isinstance(value, Graph)}
    assert len(graphs) == 1


def test_groups_are_learnt():
    """A user's list contains the items of the user's group, about which popularity says nothing."""
    log = block_log()
    model = InvPref(MF(dim=16)).fit(log, epochs=60, batch_size=128, lr=0.02)
    everybody = np.arange(len(log.users), dtype=np.int32)
    assert evaluate_lists(top_n(model.scores, everybody, 20), log, log, n=[20]).values["ndcg@20"] > 0.9
    assert model.method.diagnostics()["moves"] == 11


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"environments": 0}, "environments is 0"),
        ({"environments": 256}, "environments is 256; expected a whole number from 1 up and at most 255"),
        ({"reassign_every": 0.5}, "reassign_every is 0.5"),
        ({"reversal": -1.0}, "reversal is -1.0"),
        ({"classifier_weight": float("inf")}, "classifier_weight is inf"),
        ({"weights_on": "all"}, "weights_on is 'all'; expected one of classifier, predictions, none"),
        ({"negatives": 0}, "negatives is 0"),
        ({"reg": -1.0}, "reg is -1.0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        InvPref(MF(), **settings)


def test_defaults_are_in_the_search_space():
    settings = InvPref(MF()).settings.as_dict()
    assert all(settings[name] in values for name, values in InvPref.Settings.search_space().items())
