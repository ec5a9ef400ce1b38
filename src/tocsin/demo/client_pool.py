"""The clients of a city's people, in a separate process: one SDK client and one WebSocket for each person.

Each logs in and subscribes at the time that its plan says, publishes its location through its broker when the demo
loop says so, and counts its notifications. The loop gets a summary twice a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import uvloop

from tocsin.client import Client, Notification, Subscription, connect
from tocsin.demo import pool_frames
from tocsin.errors import TocsinError
from tocsin.http.server import raise_file_limit

LOCATIONS, REPORTS = "UserLocationFeed", "EmergencyReportFeed"
#: Notifications kept for each person; for each of more people than that.
KEPT, MANY, KEPT_OF_MANY = 50, 1_000, 10
#: Notifications whose decoded results are kept: most reach many people at almost the same time.
SHARED = 2_000
#: Seconds between two summaries to the demo loop.
SUMMARY_PERIOD = 0.5
#: Clients whose broker is checked for one summary; the others come in the next.
CHECKED = 2_000
#: Clients that connect at the same time.
CONNECTING = 50


class Member:
    """One person's client. ``publishing``: a location is not yet acknowledged; later ones are skipped meanwhile."""

    def __init__(self, person: pool_frames.Person, kept: int) -> None:
        self.person = person
        self.client: Client | None = None
        self.broker = ""
        self.migrations = 0
        self.publishing = False
        self.followed = False
        self.received: deque[dict[str, Any]] = deque(maxlen=kept)


