"""The Python client: subscribe to channels and publish to feeds through a broker.

    async with connect("http://127.0.0.1:8481") as c:
        async for notification in c.subscribe("EmergenciesOfType", kind="fire"):
            print(notification.results)

``tocsin.client.sync`` has the same API without ``async``.
"""

from __future__ import annotations

from tocsin.client.client import Client, connect
from tocsin.client.notification import Gap, Notification, Receipt, Status
from tocsin.client.subscription import Subscription
from tocsin.errors import ConnectionLost, Forbidden, TocsinError, Unauthorized, Uncertain, Unreachable
from tocsin.wire.position import Position

__all__ = [
    "Client",
    "ConnectionLost",
    "Forbidden",
    "Gap",
    "Notification",
    "Position",
    "Receipt",
    "Status",
    "Subscription",
    "TocsinError",
    "Unauthorized",
    "Uncertain",
    "Unreachable",
    "connect",
]
