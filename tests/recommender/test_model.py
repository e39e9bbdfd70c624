"""Recommendations, scores and vectors of a trained model."""

import re

import numpy as np
import polars as pl
import pytest

from icpe import MF, ConfigError, DataError, Interactions, LightGCN, NeuMF, Normal, make_world, split
from icpe.recommender import evaluate
from icpe.testing import skewed_log

BACKBONES = {
    "mf": lambda: MF(dim=6),
    "neumf": lambda: NeuMF(dim=6, layers=(8, 4)),
    "lightgcn": lambda: LightGCN(dim=6, layers=2),
}
SMALL = skewed_log(users=40, items=30, pairs=400)


def with_text_ids(log):
    """Return a log of the same pairs with names as ids. Sorted by name, they have other codes."""
    user, item = (
        pl.format(pattern, pl.col(name)) for pattern, name in (("user {}", "user_id"), ("käse-{}", "item_id"))
    )
    return Interactions.read(log.to_frame().select(user.alias("user_id"), item.alias("item_id")))


@pytest.fixture(scope="module")
def models():
    return {name: Normal(make()).fit(SMALL, epochs=15, lr=0.02, batch_size=64) for name, make in BACKBONES.items()}


@pytest.fixture(scope="module")
def model(models):
    return models["mf"]


@pytest.fixture(scope="module")
def texts():
    return Normal(MF(dim=6)).fit(with_text_ids(SMALL), epochs=15, lr=0.02, batch_size=64)


def seen(log):
    return set(log.to_frame().select("user_id", "item_id").rows())


def full_scores(model):
    users, items = len(model.log.users), len(model.log.items)
    return model.scores.block(np.arange(users, dtype=np.int32), 0, items)


@pytest.mark.parametrize("which", ["mf", "neumf", "lightgcn", "texts"])
@pytest.mark.parametrize("hide_seen", [True, False])
def test_lists_are_the_best_unseen_items(models, texts, which, hide_seen):
    model = texts if which == "texts" else models[which]
    asked = [model.log.users[code] for code in (17, 3, 30)]
    lists = model.recommend(asked, n=7, hide_seen=hide_seen)
    assert lists.columns == ["user_id", "item_id", "score", "rank"]
    assert lists.dtypes == [model.log.users.dtype, model.log.items.dtype, pl.Float32, pl.Int32]
    assert lists["user_id"].unique(maintain_order=True).to_list() == asked
    table, known = full_scores(model), seen(model.log)
    for user in asked:
        mine = lists.filter(pl.col("user_id") == user)
        assert mine["rank"].to_list() == [1, 2, 3, 4, 5, 6, 7]
        scores = table[model.log.users.index_of(user)].copy()
        if hide_seen:
            scores[[(user, item) in known for item in model.log.items]] = -np.inf
        best = np.argsort(-scores, kind="stable")[:7]
        assert mine["item_id"].to_list() == [model.log.items[int(code)] for code in best]
        np.testing.assert_allclose(mine["score"], scores[best], rtol=1e-5, atol=1e-6)
    assert hide_seen == (not known & set(lists.select("user_id", "item_id").rows()))


def test_all_users(model):
    lists = model.recommend(n=3)
    assert lists["user_id"].unique(maintain_order=True).to_list() == model.log.users.to_list()
    assert len(lists) == 3 * len(model.log.users)
    assert pl.concat(model.stream(n=3)).equals(lists)


@pytest.mark.parametrize("name", BACKBONES)
def test_together_or_one_by_one(models, name):
    model = models[name]
    together = model.recommend(n=5)
    single = pl.concat([model.recommend([user], n=5) for user in model.log.users])
    assert single.drop("score").equals(together.drop("score"))
    np.testing.assert_allclose(single["score"], together["score"], rtol=1e-5, atol=1e-6)


def test_users_twice_or_none(model):
    twice = model.recommend([5, 5], n=2)
    assert twice.head(2).equals(twice.tail(2))
    none = model.recommend([], n=2)
    assert (none.columns, len(none)) == (["user_id", "item_id", "score", "rank"], 0)
    assert none.dtypes == twice.dtypes


def test_lists_longer_than_the_unseen_items(model):
    items = len(model.log.items)
    lists = model.recommend(n=500)
    left = items - model.log.user_counts
    assert lists.group_by("user_id", maintain_order=True).len()["len"].to_list() == left.tolist()
    assert lists["score"].is_finite().all()
    assert len(model.recommend([3], n=500, hide_seen=False)) == items


