"""The training loop: the same seed gives the same bytes, early stopping works, and a run resumes at any step."""

import dataclasses
import json
import re

import pytest
import torch

from icpe import ICPE, MF, ConfigError, IcpeError, LightGCN, NeuMF, Normal, split
from icpe.methods import Batch, PopularityPenalty
from icpe.recommender.validation import validator
from icpe.testing import skewed_log
from icpe.train import Position, Trainer, TrainSettings
from icpe.train.abilities import RankingChoice
from icpe.train.loop import Validation
from icpe.train.sampling import Sampler

LOG = skewed_log(users=60, items=40, pairs=700)
BACKBONES = {
    "mf": lambda: MF(dim=4),
    "neumf": lambda: NeuMF(dim=4, layers=(8, 4)),
    "lightgcn": lambda: LightGCN(dim=4, layers=2),
}


def trainer(method=None, seed=0, validate=None, **settings):
    settings = {"epochs": 3, "batch_size": 50, **settings}
    return Trainer(method or Normal(MF(dim=4)), LOG, seed, TrainSettings(**settings), validate)


def scripted(values):
    """Validation function with given results, which notes the niche shares that it is told.

    It chooses the dial too, and depends on nothing but its results.
    """
    asked = []

    def validate(method, last_share=None):
        asked.append(last_share)
        value = values[len(asked) - 1]
        return Validation(value, {"ndcg@20": value}, beta=10 * value, niche_share=value / 2)

    return validate, asked


def state_bytes(one):
    return {name: value.numpy().tobytes() for name, value in one.method.state_dict().items()}


class Stop(Exception):
    pass


def run_until(one, step):
    def stop(position):
        if position.step == step:
            raise Stop

    with pytest.raises(Stop):
        one.run(on_step=stop)


@pytest.mark.parametrize("name", BACKBONES)
def test_the_seed_decides_every_byte(name):
    def train(seed):
        one = trainer(Normal(BACKBONES[name]()), seed, epochs=2)
        losses = []
        one.run(on_evaluation=lambda record: losses.append(record["loss"]))
        return state_bytes(one), losses

    assert train(0) == train(0)
    first, other = train(0)[0], train(1)[0]
    assert all(first[key] != other[key] for key in first)


def test_the_seed_also_decides_batches():
    """With equal start values, another seed gives other batches."""
    one, two = trainer(seed=0, epochs=1), trainer(seed=1, epochs=1)
    two.method.load_state_dict(one.method.state_dict())
    one.run()
    two.run()
    assert state_bytes(one) != state_bytes(two)


def test_dropout_is_fresh_in_each_step_and_the_same_in_each_run():
    def masks(seed):
        one, drawn = trainer(seed=seed, epochs=1), []
        loss = one.method.loss

        def noted(batch, rng=None):
            drawn.append(int(torch.randint(2**62, (1,), generator=rng)))
            return loss(batch, rng)

        one.method.loss = noted
        one.run()
        return drawn

    first = masks(0)
    assert len(set(first)) == len(first) > 5
    assert masks(0) == first
    assert not set(masks(1)) & set(first)


class Quiet(MF):
    """Backbone that reads rows but does not declare its row tables."""

    def row_tables(self):
        return [], []


@pytest.mark.parametrize("loss", ["bce", "bpr", "softmax"])
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_row_and_dense_optimisers_agree(loss, optimizer):
    """A backbone that does not declare its row tables is trained densely, with the same result."""
    ends = []
    for kind in (MF, Quiet):
        one = trainer(Normal(kind(dim=4, init_std=0.1), loss=loss, reg=0.01), optimizer=optimizer, lr=0.01)
        one.run()
        ends.append(dict(one.method.named_parameters()))
    start = dict(trainer(Normal(MF(dim=4, init_std=0.1))).method.named_parameters())
    for name, value in ends[0].items():
        assert (value - start[name]).abs().max() > 0.05
        torch.testing.assert_close(value, ends[1][name], rtol=1e-3, atol=1e-4)


def test_after_training_tables_are_read_normally():
    one = trainer(epochs=1)
    one.run()
    batch = Batch.of(next(Sampler(LOG, one.method.negatives, batch_size=50, seed=0).epoch(0)))
    torch.autograd.backward(one.method.loss(batch))
    assert one.method.backbone.user_table.grad.abs().sum() > 0


