"""Requests a broker from the coordinator."""

from __future__ import annotations

import msgspec

from tocsin.client.http_post import post
from tocsin.client.refusal import refusal
from tocsin.errors import SystemFailure, Unreachable
from tocsin.wire.reports import BrokerRequest, Placement

#: Seconds for the answer.
TIMEOUT = 5.0


async def request_broker(coordinator: str, request: BrokerRequest) -> Placement:
    """A UserError is final; the caller may retry after other errors."""
    try:
        status, content = await post(coordinator, "/requestbroker", request, TIMEOUT)
    except OSError as error:
        raise Unreachable(f"no coordinator answers at {coordinator}: {str(error) or type(error).__name__}") from error
    if not 200 <= status < 300:
        raise refusal(status, content, f"the request for a broker at {coordinator}")
    try:
        return msgspec.json.decode(content, type=Placement)
    except msgspec.DecodeError as error:
        raise SystemFailure(f"{coordinator} does not answer like a coordinator") from error
