"""Odd requests made from the OpenAPI description: nothing but documented answers, never a failure of the service."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from icpe.serve.app import create_app
from icpe.serve.service import Service
from icpe.serve.settings import ServeSettings
from icpe.serve.shelf import Shelf


@pytest.fixture(scope="module")
def described(folders):
    service_settings = ServeSettings(folders={"texts": folders["texts"], "main": folders["main"]})
    app = create_app(Service(service_settings, Shelf.load(service_settings)))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_odd_requests(case):
    response = case.call()
    case.validate_response(response, checks=[not_a_server_error, status_code_conformance, response_schema_conformance])
    assert response.status_code < 500
    if response.status_code >= 400:
        assert set(response.json()) == {"error"}
        assert "Traceback" not in response.text