def test_allowed_and_excluded_items(model):
    whole = model.recommend([3, 9], n=500)
    some = model.log.items[5:15].to_list()
    allowed = model.recommend([3, 9], n=500, items=some)
    expected = whole.filter(pl.col("item_id").is_in(some))
    assert allowed["item_id"].to_list() == expected["item_id"].to_list()
    assert allowed.filter(pl.col("user_id") == 9)["rank"].to_list() == list(
        range(1, 1 + len(allowed.filter(pl.col("user_id") == 9)))
    )
    without = model.recommend([3, 9], n=500, exclude=some)
    assert without["item_id"].to_list() == whole.filter(~pl.col("item_id").is_in(some))["item_id"].to_list()
    both = model.recommend([3], n=500, items=some, exclude=some[:9], hide_seen=False)
    assert both["item_id"].to_list() == some[9:]
    assert len(model.recommend([3], items=[])) == 0
    assert len(model.recommend([3], items=some, exclude=some)) == 0


def test_unknown_users(model):
    asked = [3, 9999, 5, -1]
    with pytest.raises(DataError, match=re.escape("user 9999 is not in the training data (and 1 more)")):
        model.recommend(asked)
    with pytest.warns(UserWarning, match="user 9999 is not in the training data \\(and 1 more\\); left out"):
        warned = model.recommend(asked, n=4, unknown="warn")
    ignored = model.recommend(asked, n=4, unknown="ignore")
    assert warned.equals(ignored)
    assert ignored.equals(model.recommend([3, 5], n=4))
    popular = model.recommend(asked, n=4, unknown="popular")
    assert popular.head(8).equals(ignored)
    counts = model.log.item_counts
    best = np.argsort(-counts, kind="stable")[:4]
    for user in (9999, -1):
        mine = popular.filter(pl.col("user_id") == user)
        assert mine["item_id"].to_list() == [model.log.items[int(code)] for code in best]
        assert mine["score"].to_list() == counts[best].tolist()
        assert mine["rank"].to_list() == [1, 2, 3, 4]
    few = model.recommend([9999], n=4, unknown="popular", items=model.log.items[20:22], exclude=model.log.items[20:21])
    assert few["item_id"].to_list() == model.log.items[21:22].to_list()
    assert len(model.recommend([9999], unknown="ignore")) == 0
    with pytest.raises(ConfigError, match="unknown is 'guess'; expected one of raise, warn, ignore, popular"):
        model.recommend([3], unknown="guess")


WHOLE = "user ids are integers here, such as 0"
TEXT = "user ids are text here, such as 'user 0'"


@pytest.mark.parametrize(
    ("which", "ids", "hint"),
    [
        ("int", ["3"], WHOLE),
        ("int", [3.0], WHOLE),
        ("int", [True], WHOLE),
        ("int", [3, "4"], WHOLE),
        ("int", [2**70], WHOLE),
        ("int", np.array([1.5]), WHOLE),
        ("int", np.array(["3"]), WHOLE),
        ("int", pl.Series(["3"]), WHOLE),
        ("int", pl.Series([1.5]), WHOLE),
        ("int", [[3]], WHOLE),
        ("int", "3", "expected a list of ids. User ids are integers"),
        ("int", 3, "expected a list of ids. User ids are integers"),
        ("int", {3}, "expected a list of ids. User ids are integers"),
        ("int", [None], "a user id is missing (null)"),
        ("int", [3, None], "a user id is missing (null)"),
        ("text", [3], TEXT),
        ("text", np.array([3]), TEXT),
        ("text", pl.Series([3]), TEXT),
        ("text", [b"user 3"], TEXT),
        ("text", ["user 3", 4], TEXT),
        ("text", "user 3", "expected a list of ids. User ids are text"),
        ("text", ["user 3", None], "a user id is missing (null)"),
    ],
    ids=str,
)
def test_ids_of_the_wrong_type(model, texts, which, ids, hint):
    with pytest.raises(DataError, match=re.escape(hint)):
        (model if which == "int" else texts).recommend(ids)


@pytest.mark.parametrize(
    "ids", [(3, 5), np.array([3, 5], np.int16), pl.Series([3, 5], dtype=pl.UInt8), range(3, 6, 2)], ids=str
)
def test_ids_in_any_container(model, ids):
    assert model.recommend(ids, n=2).equals(model.recommend([3, 5], n=2))


