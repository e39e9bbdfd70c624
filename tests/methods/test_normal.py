"""Losses against their formulas, settings, and the registry."""

import math
import re

import numpy as np
import pytest
import torch

from icpe import MF, ConfigError, DataError, LightGCN, NeuMF, Normal, NotFittedError
from icpe.backbones import TableSettings
from icpe.methods import METHODS, Batch, Negatives, make_method
from icpe.testing import skewed_log

LOG = skewed_log(users=12, items=9, pairs=60)
BACKBONES = {
    "mf": lambda: MF(dim=5, init_std=0.5),
    "neumf": lambda: NeuMF(dim=5, layers=(6, 3), init_std=0.5),
    "lightgcn": lambda: LightGCN(dim=5, layers=2, node_dropout=0, message_dropout=0),
}


def built(backbone="mf", seed=0, **settings):
    method = Normal(BACKBONES[backbone](), **settings)
    method.build(LOG, np.random.default_rng(seed))
    return method


def batch_of(method, size=7, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(LOG))[:size]
    wanted = method.negatives
    shape = (wanted.count,) if wanted.shared else (size, wanted.count)
    codes = (LOG.user[rows], LOG.item[rows], rng.integers(0, len(LOG.items), shape))
    return Batch(*(torch.from_numpy(code.astype(np.int64)) for code in codes))


def scores_of(method, batch):
    """Scores of positives [batch] and negatives [batch, count] from the model's full table, in float64."""
    with torch.no_grad():
        users, items = method.backbone.eval().reps()
        table = method.backbone.scores(users, items).block(np.arange(len(users)), 0, len(items)).astype(float)
    user = batch.users.numpy()
    negatives = batch.negatives.numpy()
    return table[user, batch.items.numpy()], table[user[:, None], negatives]


def softplus(x):
    return np.logaddexp(0, x)


def set_zero(method):
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.zero_()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("count", [1, 4])
def test_zero_embeddings_give_two_logs_of_two(backbone, count):
    """T10, for any K: the negative term is a mean."""
    method = built(backbone, negatives=count)
    set_zero(method)
    assert method.loss(batch_of(method)).item() == pytest.approx(2 * math.log(2), rel=1e-6)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_gradient_of_a_positive_score(backbone, monkeypatch):
    """T11: (σ(s) − 1)/B for a positive; and σ(s)/(B·K) for a negative. By logits, as scores without vectors are."""
    method = built(backbone, negatives=3, reg=0)
    method.backbone.inner_product = False
    batch = batch_of(method)
    caught = []
    score = type(method.backbone).score

    def noted(self, z_user, z_item):
        caught.append(score(self, z_user, z_item))
        caught[-1].retain_grad()
        return caught[-1]

    monkeypatch.setattr(type(method.backbone), "score", noted)
    torch.autograd.backward(method.loss(batch))
    positive, negative = caught
    assert positive.shape == (7,)
    torch.testing.assert_close(positive.grad, (torch.sigmoid(positive) - 1).detach() / 7)
    torch.testing.assert_close(negative.grad, torch.sigmoid(negative).detach() / (7 * 3))


class Shifted(MF):
    """All scores of a user moved by a number of the user's own."""

    class Settings(TableSettings):
        dim: int = 5
        init_std: float = 0.5
        shift: float = 0.0

    inner_product = False

    def out(self, phi):
        # The first coordinate of the item is a constant here, so that of the product belongs to the user.
        return phi.sum(-1) + self.settings.shift * phi[..., 0]


