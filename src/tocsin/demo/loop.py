"""The demo loop: the city's clock runs, people walk and publish their locations, emergencies are reported."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import sys
import time
from collections.abc import Coroutine
from typing import Any

import httpx
import numpy as np

from tocsin.demo import application, pool_frames
from tocsin.demo.city import City
from tocsin.demo.city.ground import HEIGHT, WIDTH, degrees, latitude, longitude
from tocsin.demo.city.interests import plans
from tocsin.demo.city.reports import KINDS
from tocsin.demo.event_stream import EventStream
from tocsin.demo.options import CityOptions
from tocsin.demo.replay_buffer import ReplayBuffer
from tocsin.demo.statistics import Statistics
from tocsin.demo.warmup import warm_up
from tocsin.errors import Busy, TocsinError
from tocsin.local import Notify, Status, Supervisor

#: People whose clients one process holds.
PEOPLE_PER_PROCESS = 5_000
#: Seconds of the city that have passed when its clock starts: publishers are at their emergencies by then.
BEFORE = 120
NOWHERE = 255
RIDING, NOTIFIED, DISCONNECTED = 1, 2, 4
#: Seconds for which a person counts as just notified.
JUST_NOTIFIED = 3.0
#: Seconds that a process of clients has to answer.
TIMEOUT = 10.0
#: Seconds between two requests for the coordinator's topology.
TOPOLOGY_PERIOD = 2.0


class DemoLoop:
    """``tick`` counts the seconds of this machine; ``now`` those of the city."""

    supervisor: Supervisor

    def __init__(self, options: CityOptions, notify: Notify) -> None:
        self.options = options
        self.channels = application.channels()
        self.tick = 0
        self.frame = b""
        self.replay = ReplayBuffer()
        self.events = EventStream()
        self.phones: dict[int, EventStream] = {}
        self.newest: dict[str, dict[str, Any]] = {}  # by channel
        self.topology: dict[str, Any] = {}
        self.latency: dict[str, float] = {}
        self.statistics = Statistics(options.subscribers)
        self.broker = np.full(options.subscribers, NOWHERE, np.uint8)
        self.notified = np.full(options.subscribers, -math.inf)
        self.processes = options.clients or -(-options.subscribers // PEOPLE_PER_PROCESS)
        self._notify = notify
        self._ticked = asyncio.Condition()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._connected = asyncio.Condition()
        self._asked: dict[int, asyncio.Future[list[dict[str, Any]]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._secret = secrets.token_hex(16)
        self.stopping = False

    # -- start ---------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Makes the city: a second of arithmetic, meant for a thread."""
        self.city = City(self.options.seed, self.options.subscribers)
        self.city.advance(BEFORE)
        self.city.emergencies.news()
        self._stations = self.city.stations(16, self.options.reach)
        self.plans = plans(self.options.seed, self.city.users, self.channels, self.city.districts)

    @property
    def now(self) -> float:
        return self.city.now - BEFORE

    @property
    def connected(self) -> int:
        """People whose client is connected to a broker."""
        return int((self.broker != NOWHERE).sum())

    def station(self, number: int) -> tuple[float, float]:
        return self._stations[(number - 1) % len(self._stations)]

    async def start(self, supervisor: Supervisor) -> None:
        """Creates the application and connects the clients; once Spark is up as well, the city's clock starts.

        An application that this machine has created before needs no Spark for that: the data cluster remembers.
        """
        self.supervisor = supervisor
        pools = asyncio.create_task(self._start_pools())
        try:
            await self.supervisor.until_spark(self._prepare(pools))
        finally:
            pools.cancel()
        self.statistics = Statistics(self.options.subscribers)
        self.spawn(self._run())
        self.spawn(self._poll_topology())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs it until it ends or the loop stops."""
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]

    async def _prepare(self, pools: asyncio.Task[None]) -> None:
        began = time.monotonic()
        self._notify(Status("starting", "the emergency application"))
        await self._create_application()
        self._notify(Status("up", "application", "7 channels, 200 shelters", time.monotonic() - began))
        began = time.monotonic()
        await pools
        self._start_clients()
        text = f"{self.options.subscribers:,} clients in {self.processes} processes"
        self._notify(Status("up", "people", text, time.monotonic() - began))
        self.spawn(self._warm_up())

    async def _create_application(self) -> None:
        async with httpx.AsyncClient(base_url=self.supervisor.cluster, timeout=None, trust_env=False) as client:
            remark = await application.make(client, self.options.speed, self.city.shelters)
        if remark:
            self._notify(Status("note", "application", remark))

    async def _start_pools(self) -> None:
        """Starts the processes of the clients, and returns when all have connected."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        port = self._server.sockets[0].getsockname()[1]
        for process in range(self.processes):
            command = [sys.executable, "-m", "tocsin.demo.client_pool", str(port), str(process)]
            env = {"TOCSIN_DEMO_SECRET": self._secret}
            await self.supervisor.start_helper(f"clients {process + 1}", command, env)
        async with self._connected:
            await self._connected.wait_for(lambda: len(self._writers) == self.processes)

    def _start_clients(self) -> None:
        at = self.city.people.positions()
        lats, lons = latitude(at).round(6).tolist(), longitude(at).round(6).tolist()
        for process, writer in self._writers.items():
            people = [self._person(n, lats[n], lons[n]) for n in range(process, len(lats), self.processes)]
            kinds = list(KINDS) if process == 0 else []
            pool_frames.write(writer, pool_frames.Start(self.supervisor.coordinator, people, kinds))

    def _person(self, number: int, lat: float, lon: float) -> pool_frames.Person:
        plan, speed = self.plans[number], self.options.speed
        subscriptions = [
            (each.channel, dict(zip(self.channels[each.channel], each.args, strict=True))) for each in plan.interests
        ]
        user = self.city.users[number]
        return pool_frames.Person(number, user, lat, lon, plan.login / speed, plan.subscribe / speed, subscriptions)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One process of clients."""
        hello = await pool_frames.read(reader)
        if not isinstance(hello, pool_frames.Hello) or not secrets.compare_digest(hello.secret, self._secret):
            writer.close()
            return
        async with self._connected:
            self._writers[hello.process] = writer
            self._connected.notify_all()
        with contextlib.suppress(asyncio.CancelledError):
            while (message := await pool_frames.read(reader)) is not None:
                self._receive(message)
        self._writers.pop(hello.process, None)
        if not self.stopping:
            log = self.supervisor.home / "logs" / f"clients-{hello.process + 1}.log"
            self._notify(Status("note", "people", f"a process of their clients has ended, see {log}"))
        self.broker[hello.process :: self.processes] = NOWHERE
        self.statistics.connected[hello.process :: self.processes] = False
        writer.close()

    def _receive(self, message: pool_frames.Message) -> None:
        match message:
            case pool_frames.Activity():
                self.statistics.add(message)
                brokers = self.supervisor.brokers
                for number, name in message.brokers:
                    self.broker[number] = brokers.index(name) if name in brokers else NOWHERE
                self.notified[message.notified] = time.monotonic()
                for each in message.newest:
                    self.newest[each["channel"]] = each
            case pool_frames.Followed(number, event, data):
                if number in self.phones:
                    self.phones[number].publish(event, data)
            case pool_frames.Answer(call, notifications):
                waiting = self._asked.pop(call, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(notifications)

    # -- every second --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Once a second: moves all people, and reports what has happened since."""
        loop, due = asyncio.get_running_loop(), 0.0
        began = before = loop.time()
        published = np.full((self.options.subscribers, 2), np.inf)
        brokers: list[str] = []
        while True:
            await asyncio.sleep(max(0.0, began + self.tick + 1 - loop.time()))
            # On an overloaded machine the city's clock slows down instead of lagging further and further.
            due += min(2.0, loop.time() - before) * self.options.speed
            before = loop.time()
            reports = self.city.advance(int(due))
            due -= int(due)
            self._publish(published, reports)
            self.tick += 1
            self._make_frame()
            await self._wake_readers()
            self._announce()
            if brokers != self.supervisor.brokers:
                brokers = list(self.supervisor.brokers)
                self.events.publish("brokers", {"brokers": brokers})

    async def _wake_readers(self) -> None:
        async with self._ticked:
            self._ticked.notify_all()

    def _publish(self, published: np.ndarray[Any, Any], reports: list[dict[str, Any]]) -> None:
        """Locations of people who have moved, each through its own client; reports through the publishers."""
        at = self.city.people.positions()
        with np.errstate(invalid="ignore"):
            gone = np.hypot(*(at - published).T)
        moved = np.nonzero(
            (self.broker != NOWHERE) & ((gone > self.options.metres_between_locations) | ~np.isfinite(gone))
        )[0]
        published[moved] = at[moved]
        lats, lons = latitude(at[moved]).round(6), longitude(at[moved]).round(6)
        places = list(zip(moved.tolist(), lats.tolist(), lons.tolist(), strict=True))
        for process, writer in self._writers.items():
            mine = [each for each in places if each[0] % self.processes == process]
            if mine and writer.transport.get_write_buffer_size() < 2**22:
                pool_frames.write(writer, pool_frames.Locations(mine))
        if reports and 0 in self._writers:
            pool_frames.write(self._writers[0], pool_frames.Reports(reports))

    def _announce(self) -> None:
        for each in self.city.emergencies.news():
            self._publish_event("emergency", self.city.show(each) | {"at": time.time()})
        for each in self.city.emergencies.active if self.tick % 2 == 0 else ():
            self.events.publish("emergency", self.city.show(each) | {"at": time.time()})
        self.latency = self.statistics.second()
        self._publish_event("latency", {"at": time.time(), **self.latency})

    def _publish_event(self, event: str, data: dict[str, Any]) -> None:
        """To the readers of today, and to the replay for later ones."""
        self.replay.add_event(event, data)
        self.events.publish(event, data)

    async def _poll_topology(self) -> None:
        """The coordinator's view, for the terminal and the summary."""
        async with httpx.AsyncClient(base_url=self.supervisor.coordinator, timeout=10, trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
                    self.topology = (await client.get("/topology")).json()
                    seconds = time.monotonic() - self.statistics.began
                    self.statistics.covs.append((seconds, self.topology["cov"], self.topology["maximum"]))
                await asyncio.sleep(TOPOLOGY_PERIOD)

    async def _warm_up(self) -> None:
        """The first execution of a channel takes seconds in a new Spark: no person has to wait for it."""
        began = time.monotonic()
        try:
            await warm_up(self.supervisor.coordinator, self.channels)
        except TocsinError as error:
            self._notify(Status("note", "warm-up", error.message))
        else:
            self._notify(Status("up", "warm-up", "all channels have run once", time.monotonic() - began))

    # -- for the city API ----------------------------------------------------------------------------------------------

    async def next_frame(self, after: int) -> bytes:
        """The frame of the first tick after this one; at once if the client's tick is from an earlier run."""
        async with self._ticked:
            await self._ticked.wait_for(lambda: self.tick > after or after > self.tick + 1 or self.stopping)
        return self.frame

    def _make_frame(self) -> None:
        """The location of each person, in the format of ``GET /city/people``."""
        at, flags = self.city.people.positions(), np.zeros(len(self.broker), np.uint8)
        flags |= self.city.people.riding.astype(np.uint8) * RIDING
        flags |= (self.notified > time.monotonic() - JUST_NOTIFIED).astype(np.uint8) * NOTIFIED
        flags |= (self.broker == NOWHERE).astype(np.uint8) * DISCONNECTED
        rows = np.zeros(len(self.broker), [("x", "<u2"), ("y", "<u2"), ("broker", "u1"), ("flags", "u1")])
        rows["x"] = np.clip(at[:, 0] / WIDTH, 0, 1) * 65_535
        rows["y"] = np.clip(1 - at[:, 1] / HEIGHT, 0, 1) * 65_535
        rows["broker"], rows["flags"] = self.broker, flags
        self.frame = np.array([self.tick, len(rows)], "<u4").tobytes() + rows.tobytes()
        self.replay.add_frame(time.time(), self.frame)

    async def person(self, number: int) -> dict[str, Any]:
        lat, lon = degrees(self.city.people.positions()[number])
        broker = int(self.broker[number])
        return {
            "id": self.city.users[number],
            "lat": lat,
            "lon": lon,
            "riding": bool(self.city.people.riding[number]),
            "broker": None if broker == NOWHERE else self.supervisor.brokers[broker],
            "subscriptions": [
                {"channel": each.channel, "params": dict(zip(self.channels[each.channel], each.args, strict=True))}
                for each in self.plans[number].interests
            ],
            "notifications": await self._notifications(number),
        }

    async def _notifications(self, number: int) -> list[dict[str, Any]]:
        writer = self._writers.get(number % self.processes)
        if writer is None:
            return []
        call = len(self._asked) + secrets.randbits(40)
        waiting: asyncio.Future[list[dict[str, Any]]]
        waiting = self._asked[call] = asyncio.get_running_loop().create_future()
        pool_frames.write(writer, pool_frames.Ask(call, number))
        try:
            async with asyncio.timeout(TIMEOUT):
                return await waiting
        except TimeoutError:
            raise Busy("the people's clients are too busy to answer", hint="ask again") from None
        finally:
            self._asked.pop(call, None)

    def follow(self, number: int) -> EventStream:
        """The events of one person's client."""
        if number not in self.phones:
            self.phones[number] = EventStream()
        self._send(number, pool_frames.Follow(number, on=True))
        return self.phones[number]

    def unfollow(self, number: int) -> None:
        if number in self.phones and not len(self.phones[number]):
            del self.phones[number]
            self._send(number, pool_frames.Follow(number, on=False))

    def _send(self, number: int, message: pool_frames.Message) -> None:
        writer = self._writers.get(number % self.processes)
        if writer is not None:
            pool_frames.write(writer, message)

    def flood(self, district: str) -> dict[str, Any]:
        """Raises KeyError if there is no such district."""
        found = self.city.show(self.city.emergencies.flood(district)) | {"at": time.time()}
        self._publish_event("emergency", found)
        return found

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        self.stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in (self.events, *self.phones.values()):
            stream.close()
        await self._wake_readers()
        for writer in self._writers.values():
            pool_frames.write(writer, pool_frames.Stop())
        if self._server is not None:
            self._server.close()

    async def summary(self) -> dict[str, Any]:
        """The statistics, with what the data cluster knows of the channels."""
        async with httpx.AsyncClient(base_url=self.supervisor.cluster, timeout=30, trust_env=False) as client:
            channels = []
            for each in (await client.get("/channels")).json()["channels"]:
                path = f"/channels/{each['name']}/executions"
                runs = (await client.get(path, params={"limit": 10_000})).json()["executions"]
                took = [1e3 * (run["finished"] - run["time"]) for run in runs]
                channels.append(
                    {
                        "channel": each["name"],
                        "period": each["period"],
                        "subscriptions": each["subscriptions"],
                        "executions": len(runs),
                        "results": sum(run["rows"] for run in runs),
                        "mean_ms": round(sum(took) / len(took), 1) if took else None,
                        "state": each["state"],
                    }
                )
        return {**self.statistics.summary(), "city_seconds": self.now, "channels": channels}
