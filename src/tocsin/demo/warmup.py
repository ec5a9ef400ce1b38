"""A warm-up: one report at a place where no person is, through every channel, before there are real ones.

Spark loads and compiles what a plan needs when it first runs it; for a join with the nearest shelters that takes
seconds. After the warm-up the channels are as quick as they will ever be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tocsin.client import connect
from tocsin.errors import SystemFailure

USER, KIND, PLACE = "warm-up-0001", "warm-up", "Warm-up"
#: Far from every city.
LAT, LON = -60.0, -140.0
#: Seconds between two reports: one that comes before the subscriptions are in place would be missed.
AGAIN = 2.0
TIMEOUT = 180.0


async def warm_up(coordinator: str, channels: Mapping[str, Sequence[str]]) -> None:
    """Returns when each channel has delivered a notification."""
    values = {"kind": KIND, "location": PLACE, "user": USER}
    async with connect(coordinator=coordinator, wait_for_broker=True) as client:
        made = [client.subscribe(name, {each: values[each] for each in names}) for name, names in channels.items()]
        waiting = [asyncio.create_task(each.get()) for each in made]
        where = {"lat": LAT, "lon": LON, "time": datetime.now(UTC).isoformat()}
        await client.publish("UserLocationFeed", {"user_id": USER, **where}, retry=True)
        report = {"report_id": "warm-up", "kind": KIND, "location": PLACE, "severity": 1, "message": "A test.", **where}
        try:
            async with asyncio.timeout(TIMEOUT):
                while not all(task.done() for task in waiting):
                    await client.publish("EmergencyReportFeed", report, retry=True)
                    await asyncio.wait(waiting, timeout=AGAIN)
        except TimeoutError:
            late = [each.channel for each, task in zip(made, waiting, strict=True) if not task.done()]
            raise SystemFailure(f"{', '.join(late)} delivered nothing within {TIMEOUT:g} s") from None
        finally:
            for task in waiting:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        await client.drain()
