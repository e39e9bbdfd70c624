"""A training that starts from an earlier model: rows follow ids, everything that does not fit is refused."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import ICPE, MF, Interactions, LightGCN, NeuMF, Normal, make_world, split
from icpe.backbones import Backbone
from icpe.errors import ConfigError, DataError
from icpe.methods import METHODS, make_method
from icpe.testing.backbones import Distance
from icpe.testing.logs import skewed_log
from icpe.testing.methods import block_log

LOOP = {"epochs": 1, "batch_size": 64, "lr": 1e-12}  # steps so small that rows stay where they start


def renamed(log, users=None, items=None):
    """The same pairs with other ids."""
    frame = log.to_frame().with_columns(pl.col("user_id", "item_id").cast(pl.String))
    frame = frame.with_columns(pl.col("user_id").replace(users or {}), pl.col("item_id").replace(items or {}))
    return Interactions.read(frame)


@pytest.fixture(scope="module")
def night():
    """Yesterday's log, and today's: user 3 and item 5 have gone, ``ann`` and ``tea`` are new."""
    log = skewed_log(users=40, items=30, pairs=500)
    return renamed(log), renamed(log, {"3": "ann"}, {"5": "tea"})


def rows_of(model, table, side):
    ids = model.log.users if side == "user" else model.log.items
    return dict(zip(ids, table.detach().numpy(), strict=True))


@pytest.mark.parametrize("backbone", [MF, NeuMF, LightGCN])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("popularity", "random")])
def test_rows_follow_ids_for_every_method(name, backbone, night):
    if name in ("in_batch", "resn", "popdcl") and backbone is NeuMF:
        pytest.skip(f"{name} needs inner products")
    method = make_method(name, backbone(dim=4))
    old = method.fit(night[0], epochs=1, batch_size=64, lr=0.01)
    new = method.fit(night[1], init_from=old, **LOOP)
    before = dict(old.method.named_parameters())
    sides = {"user": new.method.user_parameters(), "item": new.method.item_parameters()}
    owner = {id(one): side for side, tables in sides.items() for one in tables}
    assert set(owner.values()) == {"user", "item"}
    for label, table in new.method.named_parameters():
        side = owner.get(id(table))
        if side is None:  # layers that all users and items share
            torch.testing.assert_close(table, before[label], rtol=1e-3, atol=1e-6)
            continue
        here, there = rows_of(new, table, side), rows_of(old, before[label], side)
        fresh = {"user": "ann", "item": "tea"}[side]
        assert here.keys() - there.keys() == {fresh}
        for one in here.keys() & there.keys():
            np.testing.assert_allclose(here[one], there[one], rtol=1e-3, atol=1e-6)
        gone = there[{"user": "3", "item": "5"}[side]]
        assert not np.allclose(here[fresh], gone, atol=1e-4)  # nobody inherits the row of somebody else


def test_a_start_that_is_best_already_is_kept():
    """Steps that only do harm leave the model as it was, because the first validation comes before them."""
    parts = split.random(block_log(share=1.0), seed=0)
    good = Normal(MF(dim=16)).fit(parts.train, parts.valid, epochs=40, batch_size=128, lr=0.02)
    same = Normal(MF(dim=16)).fit(parts.train, parts.valid, init_from=good, epochs=2, batch_size=128, lr=50.0)
    assert torch.equal(same.method.backbone.user_table, good.method.backbone.user_table)
    assert same.front().table.equals(good.front().table)


def test_a_short_training_from_an_earlier_model_is_as_good_as_a_long_one():
    parts = split.random(block_log(share=1.0), seed=0)
    loop = {"batch_size": 128, "lr": 0.02, "patience": 50, "evaluate_every": 5, "goal": "none"}
    long = Normal(MF(dim=16)).fit(parts.train, parts.valid, epochs=40, **loop)
    cold = Normal(MF(dim=16)).fit(parts.train, parts.valid, epochs=2, **loop)
    warm = Normal(MF(dim=16)).fit(parts.train, parts.valid, epochs=2, init_from=long, **loop)
    best, short, again = (one.front().at(0.0)["ndcg"] for one in (long, cold, warm))
    assert again >= best > 1.5 * short


def test_the_dial_stays_without_validation(night):
    """Nothing can be chosen then, so the choice of the earlier model is the best guess."""
    old = ICPE(MF(dim=4)).fit(night[0], epochs=1, batch_size=64).adjusted(beta=0.3)
    assert ICPE(MF(dim=4)).fit(night[1], init_from=old, **LOOP).beta == 0.3
    assert ICPE(MF(dim=4), beta=0.7).fit(night[1], init_from=old, **LOOP).beta == 0.7


def test_choices_of_ranking_stay_without_validation(night):
    old = make_method("penalty", MF(dim=4)).fit(night[0], epochs=1, batch_size=64)
    old.method.choose_ranking(strength=0.125)
    new = make_method("penalty", MF(dim=4)).fit(night[1], init_from=old, **LOOP)
    assert new.method.ranking_choice() == {"strength": 0.125}


@pytest.mark.parametrize("name", ["penalty", "macr", "dice", "bc_loss"])
def test_every_choice_of_ranking_can_be_made_again(name, night):
    one, two = (make_method(name, MF(dim=4)) for _ in range(2))
    for method in (one, two):
        method.build(night[0], np.random.default_rng(0))
    for option in one.ranking_options():
        one.choose_ranking(**option)
        two.choose_ranking(**one.ranking_choice())
        assert one.ranking_choice() == two.ranking_choice() == pytest.approx(option)


def test_what_icpe_has_cooled_stays_cool(night):
    old = ICPE(MF(dim=4)).fit(night[0], epochs=1, batch_size=64)
    old.method.current_temperature.fill_(0.125)
    assert ICPE(MF(dim=4)).fit(night[1], init_from=old, **LOOP).method.temperature == 0.125


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: ICPE(MF(dim=4)), "method is 'icpe' here and 'normal' in the earlier model"),
        (lambda: Normal(LightGCN(dim=4)), "backbone is 'lightgcn' here and 'mf' in the earlier model"),
        (
            lambda: Normal(MF(dim=5)),
            "backbone.dim is 5 here and 4 in the earlier model; .*shape .40, 5. here and .40, 4.",
        ),
    ],
)
def test_another_model_is_refused(other, message, night):
    old = Normal(MF(dim=4)).fit(night[0], **LOOP)
    with pytest.raises(ConfigError, match=message):
        other().fit(night[1], init_from=old, **LOOP)


def test_other_layers_are_named(night):
    old = Normal(NeuMF(dim=4, layers=(8, 4))).fit(night[0], **LOOP)
    with pytest.raises(ConfigError, match=r"backbone.layers is \[8\] here and \[8, 4\] in"):
        Normal(NeuMF(dim=4, layers=(8,))).fit(night[1], init_from=old, **LOOP)


def test_ids_of_another_type_are_refused(night):
    old = Normal(MF(dim=4)).fit(night[0], **LOOP)
    numbers = skewed_log(users=40, items=30, pairs=500)
    with pytest.raises(
        DataError, match="user ids are text in the earlier model, such as '0', but integers in this log"
    ):
        Normal(MF(dim=4)).fit(numbers, init_from=old, **LOOP)


def test_a_log_of_strangers_is_refused(night):
    old = Normal(MF(dim=4)).fit(night[0], **LOOP)
    strangers = renamed(night[0], {str(n): f"u{n}" for n in range(40)}, {str(n): f"i{n}" for n in range(30)})
    with pytest.raises(DataError, match="no user and no item of the earlier model"):
        Normal(MF(dim=4)).fit(strangers, init_from=old, **LOOP)


def test_a_validation_part_that_the_earlier_model_knows_is_reported():
    """A split at random holds out pairs on which yesterday's model was trained; a split by time does not."""
    log = make_world(users=90, items=60, interactions=1200).log
    known = log.timestamp < np.quantile(log.timestamp, 0.9)
    yesterday = log.keep(known).compact()
    old = Normal(MF(dim=4)).fit(split.chronological(yesterday).train, **LOOP)
    drawn = split.random(log, seed=0)
    with pytest.warns(UserWarning, match=r"was trained on \d+\s% of the validation pairs.*--split chronological"):
        Normal(MF(dim=4)).fit(drawn.train, drawn.valid, init_from=old, **LOOP)
    later = split.chronological(log)  # warnings are errors in these tests
    Normal(MF(dim=4)).fit(later.train, later.valid, init_from=old, **LOOP)


class Undeclared(Distance):
    """A backbone written before warm starts."""

    user_parameters = Backbone.user_parameters


def test_a_backbone_that_declares_no_users_is_named(night):
    old = Normal(Undeclared()).fit(night[0], **LOOP)
    with pytest.raises(ConfigError, match=r"Undeclared does not say .* define user_parameters\(\)"):
        Normal(Undeclared()).fit(night[1], init_from=old, **LOOP)