def test_training_lowers_the_loss():
    losses = []
    one = trainer(epochs=60, lr=0.05, evaluate_every=50)
    one.run(on_evaluation=lambda record: losses.append(record["loss"]))
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("name", BACKBONES)
def test_resuming_at_any_step_changes_nothing(name, optimizer):
    def make():
        validate, _ = scripted([0.3, 0.5, 0.2, 0.4, 0.1, 0.2, 0.3])
        return trainer(Normal(BACKBONES[name]()), validate=validate, optimizer=optimizer, evaluate_every=8)

    def make_after(asked):
        validate, _ = scripted([0.3, 0.5, 0.2, 0.4, 0.1, 0.2, 0.3][asked:])
        return trainer(Normal(BACKBONES[name]()), validate=validate, optimizer=optimizer, evaluate_every=8)

    whole, records = make(), []
    whole.run(on_evaluation=records.append)
    for step in (1, 7, 8, 13, 17, whole.steps):
        first, seen = make(), []

        def stop(position, step=step):
            if position.step == step:
                raise Stop

        with pytest.raises(Stop):
            first.run(on_step=stop, on_evaluation=seen.append)
        tensors = {key: value.clone() for key, value in first.tensors().items()}
        record = json.loads(json.dumps(first.record()))
        second = make_after(len(seen))
        second.restore(tensors, record)
        second.run(on_evaluation=seen.append)
        assert state_bytes(second) == state_bytes(whole), f"from step {step}"
        assert seen == records
        assert second.position == whole.position


@pytest.mark.parametrize("method", [Normal, ICPE, PopularityPenalty])
@pytest.mark.parametrize("wish", [{"goal": "traffic"}, {"goal": "balanced"}, {"niche_share": 0.5}], ids=str)
def test_resuming_with_the_dial_changes_nothing(method, wish):
    """The later validations depend on the earlier ones: they only try settings near the last choice."""
    parts = split.random(skewed_log(users=100, items=80, pairs=1500), seed=0)
    settings = TrainSettings(epochs=3, batch_size=100, lr=0.01, evaluate_every=8, **wish)

    def make():
        made = method(MF(dim=4))
        return Trainer(made, parts.train, 0, settings, validator(parts.train, parts.valid, settings))

    whole, records = make(), []
    whole.run(on_evaluation=records.append)
    assert len({record["beta"] for record in records}) > 1
    assert whole.method.settings.beta == whole.position.best_beta is not None
    for step in (1, 8, 13, 24, whole.steps):
        first, seen = make(), []

        def stop(position, step=step):
            if position.step == step:
                raise Stop

        with pytest.raises(Stop):
            first.run(on_step=stop, on_evaluation=seen.append)
        second = make()
        tensors = {key: value.clone() for key, value in first.tensors().items()}
        second.restore(tensors, json.loads(json.dumps(first.record())))
        second.run(on_evaluation=seen.append)
        assert state_bytes(second) == state_bytes(whole), f"from step {step}"
        assert str(seen) == str(records)  # a metric without users is NaN, which does not equal itself
        assert second.position == whole.position
        assert second.method.settings == whole.method.settings


def test_a_later_state_differs():
    """Check that the comparison above can fail."""
    first = trainer()
    run_until(first, 5)
    early = {key: value.clone() for key, value in first.tensors().items()}
    run_until(first, 9)
    second = trainer()
    second.restore(
        {**first.tensors(), **{key: value for key, value in early.items() if key.startswith("opt.")}}, first.record()
    )
    second.run()
    first.run()
    assert state_bytes(second) != state_bytes(first), "the optimiser's state matters"


def test_early_stopping_restores_the_best():
    values = [0.1, 0.4, 0.3, 0.4, 0.2, 0.9, 0.9]  # an equal value does not count as better
    validate, asked = scripted(values)
    one = trainer(validate=validate, epochs=50, evaluate_every=3, patience=3, lr=0.1)
    states, records = [], []

    def note(record):
        states.append(state_bytes(one))
        records.append(record)

    one.run(on_evaluation=note)
    assert [record["step"] for record in records] == [3, 6, 9, 12, 15]
    assert [record["valid"]["ndcg@20"] for record in records] == values[:5]
    assert [record["beta"] for record in records] == [10 * value for value in values[:5]]
    assert one.position == Position(step=15, best=0.4, best_step=6, best_beta=4.0, niche_share=0.1, stale=3, done=True)
    assert one.method.settings.beta == 4.0
    assert state_bytes(one) == states[1]
    assert len(set(map(str, states))) == 5
    assert not one.method.training
    assert asked == [None, 0.05, 0.2, 0.15, 0.2]


def test_patience_restarts_after_an_improvement():
    validate, asked = scripted([0.1, 0.0, 0.2, 0.1, 0.1, 0.5])
    trainer(validate=validate, epochs=50, evaluate_every=2, patience=2).run()
    assert len(asked) == 5


