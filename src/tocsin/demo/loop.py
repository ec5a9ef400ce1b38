"""The life of a city in a town: its clock runs, people move, emergencies are reported, and all of it can be watched."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np

from tocsin.demo import application, pool_frames
from tocsin.demo.city import City
from tocsin.demo.city.ground import HEIGHT, WIDTH, degrees, latitude, longitude
from tocsin.demo.city.interests import plans
from tocsin.demo.city.reports import KINDS
from tocsin.demo.replay_buffer import ReplayBuffer
from tocsin.demo.statistics import Statistics
from tocsin.demo.warmup import drill
from tocsin.errors import Busy, TocsinError
from tocsin.local.listeners import Listeners
from tocsin.local.options import CityOptions
from tocsin.local.supervisor import News, Supervisor

#: People whose clients one process holds.
PEOPLE_PER_PROCESS = 5_000
#: More people than this publish their location only when they have moved so many metres; ten thousand still do, and
#: twice as many when they have moved twice as far.
MANY, LEAST_MOVE, FULL = 2_000, 50.0, 10_000
#: Seconds of the city that have passed when its clock begins to run: publishers are where something happens by then.
WARM = 120
NOWHERE = 255
RIDING, NOTIFIED, DISCONNECTED = 1, 2, 4
#: Seconds that somebody counts as just notified.
GLOW = 3.0
#: Seconds that a process of clients has to answer.
PATIENCE = 10.0
#: Seconds between two looks at the coordinator.
LOOK = 2.0


def least_move(options: CityOptions) -> float:
    """Metres that somebody must have gone before the location is published again."""
    if options.least_move >= 0:
        return options.least_move
    if options.subscribers <= MANY:
        return 0.0
    return LEAST_MOVE * options.speed * max(1.0, options.subscribers / FULL)


class DemoLoop:
    """``tick`` counts the seconds of this machine; ``now`` those of the city."""

    def __init__(self, options: CityOptions, parts: Supervisor, tell: Callable[[News], None]) -> None:
        self.options, self.parts = options, parts
        self.channels = application.channels()
        self.tick = 0
        self.packed = b""
        self.past = ReplayBuffer()
        self.ticked = asyncio.Condition()
        self.watchers = Listeners()
        self.phones: dict[int, Listeners] = {}
        self.newest: dict[str, dict[str, Any]] = {}  # by channel
        self.topology: dict[str, Any] = {}
        self.latency: dict[str, float] = {}
        self.tally = Statistics(options.subscribers)
        self.broker = np.full(options.subscribers, NOWHERE, np.uint8)
        self.notified = np.full(options.subscribers, -math.inf)
        self.processes = options.clients or -(-options.subscribers // PEOPLE_PER_PROCESS)
        self.least_move = least_move(options)
        self._tell = tell
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._arrived = asyncio.Condition()
        self._asked: dict[int, asyncio.Future[list[dict[str, Any]]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._secret = secrets.token_hex(16)
        self._ending = False

    # -- the beginning -------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """The city itself: a second of arithmetic, meant for a thread."""
        self.city = City(self.options.seed, self.options.subscribers)
        self.city.advance(WARM)
        self.city.emergencies.news()
        self._stations = self.city.stations(16)
        self.plans = plans(self.options.seed, self.city.users, self.channels, self.city.districts)

    @property
    def now(self) -> float:
        return self.city.now - WARM

    def station(self, number: int) -> tuple[float, float]:
        return self._stations[(number - 1) % len(self._stations)]

    async def begin(self) -> None:
        """The application is made and the clients are there; once Spark is up as well the clock runs.

        An application that was made before on this machine needs no Spark to be made: see ``cluster/verdicts.py``.
        """
        calling = asyncio.create_task(self._call_clients())
        try:
            await self.parts.until_spark(self._settle(calling))
        finally:
            calling.cancel()
        self.tally = Statistics(self.options.subscribers)
        self._tasks += [asyncio.create_task(work) for work in (self._run(), self._look())]

    async def _settle(self, calling: asyncio.Task[None]) -> None:
        began = time.monotonic()
        self._tell(News("starting", "the emergency application"))
        await self._prepare()
        self._tell(News("up", "application", "7 channels, 200 shelters", time.monotonic() - began))
        began = time.monotonic()
        await calling
        self._begin_clients()
        text = f"{self.options.subscribers:,} clients, {self.processes} to hold them"
        self._tell(News("up", "people", text, time.monotonic() - began))
        self._tasks = [asyncio.create_task(self._drill())]

    async def _prepare(self) -> None:
        async with httpx.AsyncClient(base_url=self.parts.cluster, timeout=None, trust_env=False) as client:
            said = await application.make(client, self.options.speed, self.city.shelters)
        if said:
            self._tell(News("note", "application", said))

    async def _call_clients(self) -> None:
        """Starts their processes, and returns when all are there."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
        port = self._server.sockets[0].getsockname()[1]
        for process in range(self.processes):
            words = [sys.executable, "-m", "tocsin.demo.client_pool", str(port), str(process)]
            await self.parts.begin_helper(f"clients {process + 1}", words, {"TOCSIN_TOWN_SECRET": self._secret})
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._writers) == self.processes)

    def _begin_clients(self) -> None:
        at = self.city.people.positions()
        lats, lons = latitude(at).round(6).tolist(), longitude(at).round(6).tolist()
        for process, writer in self._writers.items():
            people = [self._person(n, lats[n], lons[n]) for n in range(process, len(lats), self.processes)]
            kinds = list(KINDS) if process == 0 else []
            pool_frames.write(writer, pool_frames.Begin(self.parts.coordinator, people, kinds))

    def _person(self, number: int, lat: float, lon: float) -> pool_frames.Person:
        plan, speed = self.plans[number], self.options.speed
        wishes = [(w.channel, dict(zip(self.channels[w.channel], w.args, strict=True))) for w in plan.wishes]
        user = self.city.users[number]
        return pool_frames.Person(number, user, lat, lon, plan.login / speed, plan.subscribe / speed, wishes)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One process of clients."""
        hello = await pool_frames.read(reader)
        if not isinstance(hello, pool_frames.Hello) or not secrets.compare_digest(hello.secret, self._secret):
            writer.close()
            return
        async with self._arrived:
            self._writers[hello.process] = writer
            self._arrived.notify_all()
        with contextlib.suppress(asyncio.CancelledError):
            while (message := await pool_frames.read(reader)) is not None:
                self._hear(message)
        self._writers.pop(hello.process, None)
        if not self._ending:
            log = self.parts.home / "logs" / f"clients-{hello.process + 1}.log"
            self._tell(News("note", "people", f"a process of their clients has ended, see {log}"))
        self.broker[hello.process :: self.processes] = NOWHERE
        self.tally.connected[hello.process :: self.processes] = False
        writer.close()

    def _hear(self, message: pool_frames.Message) -> None:
        match message:
            case pool_frames.Beat():
                self.tally.add(message)
                for number, name in message.brokers:
                    self.broker[number] = self.parts.brokers.index(name) if name in self.parts.brokers else NOWHERE
                self.notified[message.notified] = time.monotonic()
                for each in message.shown:
                    self.newest[each["channel"]] = each
            case pool_frames.Told(number, event, data):
                if number in self.phones:
                    self.phones[number].tell(event, data)
            case pool_frames.Answer(call, notifications):
                waiting = self._asked.pop(call, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(notifications)

    # -- what goes on --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Once a second everybody moves, and what has happened meanwhile is reported."""
        loop, due = asyncio.get_running_loop(), 0.0
        began = before = loop.time()
        published = np.full((self.options.subscribers, 2), np.inf)
        brokers: list[str] = []
        while True:
            await asyncio.sleep(max(0.0, began + self.tick + 1 - loop.time()))
            # On a machine that has too much to do the city's clock goes slower, rather than ever further behind.
            due += min(2.0, loop.time() - before) * self.options.speed
            before = loop.time()
            reports = self.city.advance(int(due))
            due -= int(due)
            self._publish(published, reports)
            self.tick += 1
            self._show()
            async with self.ticked:
                self.ticked.notify_all()
            self._announce()
            if brokers != self.parts.brokers:
                brokers = list(self.parts.brokers)
                self.watchers.tell("brokers", {"brokers": brokers})

    def _publish(self, published: np.ndarray[Any, Any], reports: list[dict[str, Any]]) -> None:
        """Locations of those who have moved, through the brokers they are with; reports through the publishers."""
        at = self.city.people.positions()
        with np.errstate(invalid="ignore"):
            gone = np.hypot(*(at - published).T)
        moved = np.nonzero((self.broker != NOWHERE) & ((gone > self.least_move) | ~np.isfinite(gone)))[0]
        published[moved] = at[moved]
        lats, lons = latitude(at[moved]).round(6), longitude(at[moved]).round(6)
        places = list(zip(moved.tolist(), lats.tolist(), lons.tolist(), strict=True))
        for process, writer in self._writers.items():
            mine = [each for each in places if each[0] % self.processes == process]
            if mine and writer.transport.get_write_buffer_size() < 2**22:
                pool_frames.write(writer, pool_frames.Moved(mine))
        if reports and 0 in self._writers:
            pool_frames.write(self._writers[0], pool_frames.Reports(reports))

    def _announce(self) -> None:
        for each in self.city.emergencies.news():
            self._tell_all("emergency", self.city.show(each) | {"at": time.time()})
        for each in self.city.emergencies.active if self.tick % 2 == 0 else ():
            self.watchers.tell("emergency", self.city.show(each) | {"at": time.time()})
        self.latency = self.tally.second()
        self._tell_all("latency", {"at": time.time(), **self.latency})

    def _tell_all(self, event: str, data: dict[str, Any]) -> None:
        """Those who watch, and those who will."""
        self.past.heard(event, data)
        self.watchers.tell(event, data)

    async def _look(self) -> None:
        """What the coordinator sees, for the terminal and the summary."""
        async with httpx.AsyncClient(base_url=self.parts.coordinator, timeout=10, trust_env=False) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
                    self.topology = (await client.get("/topology")).json()
                    seconds = time.monotonic() - self.tally.began
                    self.tally.covs.append((seconds, self.topology["cov"], self.topology["maximum"]))
                await asyncio.sleep(LOOK)

    async def _drill(self) -> None:
        """The first execution of a channel takes seconds in a Spark that has just started: it is for nobody."""
        began = time.monotonic()
        try:
            await drill(self.parts.coordinator, self.channels)
        except TocsinError as error:
            self._tell(News("note", "drill", error.message))
        else:
            self._tell(News("up", "drill", "all channels have run once", time.monotonic() - began))

    # -- what can be asked and done ------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Where everybody is: see the contract of ``GET /people``."""
        at, flags = self.city.people.positions(), np.zeros(len(self.broker), np.uint8)
        flags |= self.city.people.riding.astype(np.uint8) * RIDING
        flags |= (self.notified > time.monotonic() - GLOW).astype(np.uint8) * NOTIFIED
        flags |= (self.broker == NOWHERE).astype(np.uint8) * DISCONNECTED
        rows = np.zeros(len(self.broker), [("x", "<u2"), ("y", "<u2"), ("broker", "u1"), ("flags", "u1")])
        rows["x"] = np.clip(at[:, 0] / WIDTH, 0, 1) * 65_535
        rows["y"] = np.clip(1 - at[:, 1] / HEIGHT, 0, 1) * 65_535
        rows["broker"], rows["flags"] = self.broker, flags
        self.packed = np.array([self.tick, len(rows)], "<u4").tobytes() + rows.tobytes()
        self.past.saw(time.time(), self.packed)

    async def person(self, number: int) -> dict[str, Any]:
        lat, lon = degrees(self.city.people.positions()[number])
        broker = int(self.broker[number])
        return {
            "id": self.city.users[number],
            "lat": lat,
            "lon": lon,
            "riding": bool(self.city.people.riding[number]),
            "broker": None if broker == NOWHERE else self.parts.brokers[broker],
            "subscriptions": [
                {"channel": w.channel, "params": dict(zip(self.channels[w.channel], w.args, strict=True))}
                for w in self.plans[number].wishes
            ],
            "notifications": await self._got(number),
        }

    async def _got(self, number: int) -> list[dict[str, Any]]:
        writer = self._writers.get(number % self.processes)
        if writer is None:
            return []
        call = len(self._asked) + secrets.randbits(40)
        waiting: asyncio.Future[list[dict[str, Any]]]
        waiting = self._asked[call] = asyncio.get_running_loop().create_future()
        pool_frames.write(writer, pool_frames.Ask(call, number))
        try:
            async with asyncio.timeout(PATIENCE):
                return await waiting
        except TimeoutError:
            raise Busy("the people's clients have too much to do to answer", hint="ask again") from None
        finally:
            self._asked.pop(call, None)

    def follow(self, number: int) -> Listeners:
        """The phone of one person."""
        if number not in self.phones:
            self.phones[number] = Listeners()
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
        self._tell_all("emergency", found)
        return found

    # -- the end -------------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listeners in (self.watchers, *self.phones.values()):
            listeners.close()
        for writer in self._writers.values():
            pool_frames.write(writer, pool_frames.Stop())
        if self._server is not None:
            self._server.close()

    async def settled(self) -> dict[str, Any]:
        """The summary, with what the data cluster knows of the channels."""
        async with httpx.AsyncClient(base_url=self.parts.cluster, timeout=30, trust_env=False) as client:
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
        return {**self.tally.summary(), "city_seconds": self.now, "channels": channels}
