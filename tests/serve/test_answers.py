"""Every request gives the lists of the model itself."""

import numpy as np
import pytest

from icpe.data.popularity import head_mask
from icpe.serve.schema import BatchAnswer, ModelsAnswer, RecommendAnswer, SimilarAnswer


def check(answer, frame, model, beta=None):
    """The answer has the items, scores and ranks of the frame, and the marks of the log."""
    head = dict(zip(model.log.items, head_mask(model.log.item_counts), strict=True))
    assert [item["item_id"] for item in answer["items"]] == frame["item_id"].to_list()
    assert [item["rank"] for item in answer["items"]] == frame["rank"].to_list()
    np.testing.assert_allclose([item["score"] for item in answer["items"]], frame["score"], rtol=1e-6)
    assert [item["head"] for item in answer["items"]] == [head[item] for item in frame["item_id"]]
    assert answer["beta"] == (model.beta if beta is None else beta)


@pytest.mark.parametrize("name", ["main", "texts"])
@pytest.mark.parametrize(
    ("sent", "given"),
    [
        ({}, {}),
        ({"n": 5}, {"n": 5}),
        ({"n": 1000}, {"n": 1000}),
        ({"hide_seen": False}, {"hide_seen": False}),
        ({"beta": -0.5, "n": 7}, {"n": 7}),
        ({"beta": 0}, {}),
    ],
)
def test_lists_of_users(serve, models, name, sent, given):
    client, model = serve(name), models[name]
    dialled = model.dial(beta=float(sent["beta"])) if "beta" in sent else model
    for user in model.log.users[:10]:
        answer = client.post("/v1/recommend", json={"user_id": user, **sent}).json()
        check(
            RecommendAnswer.model_validate(answer).model_dump(),
            dialled.recommend([user], **given),
            model,
            sent.get("beta"),
        )
        assert answer["model"] == name
        assert answer["basis"] == "user"


def test_allowed_and_denied_items(serve, models):
    client, model = serve(), models["main"]
    user, items = model.log.users[3], model.log.items.to_list()
    some, out = items[5:25], items[10:15]
    answer = client.post("/v1/recommend", json={"user_id": user, "allow": some, "deny": out}).json()
    check(answer, model.recommend([user], items=some, exclude=out), model)
    answer = client.post("/v1/recommend", json={"user_id": user, "deny": [*out, 10**6, 10**6 + 1]}).json()
    check(answer, model.recommend([user], exclude=out), model)
    assert answer["ignored"] == 2
    assert client.post("/v1/recommend", json={"user_id": user, "allow": []}).json()["items"] == []


@pytest.mark.parametrize("sent", [{}, {"hide_seen": False}, {"n": 3, "beta": -1.0}])
def test_new_users(serve, models, sent):
    client, model = serve(), models["main"]
    history = model.log.items[2:6].to_list()
    answer = client.post("/v1/recommend", json={"history": history, **sent}).json()
    dialled = model.dial(beta=sent["beta"]) if "beta" in sent else model
    given = {name: value for name, value in sent.items() if name != "beta"}
    check(answer, dialled.fold_in(history, **given), model, sent.get("beta"))
    assert answer["basis"] == "history"
    more = client.post("/v1/recommend", json={"history": [*history, 10**6], "user_id": 3, **sent}).json()
    assert more["items"] == answer["items"]
    assert more["ignored"] == 1


def test_unknown_users(serve, models):
    client, model = serve(), models["main"]
    refused = client.post("/v1/recommend", json={"user_id": 10**6})
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "unknown_user"
    assert "popular" in refused.json()["error"]["message"]
    for whose in ({"user_id": 10**6}, {"history": [10**6]}):
        answer = client.post("/v1/recommend", json={**whose, "unknown": "popular", "n": 6, "deny": [0]}).json()
        check(answer, model.recommend([10**6], 6, unknown="popular", exclude=[0]), model)
        assert answer["basis"] == "popular"
    assert client.post("/v1/recommend", json={"history": [10**6]}).json()["error"]["code"] == "unknown_history"


