"""Handles one request of a server: errors become answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tocsin.http.requests import Disconnected
from tocsin.http.responses import error_answer
from tocsin.http.server import BrokeOff, Sent

log = logging.getLogger("tocsin.server")


async def handle(
    inner: Any, scope: Any, receive: Any, send: Any, refusal: Callable[[Exception, str], Response] = error_answer
) -> int:
    """Runs the ASGI application ``inner``; ``refusal`` turns its errors into answers.

    Returns the status that was sent, 0 if the client disconnected before.
    """
    sent = Sent(send)
    where = f"{scope['method']} {scope['path']}"
    try:
        await inner(scope, receive, sent)
    except (Disconnected, ClientDisconnect):
        return 0
    except Exception as error:
        if sent.status:
            # The status was sent: closing the connection is the only way left to report the error.
            log.error("%s broke off", where, exc_info=error)
            raise BrokeOff(where) from error
        await refusal(error, where)(scope, receive, sent)
    return sent.status
