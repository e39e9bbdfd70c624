"""Penalty, logit adjustment and in-batch softmax: values computed from their formulas, identities with Normal."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from icpe import ICPE, MF, ConfigError, Interactions, LightGCN, NeuMF, Normal, load
from icpe.files import write_together
from icpe.methods import Batch, InBatch, LogitAdjustment, PopularityPenalty
from icpe.methods.in_batch import in_batch_softmax
from icpe.recommender.validation import validator
from icpe.rng import stream
from icpe.testing.logs import skewed_log
from icpe.testing.methods import check_method
from icpe.train import Trainer, TrainSettings

LOG = skewed_log(users=40, items=30, pairs=400)
COUNTS = np.maximum(LOG.item_counts, 1)
LOG_POPULARITY = np.log(COUNTS / COUNTS.mean())
INNER = (lambda: MF(dim=4, init_std=0.1), lambda: LightGCN(dim=4, layers=2))


@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize("make", [PopularityPenalty, LogitAdjustment])
def test_contract_of_methods(make, loss):
    check_method(lambda backbone: make(backbone, loss=loss))


def test_contract_of_in_batch():
    check_method(InBatch, INNER)


def built(method):
    method.build(LOG, stream(0, "test"))
    return method


def trained(method):
    Trainer(method, LOG, 0, TrainSettings(epochs=1, batch_size=64, lr=0.003)).run()
    return [method.backbone.user_table.detach(), method.backbone.item_table.detach()]


def test_penalty_is_subtracted_in_the_unit_of_training():
    for loss, unit in (("bce", 1.0), ("softmax", 0.25)):
        method = built(PopularityPenalty(MF(), loss=loss, temperature=0.25, strength=0.6))
        with torch.no_grad():
            found = method.scores().block(np.arange(5), 0, 30)
            plain = method.unbiased_scores().block(np.arange(5), 0, 30)
        assert np.allclose(found, plain - 0.6 * unit * LOG_POPULARITY, atol=1e-5)


def test_penalty_can_be_changed_after_training():
    model = PopularityPenalty(MF(dim=4), strength=0.0).fit(LOG, epochs=3)
    first, second = (model.adjusted(strength=one).scores.block(np.arange(40), 0, 30) for one in (0.0, 2.0))
    assert np.allclose(first - second, 2 * LOG_POPULARITY, atol=1e-5)
    with pytest.raises(ConfigError, match="ranking setting of 'penalty' 'reg'"):
        model.adjusted(reg=1.0)
    with pytest.raises(ConfigError, match="strength is -1"):
        model.adjusted(strength=-1)


def niche_valid(items):
    """All users want the least popular items that they have not used."""
    order = np.argsort(LOG.item_counts, kind="stable")
    used = np.zeros((40, 30), bool)
    used[LOG.user, LOG.item] = True
    pairs = [(user, item) for user in range(40) for item in [one for one in order if not used[user, one]][:items]]
    user, item = np.array(sorted(pairs), np.int32).T
    return Interactions.from_codes(LOG.users, LOG.items, user, item)


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_strength_of_the_penalty_is_chosen_at_validations(loss):
    """The best NDCG among 0, 0.1, …, 1.2 decides; the smallest strength wins a tie. The dial is at rest."""
    train = TrainSettings(epochs=4, batch_size=64, lr=0.003, evaluate_every=12, goal="none")
    validate, records = validator(LOG, niche_valid(3), train), []
    method = PopularityPenalty(MF(dim=4, init_std=0.3), loss=loss)
    trainer = Trainer(method, LOG, 0, train, validate)
    trainer.run(on_evaluation=records.append)
    values = []
    with torch.no_grad():
        for step in range(13):
            fixed = copy.copy(method)
            fixed.settings = method.settings.replace(strength=step / 10)
            values.append(validate(fixed).metrics["ndcg@20"])
    assert len(set(values)) > 5
    assert float(method.chosen) == pytest.approx(int(np.argmax(values)) / 10)
    assert float(method.chosen) > 0
    assert trainer.position.best == max(values) == max(one["valid"]["ndcg@20"] for one in records)
    assert set(records[0]["penalty"]) == {"strength"}


def test_a_fixed_strength_is_kept():
    model = PopularityPenalty(MF(dim=4), strength=0.2).fit(LOG, niche_valid(3), epochs=2)
    assert model.method.ranking_options() == []
    assert model.method.settings.strength == 0.2
    assert float(model.method.item_bias()[0]) == pytest.approx(-0.2 * LOG_POPULARITY[0], rel=1e-5)


def test_strength_without_validation():
    model = PopularityPenalty(MF(dim=4)).fit(LOG, epochs=1)
    assert float(model.method.item_bias()[0]) == pytest.approx(-0.7 * LOG_POPULARITY[0], rel=1e-5)
    assert model.method.settings.strength is None


def test_chosen_strength_is_saved_and_can_be_changed(tmp_path):
    model = PopularityPenalty(MF(dim=4)).fit(LOG, niche_valid(3), epochs=2)
    chosen = float(model.method.chosen)
    assert chosen != pytest.approx(0.7)
    for name, one in (("chosen", model), ("fixed", model.adjusted(strength=0.3))):
        one.save(tmp_path / name)
        read = load(tmp_path / name)
        assert np.array_equal(read.scores.block(np.arange(40), 0, 30), one.scores.block(np.arange(40), 0, 30))
    assert read.method.settings.strength == 0.3
    assert float(read.method.chosen) == pytest.approx(chosen)


def test_models_saved_without_a_chosen_strength_load(tmp_path):
    model = PopularityPenalty(MF(dim=4), strength=0.4).fit(LOG, epochs=1)
    model.save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["chosen"]
    write_together(tmp_path, {"model.safetensors": lambda path: save_file(tensors, path)})
    read = load(tmp_path)
    assert np.array_equal(read.scores.block(np.arange(40), 0, 30), model.scores.block(np.arange(40), 0, 30))


@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize("backbone", [MF, NeuMF, LightGCN])
def test_logit_adjustment_of_strength_zero_is_normal(backbone, loss):
    settings = {"loss": loss, "temperature": 0.2, "reg": 1e-3}
    plain = trained(Normal(backbone(), **settings))
    for one, other in zip(trained(LogitAdjustment(backbone(), strength=0.0, **settings)), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    adjusted = trained(LogitAdjustment(backbone(), strength=1.0, **settings))
    assert not torch.allclose(adjusted[1], plain[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize("backbone", [MF, NeuMF])
def test_logit_adjustment_is_icpe_with_a_fixed_propensity(backbone, loss):
    settings = {"loss": loss, "temperature": 0.3, "strength": 0.7, "reg": 0.0}
    fixed = trained(ICPE(backbone(), propensity="popularity", weights_on="none", peers=0, **settings))
    for one, other in zip(trained(LogitAdjustment(backbone(), **settings)), fixed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_in_batch_loss_by_hand():
    method = built(InBatch(MF(dim=4, init_std=0.5), temperature=0.3, strength=0.4, reg=0.0))
    users, items = (
        torch.tensor([0, 1, 2, 3]),
        torch.tensor([5, 7, 5, 9]),
    )  # item 5 occurs twice and is not its own negative
    loss = float(method.loss(Batch(users, items, torch.empty(0, dtype=torch.int64))).detach())
    user, item = (one.detach().numpy().astype(float) for one in method.backbone.reps())
    expected = 0.0
    for row in range(4):
        logits = {}
        for column in range(4):
            left, right = user[users[row]], item[items[column]]
            cosine = left @ right / np.linalg.norm(left) / np.linalg.norm(right)
            logits[column] = cosine / 0.3 - 0.4 * LOG_POPULARITY[items[column]]
        others = [logits[column] for column in range(4) if column == row or items[column] != items[row]]
        expected += (np.log(np.exp(others).sum()) - logits[row]) / 4
    assert loss == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.02, 0.3])
def test_in_batch_sums_of_distinct_rows_are_those_of_all_rows(temperature):
    rng = torch.Generator().manual_seed(4)
    tables = [torch.randn((size, 6), generator=rng) for size in (5, 8)]
    rows = torch.randint(5, (40,), generator=rng), torch.randint(8, (40,), generator=rng)
    offset, found = torch.randn(8, generator=rng), []
    for kind in (torch.float64, torch.float32):
        users, items = (one.to(kind, copy=True).requires_grad_() for one in tables)
        in_batch_softmax(users, items, rows, offset.to(kind), temperature).backward()
        found.append((users.grad.double(), items.grad.double()))
    users, items = (one.double().requires_grad_() for one in tables)
    every = torch.nn.functional.normalize(users)[rows[0]] @ torch.nn.functional.normalize(items)[rows[1]].T
    every = every / temperature + offset.double()[rows[1]]
    again = (rows[1][:, None] == rows[1]) & ~torch.eye(40, dtype=torch.bool)
    torch.nn.functional.cross_entropy(every.masked_fill(again, -torch.inf), torch.arange(40)).backward()
    for place, expected in enumerate((users.grad, items.grad)):
        torch.testing.assert_close(found[0][place], expected, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(found[1][place], expected, rtol=1e-3, atol=1e-4)


def test_in_batch_needs_inner_products():
    with pytest.raises(ConfigError, match="NeuMF scores pairs one by one"):
        InBatch(NeuMF()).build(LOG, np.random.default_rng(0))
