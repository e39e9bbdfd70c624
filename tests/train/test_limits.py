"""What cannot work is refused before training: lists longer than the catalogue, and settings beyond the memory."""

import psutil
import pytest

from icpe import ICPE, MF, ConfigError, DataError, Interactions, LightGCN, NeuMF, Normal, evaluate, split
from icpe.methods import make_method
from icpe.rng import stream
from icpe.testing import skewed_log
from icpe.train import TrainSettings
from icpe.train.limits import check_lengths, check_memory, memory_needs


@pytest.fixture(scope="module")
def log():
    return skewed_log(users=60, items=40, pairs=900)


def test_needs_computed_by_hand(log):
    """60 users, 40 items and 625 pairs, fewer than 64 batches of 10. Tables: parameters, two moments of Adam and the best parameters, four bytes each."""
    needs = memory_needs(Normal(MF(dim=8), negatives=3, loss="bce"), log, TrainSettings(batch_size=10))
    assert needs == {"backbone.dim": 100 * 8 * 4 * 4, "method.negatives": 625 * 3 * 20}
    shared = memory_needs(Normal(MF(dim=8), negatives=50, loss="softmax"), log, TrainSettings(batch_size=2000))
    assert shared["method.negatives"] == 50 * (64 * 20 + 625 * 4)  # the log has 625 pairs, fewer than a batch
    without = memory_needs(Normal(MF(dim=8)), log, TrainSettings(), validates=False)
    assert without["backbone.dim"] == 100 * 8 * 4 * 3
    elsewhere = memory_needs(Normal(MF(dim=8)), log, TrainSettings(device="cuda"))
    assert elsewhere["backbone.dim"] == 100 * 8 * 4
    assert memory_needs(ICPE(MF(), clusters=7), log, TrainSettings())["method.clusters"] == 4 * 49
    graph = memory_needs(Normal(LightGCN(dim=8, layers=3)), log, TrainSettings())
    assert graph["backbone.layers"] == 3 * 100 * 8
    assert memory_needs(Normal(LightGCN(message_dropout=0.0)), log, TrainSettings())["backbone.layers"] == 0
    tower = memory_needs(Normal(NeuMF(dim=8, layers=(6, 2))), log, TrainSettings())  # RMSprop has one moment
    assert tower["backbone.dim"] == 100 * 16 * 4 * 3
    assert tower["backbone.layers"] == (16 * 6 + 6 + 6 * 2 + 2 + 8 + 2 + 1) * 4 * 3


@pytest.mark.parametrize("backbone", [MF(dim=5), NeuMF(dim=6, layers=(7, 3)), LightGCN(dim=4, message_dropout=0.0)])
def test_needs_of_a_backbone_are_the_bytes_of_its_parameters(log, backbone):
    backbone.build(log, stream(0, "test"))
    built = sum(parameter.nbytes for parameter in backbone.parameters())
    assert sum(backbone.memory_needs(60, 40, copies=1).values()) == built
    assert sum(backbone.memory_needs(60, 40, copies=4).values()) == 4 * built


@pytest.mark.parametrize(
    ("method", "settings", "named"),
    [
        (Normal(MF(dim=10**9)), {}, r"backbone\.dim is 1000000000, which needs at least 1\.2 TB .* for 60 users and 40 items; .* available\. Pass a smaller dim \(command line: a smaller --backbone\.dim\)"),
        (Normal(NeuMF(layers=(10**9, 10**9))), {}, r"backbone\.layers is \(1000000000, 1000000000\), which needs at least 8\.0 EB"),
        (Normal(LightGCN(dim=10**8, layers=100)), {}, r"backbone\.layers is 100, which needs at least 1\.0 TB"),
        (Normal(MF(), negatives=10**9, loss="softmax"), {}, r"method\.negatives is 1000000000, which needs at least 3\.8 TB"),
        (Normal(MF(), negatives=10**9, loss="bce"), {"batch_size": 10**12}, r"method\.negatives is 1000000000, which needs at least 12\.5 TB"),
        (ICPE(MF(), clusters=10**9), {}, r"method\.clusters is 1000000000, which needs at least 4\.0 EB"),
    ],
)  # fmt: skip
def test_absurd_settings_are_refused_before_anything_is_allocated(log, method, settings, named):
    with pytest.raises(ConfigError, match=named):
        method.fit(log, **settings)
    assert method.backbone.users == 0  # nothing was built


def test_the_number_of_layers_has_a_bound():
    with pytest.raises(ConfigError, match="layers is 1000000000"):
        LightGCN(layers=10**9)


def test_the_refusal_begins_where_memory_ends(log, monkeypatch):
    method, settings = Normal(MF(dim=8)), TrainSettings()
    needed = sum(memory_needs(method, log, settings).values())
    swap = psutil.swap_memory()._replace(free=0)
    monkeypatch.setattr(psutil, "swap_memory", lambda: swap)
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=needed))
    check_memory(method, log, settings, validates=True)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=needed - 1))
    with pytest.raises(ConfigError, match="are available"):
        check_memory(method, log, settings, validates=True)


def test_lengths():
    check_lengths([5, 40], 40)
    check_lengths([20], 3)  # the default
    with pytest.raises(ConfigError, match=r"n is 41, but the training part has 40 items.*\(command line: -n 40\)"):
        check_lengths([5, 41], 40)
    with pytest.raises(ConfigError, match="n is 21"):
        check_lengths([21], 3)


@pytest.mark.parametrize("name", ["normal", "icpe"])
def test_small_catalogues_are_trained_and_evaluated(name):
    """Lists of 20 hold at most twelve items, so they find every test item, and the front is that of lists of twelve."""
    parts = split.random(skewed_log(users=40, items=12, pairs=200), seed=0)
    model = make_method(name, MF(dim=4)).fit(parts.train, valid=parts.valid, epochs=1)
    values = evaluate(model, parts, n=[12, 20]).values
    assert values["recall@20"] == values["recall@12"] == 1.0
    assert values["ndcg@20"] == values["ndcg@12"]
    assert values["coverage@20"] == values["coverage@12"]
    assert model.front().table["recall"].to_list() == [1.0] * len(model.front().table)


def test_lists_are_never_longer_than_the_catalogue(log):
    model = Normal(MF(dim=4)).fit(log, epochs=1)
    every = model.recommend(n=10**12, hide_seen=False)
    assert every.height == 60 * 40
    assert model.recommend([log.users[0]], n=10**12).height == 40 - log.user_counts[0]
    assert model.similar_items([log.items[0]], n=10**12).height == 39
    assert model.fold_in([log.items[0]], n=10**12).height == 39


def test_a_validation_part_without_known_pairs_is_refused(log):
    train = log.to_frame().with_columns(user_id=log.to_frame()["user_id"].cast(str))
    strangers = train.with_columns(user_id="x" + train["user_id"])
    with pytest.raises(
        DataError,
        match=r"the valid part is empty: of its 625 interactions, 625 have a user or an item without training data, and 0",
    ):
        split.given(train, strangers)
    with pytest.raises(
        DataError, match="0 have a user or an item without training data, and 625 are in the training part too"
    ):
        split.given(train, train)
    with pytest.raises(DataError, match="no validation pair has a user and an item of the training data"):
        Normal(MF()).fit(Interactions.read(train), valid=Interactions.read(strangers))
    assert len(split.given(train).valid) == 0