def test_bpr_does_not_see_what_a_user_adds_to_all_scores():
    """T12."""

    def make(shift):
        method = Normal(Shifted(shift=shift), loss="bpr", negatives=2, reg=0)
        method.build(LOG, np.random.default_rng(0))
        with torch.no_grad():
            method.backbone.item_table[:, 0] = 1.0
        loss = method.loss(batch_of(method))
        torch.autograd.backward(loss)
        # The gradient of the first item coordinate holds the shift itself, which is no score's gradient.
        return loss.detach(), method.backbone.user_table.grad

    plain, moved = make(0.0), make(3.0)
    torch.testing.assert_close(plain[0], moved[0])
    torch.testing.assert_close(plain[1], moved[1], rtol=1e-4, atol=1e-6)
    bce = [Normal(Shifted(shift=shift), reg=0) for shift in (0.0, 3.0)]
    for method in bce:
        method.build(LOG, np.random.default_rng(0))
        method.backbone.item_table.data[:, 0] = 1.0
    values = [method.loss(batch_of(method)).item() for method in bce]
    assert abs(values[0] - values[1]) > 0.01, "pointwise training does see it"


@pytest.mark.parametrize("kind", [MF, NeuMF, LightGCN])
def test_bpr_starts_at_log_two(kind):
    """T12, with the start values of the paper."""
    method = Normal(kind(), loss="bpr")
    method.build(LOG, np.random.default_rng(0))
    assert method.loss(batch_of(method)).item() == pytest.approx(math.log(2), abs=0.02)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("loss", ["bce", "bpr"])
def test_values_of_the_formulas(backbone, count, loss):
    method = built(backbone, loss=loss, negatives=count, reg=0, neg_weight=1.5)
    batch = batch_of(method)
    positive, negative = scores_of(method, batch)
    if loss == "bce":
        expected = (softplus(-positive) + 1.5 * softplus(negative).mean(1)).mean()
    else:
        expected = softplus(-(positive[:, None] - negative)).mean(1).mean()
    assert method.train().loss(batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
@pytest.mark.parametrize("settings", [{"negatives": 3}, {"loss": "bpr", "negatives": 2}])
def test_by_vectors_or_by_logits(backbone, settings):
    """The closed form on vectors is the same loss as that on logits, L2 included."""

    def result(inner_product=True):
        method = built(backbone, **settings, reg=0.1, **({"neg_weight": 1.5} if "loss" not in settings else {}))
        method.backbone.inner_product = inner_product
        loss = method.loss(batch_of(method))
        torch.autograd.backward(loss)
        return loss.detach(), [parameter.grad for parameter in method.parameters()]

    value, grads = result()
    expected, expected_grads = result(inner_product=False)
    torch.testing.assert_close(value, expected)
    for found, right in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_value_of_the_softmax(backbone):
    method = built(backbone, loss="softmax", negatives=6, temperature=0.3, reg=0)
    assert method.negatives == Negatives(6, shared=True)
    batch = batch_of(method)
    assert batch.negatives.shape == (6,)
    with torch.no_grad():
        users, items = (one.double().numpy() for one in method.backbone.eval().reps())
    if backbone == "neumf":
        positive, negative = scores_of(method, batch)
    else:
        unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (users, items)]
        cosine = unit[0] @ unit[1].T
        positive = cosine[batch.users, batch.items]
        negative = cosine[batch.users][:, batch.negatives]
    logits = np.column_stack([positive, negative]) / 0.3
    expected = np.mean(np.log(np.exp(logits).sum(1)) - logits[:, 0])
    assert method.train().loss(batch).item() == pytest.approx(expected, rel=1e-5)