def test_text_ids_in_any_container(texts):
    expected = texts.recommend(["user 3", "user 5"], n=2)
    for ids in (np.array(["user 3", "user 5"]), pl.Series(["user 3", "user 5"], dtype=pl.Categorical)):
        assert texts.recommend(ids, n=2).equals(expected)


@pytest.mark.parametrize("ask", [lambda m, ids: m.score([3], ids), lambda m, ids: m.similar_items(ids), lambda m, ids: m.fold_in(ids),
                                 lambda m, ids: m.recommend([3], items=ids)])  # fmt: skip
def test_unknown_items(model, ask):
    with pytest.raises(DataError, match="item 777 is not in the training data"):
        ask(model, [777])
    with pytest.raises(DataError, match="item ids are integers here, such as 0"):
        ask(model, ["7"])


def test_unknown_items_may_be_excluded(model):
    """A list of items that are out of stock always contains some that the model has never seen."""
    known = model.recommend([3], n=1)["item_id"][0]
    assert model.recommend([3], n=5, exclude=[777]).equals(model.recommend([3], n=5))
    assert model.recommend([3], n=5, exclude=[777, known]).equals(model.recommend([3], n=5, exclude=[known]))
    with pytest.raises(DataError, match="item ids are integers here, such as 0"):
        model.recommend([3], exclude=["7"])


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3", None])
def test_wrong_lengths(model, n):
    for ask in (model.recommend, model.similar_items, model.fold_in):
        with pytest.raises(ConfigError, match="expected a whole number from 1 up"):
            ask([3], n=n)


@pytest.mark.parametrize("name", BACKBONES)
def test_scores_of_pairs_are_those_of_lists(models, name):
    model = models[name]
    lists = model.recommend(n=4).sample(fraction=1, shuffle=True, seed=0)
    scores = model.score(lists["user_id"], lists["item_id"])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, lists["score"], rtol=1e-5, atol=1e-6)
    assert model.score([], []).shape == (0,)
    with pytest.raises(ConfigError, match="score takes pairs, but got 2 users and 1 items"):
        model.score([3, 4], [1])


@pytest.mark.parametrize("name", BACKBONES)
def test_similar_items(models, name):
    model = models[name]
    asked = [model.log.items[7], model.log.items[2]]
    similar = model.similar_items(asked, n=5)
    assert similar.columns == ["item_id", "similar_item_id", "score", "rank"]
    assert similar["item_id"].to_list() == [asked[0]] * 5 + [asked[1]] * 5
    assert similar["rank"].to_list() == [1, 2, 3, 4, 5] * 2
    assert not (similar["item_id"] == similar["similar_item_id"]).any()
    _, rows = model.method.backbone.reps()
    rows = rows.detach().double().numpy()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for code, mine in zip((7, 2), similar.partition_by("item_id", maintain_order=True), strict=True):
        cosine = unit @ unit[code]
        cosine[code] = -2
        best = np.argsort(-cosine)[:5]
        assert mine["similar_item_id"].to_list() == [model.log.items[int(one)] for one in best]
        np.testing.assert_allclose(mine["score"], cosine[best], rtol=1e-4, atol=1e-5)
    assert len(model.similar_items(asked[:1], n=500)) == len(model.log.items) - 1


@pytest.mark.parametrize("loss", ["bce", "softmax"])
@pytest.mark.parametrize("name", ["mf", "lightgcn"])
def test_the_inner_product_of_vectors_is_the_score(name, loss):
    count = 8 if loss == "softmax" else 1
    model = Normal(BACKBONES[name](), loss=loss, negatives=count).fit(SMALL, epochs=2)
    users, items = model.vectors()
    assert users["user_id"].equals(model.log.users)
    assert items["item_id"].equals(model.log.items)
    product = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    pairs = seen(SMALL)
    asked = model.score([user for user, _ in pairs], [item for _, item in pairs])
    mine = [product[SMALL.users.index_of(user), SMALL.items.index_of(item)] for user, item in pairs]
    np.testing.assert_allclose(mine, asked, rtol=1e-5, atol=1e-6)


def test_neumf_has_no_such_vectors(models):
    with pytest.raises(
        ConfigError, match="NeuMF has no vectors whose inner product is the score; use score or recommend"
    ):
        models["neumf"].vectors()


