"""A drill: one alarm that concerns nobody, through every channel, before there are real ones.

Spark loads and compiles what a plan needs when it first runs it; for a join with the nearest shelters that takes
seconds. After the drill the channels answer as quickly as they will ever do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tocsin.client import connect
from tocsin.errors import SystemTrouble

USER, KIND, PLACE = "drill-0001", "drill", "Drill"
#: Where nobody is.
LAT, LON = -60.0, -140.0
#: Seconds between two alarms: one that comes before the subscriptions are known would be missed.
AGAIN = 2.0
PATIENCE = 180.0


async def drill(coordinator: str, channels: Mapping[str, Sequence[str]]) -> None:
    """Returns when each channel has told of it."""
    values = {"kind": KIND, "location": PLACE, "user": USER}
    async with connect(coordinator=coordinator, subscriber=USER, wait_for_broker=True) as client:
        asked = [client.subscribe(name, {each: values[each] for each in names}) for name, names in channels.items()]
        waiting = [asyncio.create_task(each.get()) for each in asked]
        now = datetime.now(UTC).isoformat()
        where = {"lat": LAT, "lon": LON, "time": now}
        await client.publish("UserLocationFeed", {"user_id": USER, **where}, retry=True)
        alarm = {"report_id": "drill", "kind": KIND, "location": PLACE, "severity": 1, "message": "A drill.", **where}
        try:
            async with asyncio.timeout(PATIENCE):
                while not all(task.done() for task in waiting):
                    await client.publish("EmergencyReportFeed", alarm, retry=True)
                    await asyncio.wait(waiting, timeout=AGAIN)
        except TimeoutError:
            late = [each.channel for each, task in zip(asked, waiting, strict=True) if not task.done()]
            raise SystemTrouble(f"{', '.join(late)} told nothing within {PATIENCE:g} s") from None
        finally:
            for task in waiting:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        await client.drain()
