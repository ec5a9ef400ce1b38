"""Random requests that fit the OpenAPI document, and some that do not: no internal error, and others are served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from sparkless import sparkless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: What says that the server cannot do it now. 500 is never an answer.
UNAVAILABLE = {503, 507}
EXAMPLES = 60


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sparkless(tmp_path_factory.mktemp("fuzz")) as (_, url):
        yield url


def operations(url: str) -> list[Any]:
    return [each.ok() for each in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations()]


def fuzz(url: str, operation: Any, headers: dict[str, str]) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def call(case: Any) -> None:
        if "wait" in (case.query or {}):
            case.query["wait"] = 0  # a long poll waits, as it should
        answer = case.call(headers=headers, timeout=60)
        assert answer.status_code < 500 or answer.status_code in UNAVAILABLE, answer.text

    call()
    assert httpx.get(f"{url}/healthz", timeout=10, trust_env=False).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer made-up"}], ids=["anonymous", "wrong token"])
def test_no_request_to_the_data_cluster_causes_an_internal_error(cluster_url: str, headers: dict[str, str]) -> None:
    found = operations(cluster_url)
    assert len(found) > 15
    for operation in found:
        fuzz(cluster_url, operation, headers)
