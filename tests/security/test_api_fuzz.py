"""Random requests that fit the OpenAPI document, and some that do not: no internal error, and others are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from sparkless import Sparkless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: What says that the server cannot do it now. 500 is never an answer.
UNAVAILABLE = {503, 507}
EXAMPLES = 60


def operations(url: str) -> list[Any]:
    return [each.ok() for each in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations()]


def fuzz(url: str, operation: Any, headers: dict[str, str]) -> None:
    if "text/event-stream" in str(operation.definition.raw) or operation.path == "/events":
        return  # a stream ends when its client does

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy())
    def call(case: Any) -> None:
        if "wait" in (case.query or {}):
            case.query["wait"] = 0  # a long poll waits, as it should
        answer = case.call(headers=headers, timeout=60)
        assert answer.status_code < 500 or answer.status_code in UNAVAILABLE, answer.text

    call()
    assert httpx.get(f"{url}/healthz", timeout=10, trust_env=False).status_code == 200


@pytest.fixture
def tokens(data: tuple[Sparkless, str], servers: dict[str, str]) -> dict[str, Callable[[], str]]:
    """By server: an operator's token, or a new one of a user, because a random request may log it out."""
    who = {"user": "fuzz", "password": "correct horse battery"}
    httpx.post(f"{servers['coordinator']}/registeruser", json=who, timeout=60, trust_env=False)

    def log_in() -> str:
        answer = httpx.post(f"{servers['coordinator']}/login", json=who, timeout=60, trust_env=False)
        return str(answer.json()["token"])

    return {"data cluster": lambda: data[0].admin_token, "coordinator": log_in, "broker": log_in}


@pytest.mark.parametrize("who", ["anonymous", "wrong token", "right token"])
@pytest.mark.parametrize("server", ["data cluster", "coordinator", "broker"])
def test_no_request_causes_an_internal_error(
    servers: dict[str, str], tokens: dict[str, Callable[[], str]], server: str, who: str
) -> None:
    found = operations(servers[server])
    assert len(found) > 10
    for operation in found:
        token = tokens[server]() if who == "right token" else "made-up"
        fuzz(servers[server], operation, {} if who == "anonymous" else {"authorization": f"Bearer {token}"})
