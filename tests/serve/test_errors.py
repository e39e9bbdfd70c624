"""Bad requests get a 4xx that says what to send; keys and limits hold."""

import pytest

from icpe.errors import ConfigError
from icpe.serve.guard import check_key


@pytest.mark.parametrize(
    ("sent", "fields", "part"),
    [
        ({}, [], "send user_id, or history"),
        ({"user_id": 3.5}, ["user_id"], "a valid integer or a valid string"),
        ({"user_id": "u3"}, ["user_id"], "user ids are integers here, such as 0"),
        ({"user_id": True}, ["user_id"], "valid integer"),
        ({"user_id": 2**70}, ["user_id"], "less than or equal"),
        ({"user_id": 3, "n": 0}, ["n"], "greater than or equal to 1"),
        ({"user_id": 3, "n": 1001}, ["n"], "less than or equal to 1000"),
        ({"user_id": 3, "n": "5"}, ["n"], "valid integer"),
        ({"user_id": 3, "beta": 1e9}, ["beta"], "less than or equal to 1000000"),
        ({"user_id": 3, "beta": "1"}, ["beta"], "valid number"),
        ({"user_id": 3, "deny": [1, "a"]}, ["deny"], "item ids are integers here"),
        ({"user_id": 3, "deny": [0] * 10_001}, ["deny"], "at most 10000"),
        ({"history": []}, ["history"], "at least 1"),
        ({"history": [0] * 1_001}, ["history"], "at most 1000"),
        ({"user_id": 3, "unknown": "raise"}, ["unknown"], "'error' or 'popular'"),
        ({"user_id": 3, "colour": 1}, ["colour"], "Extra inputs are not permitted"),
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
    many = serve().post("/v1/recommend:batch", json={"requests": [{"user_id": 1}] * 257})
    assert "at most 256" in many.json()["error"]["message"]


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