class ClientPool:
    def __init__(self, process: int, writer: asyncio.StreamWriter) -> None:
        self.process = process
        self.writer = writer
        self.members: dict[int, Member] = {}
        self.publishers: dict[str, Client] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connecting = asyncio.Semaphore(CONNECTING)
        self._activity = pool_frames.Activity()
        self._newest: dict[str, dict[str, Any]] = {}
        self._unchecked: deque[Member] = deque()
        self._decoded: dict[tuple[str, int, int], tuple[list[Any], list[float]]] = {}

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Until the demo loop says so or is gone."""
        self.spawn(self._summaries())
        while True:
            match await pool_frames.read(reader):
                case pool_frames.Start(coordinator, people, kinds):
                    kept = KEPT if len(people) <= MANY else KEPT_OF_MANY
                    for person in people:
                        self.members[person.number] = Member(person, kept)
                        self._unchecked.append(self.members[person.number])
                        self.spawn(self._live(self.members[person.number], coordinator))
                    for kind in kinds:
                        self.spawn(self._open_publisher(kind, coordinator))
                case pool_frames.Locations(places):
                    for number, lat, lon in places:
                        self._locate(self.members[number], lat, lon)
                case pool_frames.Reports(records):
                    self._report(records)
                case pool_frames.Ask(call, number):
                    pool_frames.write(self.writer, pool_frames.Answer(call, list(self.members[number].received)))
                case pool_frames.Follow(number, on):
                    self.members[number].followed = on
                case _:
                    break
        for task in self._tasks:
            task.cancel()

    # -- people --------------------------------------------------------------------------------------------------------

    async def _live(self, member: Member, coordinator: str) -> None:
        person, began = member.person, time.monotonic()
        await asyncio.sleep(person.login)
        member.client = connect(coordinator=coordinator, location=(person.lat, person.lon), wait_for_broker=True)
        async with self._connecting:
            await member.client.open()
        await asyncio.sleep(max(0.0, began + person.subscribe - time.monotonic()))
        for channel, params in person.subscriptions:
            self.spawn(self._listen(member, params, member.client.subscribe(channel, params)))

    async def _listen(self, member: Member, params: dict[str, str], subscription: Subscription) -> None:
        try:
            await subscription.confirmed()
            self._activity.confirmed += 1
            async for notification in subscription:
                self._notified(member, params, notification)
        except TocsinError:
            self._activity.refused += 1

    def _notified(self, member: Member, params: dict[str, str], notification: Notification) -> None:
        now, activity = time.time(), self._activity
        rows, times = self._shared(notification)
        late = [now - each for each in times]
        activity.latencies += late
        activity.notifications += 1
        activity.results += len(notification)
        activity.notified.append(member.person.number)
        shown = {
            "at": now,
            "channel": notification.channel,
            "params": params,
            "execution": notification.execution,
            "rows": rows,
            "latency_ms": round(min(late) * 1e3, 1) if late else None,
        }
        member.received.appendleft(shown)
        self._newest[notification.channel] = {"person": member.person.number, **shown}
        if member.followed:
            pool_frames.write(self.writer, pool_frames.Followed(member.person.number, "notification", shown))

    def _shared(self, notification: Notification) -> tuple[list[Any], list[float]]:
        """Its results and when they were published, computed once for all clients that share a BE subscription."""
        key = (notification.channel, notification.subscription, notification.execution)
        known = self._decoded.get(key)
        if known is None:
            times = [published(row["time"]) for row in notification.results if row.get("time")]
            known = self._decoded[key] = (notification.results, times)
            if len(self._decoded) > SHARED:
                del self._decoded[next(iter(self._decoded))]
        return known

    def _locate(self, member: Member, lat: float, lon: float) -> None:
        client = member.client
        if client is None or member.publishing or not member.broker:
            return
        member.publishing = True
        record = {"user_id": member.person.user, "lat": lat, "lon": lon, "time": timestamp()}
        self.spawn(self._publish(client, LOCATIONS, [record], member))

    async def _publish(self, client: Client, feed: str, records: list[dict[str, Any]], member: Member | None) -> None:
        try:
            # Sent again after a lost connection: a location replaces itself, and a report twice is better than none.
            await client.publish(feed, records, retry=True)
        except TocsinError:
            self._activity.refused += 1
        else:
            if member is not None:
                self._activity.locations += 1
            else:
                self._activity.reports += len(records)
        finally:
            if member is not None:
                member.publishing = False

    # -- publishers ----------------------------------------------------------------------------------------------------

    async def _open_publisher(self, kind: str, coordinator: str) -> None:
        client = connect(coordinator=coordinator, wait_for_broker=True)
        self.publishers[kind] = await client.open()

    def _report(self, records: list[dict[str, Any]]) -> None:
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            by_kind.setdefault(record["kind"], []).append({**record, "time": timestamp()})
        for kind, some in by_kind.items():
            if kind in self.publishers:
                self.spawn(self._publish(self.publishers[kind], REPORTS, some, None))

    # -- the demo loop -------------------------------------------------------------------------------------------------

    async def _summaries(self) -> None:
        while True:
            await asyncio.sleep(SUMMARY_PERIOD)
            self._check_brokers()
            activity, self._activity = self._activity, pool_frames.Activity()
            activity.newest, self._newest = list(self._newest.values()), {}
            pool_frames.write(self.writer, activity)
            await self.writer.drain()

    def _check_brokers(self) -> None:
        for _ in range(min(CHECKED, len(self._unchecked))):
            member = self._unchecked[0]
            self._unchecked.rotate(-1)
            if member.client is None:
                continue
            status = member.client.status
            broker = status.broker or ""
            if broker != member.broker:
                self._activity.brokers.append((member.person.number, broker))
                if member.followed:
                    data = {"from": member.broker or None, "to": broker or None}
                    pool_frames.write(self.writer, pool_frames.Followed(member.person.number, "migrated", data))
                member.broker = broker
            self._activity.migrations += status.migrations - member.migrations
            member.migrations = status.migrations


def timestamp() -> str:
    """Microseconds matter: latencies are taken from it."""
    return datetime.fromtimestamp(time.time(), tz=UTC).isoformat(timespec="microseconds")


def published(text: str) -> float:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


async def main(port: str, process: str, secret: str) -> None:
    raise_file_limit()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port), limit=2**26)
    pool_frames.write(writer, pool_frames.Hello(int(process), secret))
    with contextlib.suppress(ConnectionError):
        await ClientPool(int(process), writer).run(reader)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(main(sys.argv[1], sys.argv[2], os.environ["TOCSIN_DEMO_SECRET"]))
