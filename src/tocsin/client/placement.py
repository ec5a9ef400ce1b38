"""Asking the coordinator for a broker."""

from __future__ import annotations

import ssl
from functools import cache

import httpx
import msgspec

from tocsin.client.refusal import refusal
from tocsin.errors import SystemTrouble, Unreachable
from tocsin.wire.reports import Placement, Request

TIMEOUT = httpx.Timeout(5.0)


@cache
def _trust() -> ssl.SSLContext:
    """Made once: reading all certificates takes longer than the request."""
    return ssl.create_default_context()


async def request_broker(coordinator: str, request: Request) -> Placement:
    """Raises UserError if trying again is of no use."""
    try:
        secure = coordinator.startswith("https:")
        async with httpx.AsyncClient(timeout=TIMEOUT, verify=_trust() if secure else False) as client:
            answer = await client.post(
                f"{coordinator}/requestbroker",
                content=msgspec.json.encode(request),
                headers={"content-type": "application/json"},
            )
    except httpx.TransportError as error:
        raise Unreachable(f"no coordinator answers at {coordinator}: {str(error) or type(error).__name__}") from error
    if not answer.is_success:
        raise refusal(answer, f"the request for a broker at {coordinator}")
    try:
        return msgspec.json.decode(answer.content, type=Placement)
    except msgspec.DecodeError as error:
        raise SystemTrouble(f"{coordinator} does not answer like a coordinator") from error
