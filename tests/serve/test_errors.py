"""Bad requests get a 4xx that says what to send; keys and limits hold."""

import pytest

from icpe.errors import ConfigError
from icpe.serve.guard import check_key


@pytest.mark.parametrize(
    ("sent", "fields", "part"),
    [
        ({}, [], "send user_id, or history"),
        (
            {"user_id": 3.5},
            ["user_id"],
            "user_id is 3.5; expected an id: a whole number, or a text of at most 512 characters",
        ),
        ({"user_id": "u3"}, ["user_id"], "user ids are integers here, such as 0"),
        ({"user_id": True}, ["user_id"], "user_id is true; expected an id"),
        ({"user_id": 2**70}, ["user_id"], f"user_id is {2**70}; expected an id"),
        ({"user_id": 10**4000}, ["user_id"], "user_id cannot be used; expected an id"),
        ({"user_id": "x" * 600}, ["user_id"], "xxx… (202 characters); expected an id"),
        ({"user_id": 3, "n": 0}, ["n"], "n is 0; expected a whole number from 1 to 1,000"),
        ({"user_id": 3, "n": 1001}, ["n"], "n is 1001; expected a whole number from 1 to 1,000"),
        ({"user_id": 3, "n": "5"}, ["n"], "n is '5'; expected a whole number from 1 to 1,000"),
        ({"user_id": 3, "n": None}, ["n"], "n is null; expected a whole number"),
        ({"user_id": 3, "beta": 1e9}, ["beta"], "expected a finite number from -1,000,000 to 1,000,000"),
        ({"user_id": 3, "beta": "1"}, ["beta"], "beta is '1'; expected a finite number"),
        ({"user_id": 3, "hide_seen": {}}, ["hide_seen"], "hide_seen is an object; expected true or false"),
        ({"user_id": 3, "deny": [1, "a"]}, ["deny"], "item ids are integers here"),
        (
            {"user_id": 3, "deny": [0] * 10_001},
            ["deny"],
            "deny is a list of 10,001; expected a list of at most 10,000 ids",
        ),
        ({"history": []}, ["history"], "history is a list of 0; expected a list of 1 to 1,000 ids"),
        ({"history": [1, 2.5]}, ["history.1"], "history.1 is 2.5; expected history to be a list of 1 to 1,000 ids"),
        ({"history": [0] * 1_001}, ["history"], "history is a list of 1,001; expected a list of 1 to 1,000 ids"),
        ({"user_id": 3, "unknown": "raise"}, ["unknown"], "unknown is 'raise'; expected 'error' or 'popular'"),
        (
            {"user_id": 3, "colour": 1},
            ["colour"],
            "unknown field 'colour'; known fields are user_id, history, n, beta, ",
        ),
        ({"user_id": 3, "a colour": 1}, [], "unknown field 'a colour'; known fields are user_id, history, n, beta, "),
        ({"user_id": 3, "x" * 999: 1}, ["x" * 999], "xxx… (999 characters)'; known fields are"),
        ([], [], "should be a JSON object"),
        ("text", [], "should be a JSON object"),
    ],
)
def test_wrong_values_are_named(serve, sent, fields, part):
    response = serve().post("/v1/recommend", json=sent)
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["fields"] == fields
    assert part in error["message"]


@pytest.mark.parametrize(
    ("content", "kind", "part"),
    [
        (b'{"user_id": 3', "application/json", "not valid JSON"),
        (b'{"user_id": 3, "beta": NaN}', "application/json", "finite number"),
        (b'{"user_id": 3, "beta": 1e999}', "application/json", "finite number"),
        (b'{"user_id": "\\ud800"}', "application/json", ""),
        (b'{"user_id": 3}', "text/plain", "Content-Type: application/json"),
        (b"", "application/json", "should be a JSON object"),
        (b"\xff\xfe", "application/json", ""),
        (b"[" * 100_000, "application/json", ""),
    ],
)
def test_broken_bodies(serve, content, kind, part):
    response = serve("main").post("/v1/recommend", content=content, headers={"Content-Type": kind})
    assert 400 <= response.status_code < 500
    assert part in response.json()["error"]["message"]


def test_paths_in_a_batch(serve):
    response = serve().post("/v1/recommend:batch", json={"requests": [{"user_id": 1}, {"user_id": 1, "n": 0}]})
    assert response.json()["error"]["fields"] == ["requests.1.n"]
    assert response.json()["error"]["message"] == "requests.1.n is 0; expected a whole number from 1 to 1,000"
    odd = serve().post("/v1/recommend:batch", json={"requests": [{"user_id": 1, "foo": 2}], "bar": 1})
    assert odd.json()["error"]["fields"] == ["requests.0.foo", "bar"]
    message = odd.json()["error"]["message"]
    assert "unknown field 'requests.0.foo'; known fields are user_id, history" in message
    assert message.endswith("unknown field 'bar'; known fields are requests")
    many = serve().post("/v1/recommend:batch", json={"requests": [{"user_id": 1}] * 257})
    assert "requests is a list of 257; expected a list of 1 to 256 objects" in many.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/recommend", 405, "method_not_allowed"),
        ("GET", "/page/user?id=u3", 422, "wrong_id_type"),
        ("GET", "/page/list?id=99999999999999999999999", 422, "wrong_id_type"),
        ("GET", "/page/list?id=3&beta=nan", 422, "invalid_request"),
        ("GET", "/page/user?id=1000000", 404, "unknown_user"),
        ("GET", "/page/front?model=x", 404, "unknown_model"),
        ("GET", f"/page/users?prefix={'a' * 513}", 422, "invalid_request"),
    ],
)
def test_other_mistakes(serve, method, path, status, code):
    response = serve().request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in pieces"])
def test_large_bodies_are_refused(serve, announced):
    whole = b'{"user_id": 3, "deny": [' + b" " * 2**21 + b"]}"

    async def pieces():
        for piece in (whole[: 2**20], whole[2**20 :]):
            yield piece

    content = whole if announced else pieces()
    response = serve().post("/v1/recommend", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"


PROTECTED = ["/v1/models", "/page/exposure", "/page/users", "/page/front"]
OPEN = ["/", "/docs", "/health/live", "/health/ready", "/metrics", "/openapi.json", "/static/page.js"]


def test_the_key_protects_everything_that_tells_of_users(serve):
    client = serve(key="open sesame")
    for path in PROTECTED:
        for wrong in (
            {},
            {"X-API-Key": ""},
            {"X-API-Key": "open"},
            {"X-API-Key": "open sesame!"},
            {"X-API-Key": "öpen".encode()},
        ):
            refused = client.get(path, headers=wrong)
            assert refused.status_code == 401
            assert "X-API-Key" in refused.json()["error"]["message"]
        assert client.get(path, headers={"X-API-Key": "open sesame"}).status_code == 200
    for path in ("/v1/recommend", "/v1/recommend:batch", "/v1/similar", "/admin/reload"):
        assert client.post(path, json={"user_id": 3}).status_code == 401
    for path in OPEN:
        assert client.get(path).status_code == 200
    described = client.get("/openapi.json").json()
    assert {path for path in described["paths"] if path.startswith(("/v1/", "/page/", "/admin/"))} | set(OPEN) >= set(
        described["paths"]
    )


@pytest.mark.parametrize("key", ["", " ", "ключ", "a\n", "a "])
def test_keys_that_no_header_can_carry(key):
    with pytest.raises(ConfigError, match="ICPE_API_KEY"):
        check_key(key)
