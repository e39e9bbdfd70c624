"""Odd requests made from the OpenAPI description: nothing but documented answers, never a failure of the service."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from icpe.serve.app import create_app
from icpe.serve.service import Service
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf

POSTED = ["/v1/recommend", "/v1/recommend:batch", "/v1/similar", "/admin/reload"]
GOT = [
    *("/v1/models", "/health/live", "/health/ready", "/metrics"),
    *(f"/page/{name}" for name in ("users", "another", "user", "list", "front", "exposure")),
]
OPERATIONS = [*(("POST", path) for path in POSTED), *(("GET", path) for path in GOT)]
FIXED = {"/v1/models", "/health/live", "/health/ready", "/metrics", "/page/exposure"}  # nothing can be sent wrongly
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def described(folders):
    service_settings = ServeSettings(folders={"texts": folders["texts"], "main": folders["main"]})
    app = create_app(Service(service_settings, Shelf.load(service_settings)))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_all_requests_are_described(described):
    found = {(method.upper(), path) for path, one in described.raw_schema["paths"].items() for method in one}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((*operation, schemathesis.GenerationMode.POSITIVE) for operation in OPERATIONS),
        *((*operation, schemathesis.GenerationMode.NEGATIVE) for operation in OPERATIONS if operation[1] not in FIXED),
    ],
)
def test_odd_requests(described, method, path, mode):
    answered = []

    @settings(
        max_examples=12,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(described[path][method].as_strategy(generation_mode=mode))
    def send(case):
        response = case.call()
        case.validate_response(response, checks=CHECKS)
        answered.append(response.status_code)
        if response.status_code >= 400:
            assert set(response.json()) == {"error"}
            assert "Traceback" not in response.text

    send()
    assert answered
    assert max(answered) < 500
