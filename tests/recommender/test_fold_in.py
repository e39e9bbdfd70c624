"""New users: their lists are those that training would have given them."""

import numpy as np
import polars as pl
import pytest
import torch

from icpe import ICPE, MF, DataError, Interactions, LightGCN, NeuMF, Normal, make_world
from icpe.ranking.sweep import item_bias
from icpe.recommender.model import Model
from icpe.rng import stream
from icpe.testing import skewed_log
from icpe.train.dial import dial_direction

WORLD = make_world(users=400, items=150, interactions=9_000, seed=0).log
BACKBONES = {"mf": lambda: MF(dim=16), "lightgcn": lambda: LightGCN(dim=16, layers=2), "neumf": lambda: NeuMF(dim=16)}
METHODS = {"normal": Normal, "icpe": ICPE}


def own_histories(log, users):
    return [log.item[log.user == user] for user in users]


def overlap(one, other):
    return np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(one.tolist(), other.tolist(), strict=True)])


@pytest.fixture(scope="module")
def trained():
    known = {}

    def train(name, method):
        if (name, method) not in known:
            known[name, method] = METHODS[method](BACKBONES[name](), beta=0.1).fit(
                WORLD, epochs={"mf": 25, "lightgcn": 12, "neumf": 40}[name], lr=0.01, batch_size=512
            )
        return known[name, method]

    return train


@pytest.mark.parametrize(("name", "least"), [("mf", 0.75), ("lightgcn", 0.8), ("neumf", 0.6)])
@pytest.mark.parametrize("method", METHODS)
def test_the_history_of_a_known_user_gives_nearly_their_list(trained, name, method, least):
    ranker = trained(name, method).ranker
    users = np.arange(0, len(WORLD.users), 7, dtype=np.int32)
    known = ranker.top(users, 20)
    found = overlap(known.items, ranker.fold_in(own_histories(WORLD, users), 20).items)
    others = overlap(known.items, np.roll(known.items, 1, axis=0))
    assert found >= least
    assert found >= others + 0.2, "it is their own list, not everybody's"


def test_linear_representations_are_found_exactly():
    """If vectors of users are a linear function of their histories, the map finds it and no step leads away."""
    log = skewed_log(users=300, items=60, pairs=3000)
    method = Normal(MF(dim=5, init_std=0.5))
    method.build(log, stream(0, "test"))
    items = method.backbone.item_table.detach()
    means = torch.stack(
        [items[torch.from_numpy(own.astype(np.int64))].mean(0) for own in own_histories(log, range(len(log.users)))]
    )
    method.backbone.user_table.data = means @ torch.randn(5, 5, generator=torch.Generator().manual_seed(0)) + 0.3
    model = Model(method, log)
    users = np.arange(20, dtype=np.int32)
    found, expected = model.ranker.fold_in(own_histories(log, users), 20), model.ranker.top(users, 20)
    assert overlap(found.items, expected.items) > 0.97
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("name", BACKBONES)
def test_the_dial_adds_the_same_as_for_known_users(trained, name):
    model = trained(name, "icpe")
    histories, count = own_histories(WORLD, [3, 8]), len(WORLD.items)
    plain, dialled = (model.ranker.fold_in(histories, count, beta=beta, hide_seen=False) for beta in (0.0, 1.7))
    added = item_bias(dial_direction(model.method, WORLD), 1.7)
    for row in range(2):
        one, two = np.empty(count), np.empty(count)
        one[plain.items[row]], two[dialled.items[row]] = plain.scores[row], dialled.scores[row]
        np.testing.assert_allclose(two - one, added, atol=1e-5)
    own = model.ranker.fold_in(histories, 9)
    assert own.items.tolist() == model.ranker.fold_in(histories, 9, beta=model.beta).items.tolist()
    assert own.items.tolist() == model.adjusted(beta=0.1).ranker.fold_in(histories, 9).items.tolist()


@pytest.mark.parametrize("name", BACKBONES)
def test_several_histories_are_folded_in_one_by_one(trained, name):
    model = trained(name, "normal")
    ids = [WORLD.items.gather(own).to_list() for own in own_histories(WORLD, [3, 8, 21])]
    alone = [model.fold_in(one, n=6) for one in ids]
    together = model.fold_in(ids, n=6)
    assert together.columns == ["user_id", "item_id", "score", "rank"]
    assert together["user_id"].to_list() == [0] * 6 + [1] * 6 + [2] * 6
    assert together.drop("user_id").equals(pl.concat(alone))
    named = model.fold_in({"ann": ids[0], "bob": ids[2]}, n=6)
    assert named["user_id"].to_list() == ["ann"] * 6 + ["bob"] * 6
    assert named.drop("user_id").equals(pl.concat([alone[0], alone[2]]))
    assert model.fold_in(pl.Series(ids), n=6).equals(together)
    assert model.fold_in({}, n=6).is_empty()


@pytest.mark.parametrize("name", BACKBONES)
def test_only_and_excluded_items(trained, name):
    model = trained(name, "normal")
    history = WORLD.items[[1, 4, 9]].to_list()
    whole = model.fold_in(history, n=500)["item_id"].to_list()
    some = WORLD.items[3:40].to_list()
    assert model.fold_in(history, n=500, items=some)["item_id"].to_list() == [one for one in whole if one in some]
    unknown = "no such item" if WORLD.items.dtype == pl.String else 10**9
    without = model.fold_in(history, n=500, exclude=[*some, unknown])
    assert without["item_id"].to_list() == [one for one in whole if one not in some]


def test_wrong_histories(trained):
    model = trained("mf", "normal")
    good = WORLD.items[[1, 4]].to_list()
    with pytest.raises(DataError, match="history 1 is empty; fold_in needs at least one item"):
        model.fold_in([good, []])
    with pytest.raises(DataError, match="is not in the training data"):
        model.fold_in([good, ["no such item"]])


def test_unknown_codes_in_a_history_are_ignored(trained):
    ranker = trained("mf", "normal").ranker
    plain, mixed = (ranker.fold_in([np.array(one)], 5) for one in ([3, 7], [-1, 7, 3, 3]))
    assert plain.items.tolist() == mixed.items.tolist()
    with pytest.raises(DataError, match="the history is empty"):
        ranker.fold_in([np.array([-1])])


def test_a_user_who_has_used_everything():
    log = skewed_log(users=20, items=6, pairs=60)
    model = Normal(MF(dim=3)).fit(log, epochs=2)
    assert len(model.fold_in(log.items)) == 0
    assert len(model.fold_in(log.items, hide_seen=False)) == len(log.items)


def test_users_without_pairs_are_no_model_for_others():
    """A part of a split can have users without pairs, whose vectors are random."""
    log = skewed_log(users=60, items=30, pairs=600)
    lonely = log.keep(log.user >= 10)
    model = Normal(MF(dim=4)).fit(lonely, epochs=3)
    assert isinstance(model.log, Interactions)
    assert model.fold_in(log.items[:3])["score"].is_finite().all()