def test_without_validation_all_epochs_are_run_and_the_last_state_stays():
    one = trainer(epochs=4)
    last = []
    one.run(on_step=lambda position: last.append(position.step))
    assert last == list(range(1, 4 * -(-len(LOG) // 50) + 1))
    assert one.position.done


def test_the_end_is_always_validated():
    validate, _ = scripted([0.1, 0.2])
    steps = []
    one = trainer(validate=validate, epochs=2, evaluate_every=20)
    one.run(on_evaluation=lambda record: steps.append(record["step"]))
    assert steps == [20, one.steps]
    assert one.steps % 20 != 0


@pytest.mark.parametrize(
    ("batch_size", "asked", "interval"),
    [
        (len(LOG), None, 250),  # an epoch of 1 step
        (1, None, len(LOG)),  # an epoch between 250 and 3000
        (1, 17, 17),
        (len(LOG), 4000, 4000),
    ],
)
def test_steps_between_validations(batch_size, asked, interval):
    assert 250 < len(LOG) < 3000
    one = trainer(batch_size=batch_size, evaluate_every=asked)
    assert one.evaluate_every == interval


def test_at_most_3000_steps_between_validations():
    log = skewed_log(pairs=5000)
    assert len(log) > 3000
    assert Trainer(Normal(MF(dim=2)), log, 0, TrainSettings(batch_size=1)).evaluate_every == 3000


def test_the_recorded_loss_is_the_mean_since_the_last_record():
    one, losses, records = trainer(epochs=1, evaluate_every=4), [], []
    loss = one.method.loss

    def noted(batch, rng=None):
        value = loss(batch, rng)
        losses.append(float(value.detach()))
        return value

    one.method.loss = noted
    one.run(on_evaluation=records.append)
    for record in records:
        mine = losses[(record["step"] - 1) // 4 * 4 : record["step"]]
        assert record["loss"] == pytest.approx(sum(mine) / len(mine), rel=1e-6)
    assert records[0]["epoch"] == pytest.approx(4 / -(-len(LOG) // 50))


class Explodes(Normal):
    def loss(self, batch, rng=None):
        value = super().loss(batch, rng)
        self.calls = getattr(self, "calls", 0) + 1
        return value * float("nan") if self.calls == 4 else value


def test_a_loss_that_is_not_finite_names_step_and_rate():
    one = trainer(Explodes(MF(dim=4)), lr=0.25)
    with pytest.raises(IcpeError, match=re.escape("the loss is nan at step 4 with lr=0.25.")) as caught:
        one.run()
    assert str(caught.value).endswith("--train.lr 0.025"), "a checkpoint is not the loop's to promise"
    assert type(caught.value) is IcpeError, "neither the data nor a setting by itself is wrong"
    assert one.position.step == 3, "the state is that before the step"


@pytest.mark.parametrize("device", ["abacus", "cuda:99", "cpu:-2", "meta"])
def test_missing_devices(device):
    with pytest.raises(ConfigError, match=f"device '{device}' is not available here; `icpe doctor` lists"):
        trainer(device=device)


def test_auto_finds_a_device():
    found = TrainSettings(device="auto").torch_device()
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert found.type == best


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0; expected a whole number from 1 up"),
        ({"epochs": 1.5}, "epochs is 1.5; expected a whole number from 1 up"),
        ({"batch_size": True}, "batch_size is True; expected a whole number from 1 up"),
        ({"batch_size": "64"}, "batch_size is '64'; expected a whole number from 1 up"),
        ({"patience": -1}, "patience is -1; expected a whole number from 1 up"),
        ({"evaluate_every": 0}, "evaluate_every is 0; expected a whole number from 1 up"),
        ({"lr": 0}, "lr is 0; expected a number above 0"),
        ({"lr": float("nan")}, "lr is nan; expected a number above 0"),
        ({"lr": float("inf")}, "lr is inf; expected a number above 0"),
        ({"lr": "fast"}, "lr is 'fast'; expected a number above 0"),
        ({"device": None}, "device is None; expected a name such as 'cpu'"),
        ({"device": 0}, "device is 0; expected a name such as 'cpu'"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; expected one of adam, rmsprop"),
        ({"goal": "fame"}, "goal is 'fame'; expected one of traffic, balanced, none"),
        ({"niche_share": 0.4, "goal": "none"}, "niche_share is 0.4 with goal 'none', which leaves the dial at rest"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        TrainSettings(**settings)


def test_settings_as_written_make_the_same_settings():
    settings = TrainSettings(epochs=3, lr=0.1, evaluate_every=7)
    assert TrainSettings(**json.loads(json.dumps(settings.as_dict()))) == settings
    assert "optimizer" not in TrainSettings().as_dict(), "unset ones stay unset"


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0"])
def test_wrong_seeds(seed):
    with pytest.raises(ConfigError, match="expected a whole number from 0 up"):
        trainer(seed=seed)


class Dial(RankingChoice, Normal):
    """Method that ranks by c times the score. Validation chooses the best c."""

    name = "dial"

    def build(self, train, rng):
        super().build(train, rng)
        self.register_buffer("chosen", torch.zeros(()))

    def ranking_options(self):
        return [{"c": c} for c in (-1.0, 1.0, 2.0)]

    def choose_ranking(self, c):
        self.chosen.fill_(c)

    def scores(self):
        table = super().scores()
        return dataclasses.replace(table, user_vectors=table.user_vectors * self.chosen.numpy())


def test_settings_of_ranking_are_chosen_at_validations():
    log = skewed_log(users=40, items=30, pairs=400)
    parts = split.unbiased(log, seed=0)
    model = Dial(MF(dim=8)).fit(parts.train, parts.valid, epochs=20, lr=0.01, batch_size=64, goal="none")
    assert model.method.chosen == 1.0  # 2 is equally good but comes later