def test_batches_equal_single_requests(serve, models):
    client = serve()
    users = models["main"].log.users.to_list()
    requests = [
        {"user_id": users[0]},
        {"user_id": users[1], "beta": -0.3},
        {"user_id": users[0], "n": 3},
        {"user_id": users[2], "model": "other"},
        {"user_id": users[1]},
        {"history": [1, 2]},
        {"history": [3], "unknown": "popular"},
        {"user_id": 10**6, "unknown": "popular"},
        {"user_id": users[0]},
    ]
    answers = client.post("/v1/recommend:batch", json={"requests": requests}).json()
    BatchAnswer.model_validate(answers)
    assert answers["answers"] == [client.post("/v1/recommend", json=one).json() for one in requests]


def test_a_wrong_request_in_a_batch_leaves_the_others(serve, models):
    client = serve()
    requests = [
        {"user_id": 10**6},
        {"user_id": 3},
        {"user_id": 3, "model": "x"},
        {"user_id": "3"},
        {"user_id": 3, "allow": ["a"]},
    ]
    answers = client.post("/v1/recommend:batch", json={"requests": requests}).json()["answers"]
    assert answers[1] == client.post("/v1/recommend", json={"user_id": 3}).json()
    codes = [one["error"]["code"] for one in (answers[0], *answers[2:])]
    assert codes == ["unknown_user", "unknown_model", "wrong_id_type", "wrong_id_type"]


@pytest.mark.parametrize("name", ["main", "texts"])
def test_similar_items(serve, models, name):
    client, model = serve(name), models[name]
    for item in model.log.items[:5]:
        answer = client.post("/v1/similar", json={"item_id": item, "n": 4}).json()
        SimilarAnswer.model_validate(answer)
        expected = model.similar_items([item], 4)
        assert [one["item_id"] for one in answer["items"]] == expected["similar_item_id"].to_list()
        np.testing.assert_allclose([one["score"] for one in answer["items"]], expected["score"], rtol=1e-5)
    refused = client.post("/v1/similar", json={"item_id": 10**6 if name == "main" else "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_item")


def test_models(serve, models):
    listed = serve(shares={"other": 0.25}).get("/v1/models").json()
    ModelsAnswer.model_validate(listed)
    first, second = listed["models"]
    assert (first["name"], first["default"], first["share"], first["method"]) == ("main", True, 0.75, "ICPE")
    assert (second["name"], second["default"], second["share"], second["method"]) == ("other", False, 0.25, "Normal")
    assert first["users"] == len(models["main"].log.users)
    assert first["version"] != second["version"]


def test_shares_depend_on_the_user_alone(serve, models):
    users = models["main"].log.users.to_list()
    client, again = serve(shares={"other": 0.3}), serve(shares={"other": 0.3})
    chosen = [client.post("/v1/recommend", json={"user_id": user}).json()["model"] for user in users]
    assert chosen == [again.post("/v1/recommend", json={"user_id": user, "n": 1}).json()["model"] for user in users]
    assert 0.15 < chosen.count("other") / len(users) < 0.45
    all_users = serve(shares={"other": 1.0})
    assert {all_users.post("/v1/recommend", json={"user_id": user}).json()["model"] for user in users} == {"other"}
    new = client.post("/v1/recommend", json={"history": [1]}).json()
    assert new["model"] == "main"
    lucky = users[chosen.index("other")]
    assert client.post("/v1/recommend", json={"history": [1], "user_id": lucky}).json()["model"] == "other"
    assert client.post("/v1/recommend", json={"user_id": lucky, "model": "main"}).json()["model"] == "main"


def test_more_users_move_with_a_larger_share(serve, models):
    """Users who have a model keep it when its share grows."""
    users = models["main"].log.users.to_list()
    found = []
    for share in (0.2, 0.5):
        client = serve(shares={"other": share})
        found.append(
            {user for user in users if client.post("/v1/recommend", json={"user_id": user}).json()["model"] == "other"}
        )
    assert found[0] < found[1]