@pytest.mark.parametrize("name", BACKBONES)
def test_fold_in_hides_and_ranks(models, name):
    model = models[name]
    history = model.log.items[[1, 4, 9]].to_list()
    lists = model.fold_in(history, n=500)
    assert lists.columns == ["item_id", "score", "rank"]
    assert set(lists["item_id"]) == set(model.log.items) - set(history)
    assert lists["rank"].to_list() == list(range(1, len(lists) + 1))
    assert lists["score"].is_sorted(descending=True)
    assert model.fold_in(history + history[:1], n=500).equals(lists), "an item twice is an item once"
    whole = model.fold_in(history, n=500, hide_seen=False)
    assert len(whole) == len(model.log.items)
    assert whole.filter(~pl.col("item_id").is_in(history))["item_id"].to_list() == lists["item_id"].to_list()
    with pytest.raises(DataError, match="the history is empty"):
        model.fold_in([])


@pytest.mark.parametrize("name", BACKBONES)
def test_fold_in_does_not_change_the_model(models, name):
    model = models[name]
    before = {key: value.clone() for key, value in model.method.state_dict().items()}
    model.fold_in(model.log.items[:3])
    assert all((value == before[key]).all() for key, value in model.method.state_dict().items())
    assert all(parameter.grad is None for parameter in model.method.parameters()), "no gradients pile up in a service"


def test_fold_in_recommends_what_new_users_like():
    """In a world with known tastes, new users get items that they like far more than the most popular items.

    The items they used next would be a poor measure: in that world they follow exposure, which favours popular items.
    """
    world = make_world(users=600, items=200, interactions=12_000)
    log = world.log
    new = np.arange(0, len(log.users), len(log.users) // 15)[:15]
    known = log.keep(~np.isin(log.user, new)).compact()
    model = Normal(MF(dim=16)).fit(known, epochs=20, lr=0.01, batch_size=256)
    truth, code = world.preference(log.users), {item: place for place, item in enumerate(log.items)}
    hits = [known.items[int(place)] for place in np.argsort(-known.item_counts, kind="stable")]
    gains = []
    for user in new:
        history = [item for item in log.items.gather(log.item[log.user == user]) if item in set(known.items)]
        lists = model.fold_in(history, n=10)["item_id"]
        popular = [item for item in hits if item not in history][:10]
        wanted = [np.mean([truth[user, code[item]] for item in items]) for items in (lists, popular)]
        gains.append(wanted[0] - wanted[1])
    # Over worlds and losses the mean gain was 1.1 to 2.4 logits; half a logit is far from chance and from these.
    assert np.mean(gains) > 0.5
    assert np.mean(np.array(gains) > 0) > 0.6


def test_fold_in_of_a_known_history_gives_nearly_that_users_list():
    log = make_world(users=200, items=100, interactions=3000).log
    model = Normal(MF(dim=8)).fit(log, epochs=40, lr=0.01, batch_size=256)
    own, folded, popular = [], [], []
    hits = log.items.gather(np.argsort(-log.item_counts, kind="stable"))
    for user in range(0, 200, 20):
        history = log.items.gather(log.item[log.user == user]).to_list()
        own.append(set(model.recommend(log.users[[user]], n=20)["item_id"]))
        folded.append(set(model.fold_in(history, n=20)["item_id"]))
        popular.append(set(hits.filter(~hits.is_in(history)).head(20)))
    near, far = (
        np.mean([len(one & two) / 20 for one, two in zip(own, other, strict=True)]) for other in (folded, popular)
    )
    assert near > 0.65
    assert near > far + 0.1


def test_evaluate_hides_what_was_known(skewed):
    parts = split.unbiased(skewed, seed=0)
    model = Normal(MF(dim=4)).fit(parts.train, valid=parts.valid, epochs=2)
    found = evaluate(model, parts, n=[5, 20]).values
    users = parts.test.users.gather(np.flatnonzero(parts.test.user_counts))
    lists = model.recommend(users, n=500)
    hidden, held = seen(parts.valid), parts.test.to_frame().select("user_id", "item_id")
    recall = []
    for user in users:
        mine = [item for item in lists.filter(pl.col("user_id") == user)["item_id"] if (user, item) not in hidden][:20]
        wanted = held.filter(pl.col("user_id") == user)["item_id"].to_list()
        recall.append(len(set(mine) & set(wanted)) / len(wanted))
    assert found["recall@20"] == pytest.approx(np.mean(recall))
    assert found["users"] == len(users)
    with pytest.raises(DataError, match="differ from those that the model was trained on"):
        evaluate(model, split.unbiased(skewed_log(seed=1, users=200), seed=0))


def test_repr(model):
    assert repr(model) == "Model(Normal on MF, 40 users, 30 items)"