def test_the_softmax_ranks_by_cosine():
    method = built(loss="softmax", negatives=4).eval()
    with torch.no_grad():
        block = method.scores().block(np.arange(3), 0, 9)
        users, items = method.backbone.reps()
    expected = torch.nn.functional.cosine_similarity(users[:3, None], items[None], dim=-1).detach()
    np.testing.assert_allclose(block, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize(
    "settings", [{}, {"negatives": 3}, {"loss": "bpr", "negatives": 2}, {"loss": "softmax", "negatives": 5}]
)
def test_regularisation_by_hand(backbone, settings):
    """λ/(2B)·Σ_b(‖e_u‖² + ‖e_i‖² + (1/K)·Σ_k ‖e_j‖²), on the trainable rows, not the propagated ones."""
    method, plain = built(backbone, **settings, reg=0.3), built(backbone, **settings, reg=0)
    batch = batch_of(method)
    state = method.backbone.state_dict()
    users, items = (state[f"{side}_table"].numpy().astype(float) for side in ("user", "item"))
    total, size = 0.0, len(batch.users)
    for place, (user, item) in enumerate(zip(batch.users, batch.items, strict=True)):
        mine = batch.negatives if method.negatives.shared else batch.negatives[place]
        total += (users[user] ** 2).sum() + (items[item] ** 2).sum()
        total += sum((items[negative] ** 2).sum() for negative in mine) / len(mine)
    expected = 0.3 / (2 * size) * total
    assert method.penalty(batch).item() == pytest.approx(expected, rel=1e-5)
    assert (method.loss(batch) - plain.loss(batch)).item() == pytest.approx(expected, rel=1e-3)


def test_weight_of_negatives():
    """Zero: positives only. The default leaves the formula as it is."""
    method = built(neg_weight=0, reg=0)
    positive, _ = scores_of(method, batch_of(method))
    assert method.loss(batch_of(method)).item() == pytest.approx(softplus(-positive).mean(), rel=1e-5)


def test_folding_in_minimises_the_training_loss():
    """``user_loss`` is the loss of one user with all other items as negatives."""
    positive, negative = torch.tensor([0.5, -1.0]), torch.tensor([0.1, 0.7, -0.3])
    p, n = positive.double().numpy(), negative.double().numpy()
    assert built().user_loss(positive, negative).item() == pytest.approx(softplus(-p).mean() + softplus(n).mean())
    assert built(loss="bpr").user_loss(positive, negative).item() == pytest.approx(softplus(-(p[:, None] - n)).mean())
    softmax = built(loss="softmax", temperature=0.5).user_loss(positive, negative).item()
    logits = np.column_stack([p, np.tile(n, (2, 1))]) / 0.5
    assert softmax == pytest.approx(np.mean(np.log(np.exp(logits).sum(1)) - logits[:, 0]))


def test_defaults():
    assert Normal(MF()).settings.as_dict() == {
        "loss": "bce",
        "negatives": 1,
        "temperature": 0.2,
        "neg_weight": 1.0,
        "reg": 1e-5,
        "norm_power": 0.0,
        "beta": None,
        "boost": None,
    }
    assert Normal(LightGCN()).settings.as_dict()["reg"] == 1e-4
    assert Normal(MF(), loss="softmax").negatives == Negatives(256, shared=True)
    assert Normal(MF(), loss="bpr").negatives == Negatives(1)
    assert Normal(MF(), reg=0).settings.as_dict()["reg"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "mse"}, "loss is 'mse'; expected one of bce, bpr, softmax"),
        ({"loss": None}, "loss is None; expected one of bce, bpr, softmax"),
        ({"negatives": 0}, "negatives is 0; expected a whole number from 1 up"),
        ({"negatives": 2.5}, "negatives is 2.5; expected a whole number from 1 up"),
        ({"negatives": True}, "negatives is True; expected a whole number from 1 up"),
        ({"temperature": 0}, "temperature is 0; expected a number above 0"),
        ({"temperature": "warm"}, "temperature is 'warm'; expected a number above 0"),
        ({"neg_weight": -1}, "neg_weight is -1; expected a number of at least 0"),
        ({"neg_weight": float("nan")}, "neg_weight is nan; expected a number of at least 0"),
        ({"reg": -1e-9}, "reg is -1e-09; expected a number of at least 0"),
        ({"reg": float("inf")}, "reg is inf; expected a number of at least 0"),
        ({"reg": True}, "reg is True; expected a number of at least 0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Normal(MF(), **settings)


@pytest.mark.parametrize("backbone", ["mf", None, MF])
def test_the_backbone_must_be_one(backbone):
    with pytest.raises(ConfigError, match=r"expected a backbone such as MF\(\) or LightGCN\(layers=3\)"):
        Normal(backbone)


@pytest.mark.parametrize("name", METHODS)
def test_registry(name):
    method = make_method(name, MF(dim=3))
    assert (method.name, type(method)) == (name, METHODS[name])
    assert make_method(name, MF(dim=3), **method.settings.as_dict()).settings.as_dict() == method.settings.as_dict()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("norml", {}, "unknown method 'norml'; did you mean 'normal'? Known: normal"),
        ("xyz", {}, "unknown method 'xyz'. Known: normal"),
        ("normal", {"regg": 1}, "method 'normal' has no setting 'regg'; did you mean 'reg'?"),
        ("normal", {"xyz": 1}, "method 'normal' has no setting 'xyz'; it has reg, beta, boost, loss, negatives, temperature, neg_weight"),
    ],
)  # fmt: skip
def test_wrong_names(name, settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_method(name, MF(), **settings)


def test_installed_packages_can_provide_methods(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from icpe import Normal\n\n\nclass Mine(Normal):\n    name = 'mine'\n")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[icpe.methods]\nmine = mine:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        make_method("mined", MF())
    assert type(make_method("mine", MF(), loss="bpr")).__name__ == "Mine"


def test_rng_is_another_name_for_the_seed():
    one, two, other = (Normal(MF(dim=3)).fit(LOG, epochs=1, **seed) for seed in ({"rng": 4}, {"seed": 4}, {"seed": 5}))
    assert one.recommend(n=3).equals(two.recommend(n=3))
    assert not one.recommend(n=3).equals(other.recommend(n=3))


def test_a_method_is_not_a_model():
    with pytest.raises(NotFittedError, match="Normal is not trained; call .fit"):
        Normal(MF()).recommend(["ann"], n=3)


def test_fitting_again_leaves_the_first_model_alone():
    method = Normal(MF(dim=3))
    first = method.fit(LOG, seed=0, epochs=2)
    other = method.fit(skewed_log(users=15, items=8, pairs=60), seed=1, epochs=2)
    again = Normal(MF(dim=3)).fit(LOG, seed=0, epochs=2)
    assert first.recommend(n=3).equals(again.recommend(n=3))
    assert len(other.log.items) == 8
    with pytest.raises(NotFittedError):
        method.recommend()


def test_fit_refuses_unknown_settings_and_foreign_validation():
    with pytest.raises(ConfigError, match="fit has no setting 'epoch'; did you mean 'epochs'"):
        Normal(MF(dim=3)).fit(LOG, epoch=3)
    strangers = skewed_log(users=5, items=5, pairs=20).to_frame().with_columns(user_id=100, item_id=200).head(1)
    from icpe import Interactions

    with pytest.raises(DataError, match="no validation pair has a user and an item of the training data"):
        Normal(MF(dim=3)).fit(LOG, valid=Interactions.read(strangers, at_least=1), epochs=1)


def test_norm_power_brings_back_the_inner_product():
    """With power 1 the softmax ranks by the inner product, up to the user's length; with 0 by the cosine."""
    log = skewed_log(users=40, items=30, pairs=400)
    model = Normal(MF(dim=4, init_std=0.5), loss="softmax").fit(log, epochs=1)
    user, item = (one.detach().numpy() for one in model.method.backbone.reps())
    lengths = np.linalg.norm(user, axis=1)[:, None], np.linalg.norm(item, axis=1)
    everybody = np.arange(40)
    for power in (0.0, 0.25, 1.0):
        found = model.adjusted(norm_power=power).scores.block(everybody, 0, 30)
        expected = user @ item.T / lengths[0] / lengths[1] ** (1 - power)
        assert np.allclose(found, expected, atol=1e-5)
