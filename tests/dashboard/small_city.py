"""A small city that serves the city API: an invented map, and a few people with real clients.

Brokers, data cluster, coordinator and clients are real; only streets and walking are simpler than in the demo's city.
``crowd`` adds people who walk and are not subscribers, to show many.
"""

from __future__ import annotations

import asyncio
import math
import random
import struct
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brokers import Broker
from sparkless import Sparkless
from tocsin.client import Client, connect
from tocsin.coordinator.admin import Admin
from tocsin.demo.replay_buffer import ReplayBuffer
from tocsin.errors import Malformed, NotFound
from tocsin.http.responses import answer, stream
from tocsin.local import LocalApp

KINDS = ("fire", "flood", "storm", "gas leak", "power cut", "road accident", "chemical spill", "missing person")
BOUNDS = {"west": 24.90, "south": 60.15, "east": 24.99, "north": 60.18}
NAMES = ("Mill Hill", "Saltmarket", "Old Town", "Ropewalk", "Bell Yard", "Tannery", "Fairfield", "Quayside", "Weir")
SHELTERS = ("Bell Yard School", "Quayside Hall", "St Olaf's Church", "Mill Library", "Ropewalk Gym")
PEOPLE_NAMES = ("Ada Hale", "Ben Moor", "Cleo Vale", "Dina Penn", "Emil Lark")
TICK = 0.5


def spot(x: float, y: float) -> tuple[float, float]:
    """(lon, lat) of a place, x and y from 0 to 1, from the north-west."""
    west, south, east, north = (BOUNDS[side] for side in ("west", "south", "east", "north"))
    return west + (east - west) * x, north - (north - south) * y


def bent(x: float, y: float) -> tuple[float, float]:
    """A place on slightly curved streets."""
    return spot(x + 0.012 * math.sin(7 * y + 3 * x), y + 0.02 * math.sin(5 * x + 2 * y))


def make_map() -> dict[str, Any]:
    line = [n / 40 for n in range(41)]
    streets = []
    for n in range(1, 24):
        kind = "avenue" if n % 8 == 4 else "street" if n % 2 else "lane"
        streets.append({"kind": kind, "points": [bent(n / 24, y) for y in line]})
        if n < 16:
            streets.append({"kind": kind, "points": [bent(x, n / 16) for x in line]})
    streets.append({"kind": "river", "points": [spot(x, 0.62 + 0.07 * math.sin(6 * x)) for x in line]})
    streets += [{"kind": "bridge", "points": [bent(x, 0.58), bent(x, 0.72)]} for x in (1 / 6, 0.5, 5 / 6)]
    districts = []
    for n, name in enumerate(NAMES):
        left, top = n % 3 / 3, n // 3 / 3
        corners = [(left, top), (left + 1 / 3, top), (left + 1 / 3, top + 1 / 3), (left, top + 1 / 3)]
        density = 1 / (1 + 8 * math.dist((left, top), (1 / 3, 1 / 3)))
        districts.append({"name": name, "density": density, "polygon": [spot(*each) for each in corners]})
    rng = random.Random(1)
    places = [spot(rng.random(), rng.random()) for _ in SHELTERS]
    shelters = [
        {"id": f"s{n}", "name": name, "lat": places[n][1], "lon": places[n][0], "capacity": 100 + 50 * n}
        for n, name in enumerate(SHELTERS)
    ]
    return {"bounds": BOUNDS, "streets": streets, "districts": districts, "shelters": shelters}


#: None ends the stream.
Listener = asyncio.Queue[tuple[str, Any] | None]


class Person:
    def __init__(self, number: int, rng: random.Random) -> None:
        self.number = number
        self.kind = KINDS[1] if number % 4 == 0 else KINDS[number % len(KINDS)]
        self.client: Client | None = None
        self.x, self.y = rng.random(), rng.random()
        self.way = rng.random() * math.tau
        self.notified = 0.0
        self.got: deque[dict[str, Any]] = deque(maxlen=50)
        self.phones: set[Listener] = set()
        self.broker: str | None = None

    def walk(self, rng: random.Random) -> None:
        self.way += rng.uniform(-0.6, 0.6)
        self.x = min(0.99, max(0.01, self.x + 0.004 * math.cos(self.way)))
        self.y = min(0.99, max(0.01, self.y + 0.006 * math.sin(self.way)))
        if self.x in (0.01, 0.99) or self.y in (0.01, 0.99):
            self.way += math.pi / 2

    def ring(self, event: str, data: Any) -> None:
        for phone in self.phones:
            phone.put_nowait((event, data))


class SmallCity(LocalApp):
    """The city is also its own supervisor: it starts and kills the brokers."""

    features = ("local", "city")

    def __init__(
        self, folder: Path, cluster: Sparkless, url: str, coordinator: str, people: int, crowd: int, admin: Admin
    ) -> None:
        self.folder, self.cluster, self.cluster_url, self.coordinator = folder, cluster, url, coordinator
        self.brokers: list[str] = []
        self.processes: dict[str, Broker] = {}
        self.rng = random.Random(7)
        self.people = [Person(n, self.rng) for n in range(people + crowd)]
        self.subscribers = people
        self.tick = 0
        self.ticked = asyncio.Condition()
        self.emergencies: dict[str, dict[str, Any]] = {}
        self.readers: set[Listener] = set()
        self.delays: list[float] = []
        self.raised: dict[int, float] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.stopped = False
        self.replay = ReplayBuffer()
        super().__init__(self, admin)

    def routes(self) -> list[Route]:
        return [
            *super().routes(),
            Route("/city", self.facts),
            Route("/city/map", self.show_map),
            Route("/city/people", self.positions),
            Route("/city/people/past", self.frames),
            Route("/city/people/{number:int}", self.person),
            Route("/city/people/{number:int}/phone", self.phone),
            Route("/city/events", self.follow),
            Route("/city/find", self.find),
            Route("/city/floods", self.flood, methods=["POST"]),
        ]

    # -- brokers

    async def add_broker(self) -> str:
        name = f"edge-{len(self.processes) + 1}"
        found = Broker(self.folder / name, self.cluster_url, name, "--coordinator", self.coordinator, heartbeat=2)
        self.processes[name] = found
        await asyncio.to_thread(found.event, "ready")
        self.brokers = sorted([*self.brokers, name])
        self.publish("brokers", {"brokers": self.brokers})
        return name

    async def kill_broker(self, name: str) -> None:
        if name not in self.processes or self.processes[name].killed:
            raise NotFound("broker", name)
        await asyncio.to_thread(self.processes[name].kill)

    @property
    def up(self) -> list[str]:
        return [name for name, each in self.processes.items() if not each.killed]

    # -- people

    async def start(self, brokers: int) -> None:
        # All processes start at the same time.
        await asyncio.gather(*(self.add_broker() for _ in range(brokers)))
        await asyncio.gather(*(self.join(person) for person in self.people[: self.subscribers]))
        self.tasks += [asyncio.create_task(self.walk()), asyncio.create_task(self.measure())]

    async def join(self, person: Person) -> None:
        person.client = connect(coordinator=self.coordinator, wait_for_broker=True)
        await person.client.open()
        subscription = person.client.subscribe("OfKind", kind=person.kind)
        await subscription.confirmed()
        self.tasks.append(asyncio.create_task(self.listen(person, subscription)))

    async def listen(self, person: Person, subscription: Any) -> None:
        async for notification in subscription:
            person.notified = time.monotonic()
            raised = self.raised.get(notification.execution)
            delay = None if raised is None else 1000 * (time.monotonic() - raised)
            if delay is not None:
                self.delays.append(delay)
            shown = {
                "at": time.time(),
                "channel": notification.channel,
                "params": {"kind": person.kind},
                "execution": notification.execution,
                "rows": notification.results,
                "latency_ms": delay,
            }
            person.got.appendleft(shown)
            person.ring("notification", shown)

    async def walk(self) -> None:
        while True:
            for person in self.people:
                person.walk(self.rng)
            for person in self.people[: self.subscribers]:
                assert person.client is not None
                now = person.client.status.broker if person.client.status.state == "connected" else None
                if now != person.broker:
                    person.ring("migrated", {"from": person.broker, "to": now})
                    person.broker = now
            async with self.ticked:
                self.tick += 1
                self.replay.add_frame(time.time(), self.packed())
                self.ticked.notify_all()
            await asyncio.sleep(TICK)

    async def measure(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            delays, self.delays = sorted(self.delays), []
            found = {"at": time.time(), "count": len(delays), "p50_ms": 0.0, "p99_ms": 0.0}
            if delays:
                found |= {"p50_ms": delays[len(delays) // 2], "p99_ms": delays[int(len(delays) * 0.99)]}
            self.replay.add_event("latency", found)
            self.publish("latency", found)

    async def stop(self) -> None:
        async with self.ticked:
            self.stopped = True
            self.ticked.notify_all()
        for listener in (*self.readers, *(phone for each in self.people for phone in each.phones)):
            listener.put_nowait(None)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*(each.client.close() for each in self.people if each.client is not None))
        for process in self.processes.values():
            if not process.killed:
                await asyncio.to_thread(process.kill)

    # -- emergencies

    def publish(self, event: str, data: Any) -> None:
        for reader in self.readers:
            reader.put_nowait((event, data))

    def announce(self, kind: str, place: str, lon: float, lat: float, phase: str = "new") -> dict[str, Any]:
        """Shows the emergency on the map, and notifies all subscribers of this kind."""
        severity = 1 + len(place) % 5
        found = {
            "id": f"{kind}-{len(self.emergencies) + 1}",
            "kind": kind,
            "lat": lat,
            "lon": lon,
            "radius": 250.0 + 60 * severity,
            "severity": severity,
            "phase": phase,
            "at": time.time(),
        }
        self.emergencies[found["id"]] = found
        self.replay.add_event("emergency", found)
        self.publish("emergency", found)
        shelters = [
            {"metres": 140 + 260 * n, "name": name, "capacity": 100 + 50 * n} for n, name in enumerate(SHELTERS[:3])
        ]
        row = {
            "report_id": found["id"],
            "kind": kind,
            "location": place,
            "lat": lat,
            "lon": lon,
            "severity": severity,
            "message": "Leave the area on foot towards the nearest open shelter.",
            "metres": 480.0,
            "shelters": shelters,
        }
        self.raised[self.cluster.position("OfKind") + 1] = time.monotonic()
        self.cluster.found("OfKind", ([kind], [row]))
        return found

    # -- the city API

    async def facts(self, request: Request) -> Response:
        return answer(
            {
                "name": "Bellhaven",
                "seed": 7,
                "speed": 1.0,
                "brokers": self.brokers,
                "subscribers": self.subscribers,
                "now": 0.0,
            }
        )

    async def show_map(self, request: Request) -> Response:
        return answer(make_map())

    async def positions(self, request: Request) -> Response:
        after = int(request.query_params.get("after", "0"))
        async with self.ticked:
            await self.ticked.wait_for(lambda: self.tick > after or self.stopped)
        return Response(self.packed(), media_type="application/octet-stream")

    async def frames(self, request: Request) -> Response:
        return Response(self.replay.frames(), media_type="application/octet-stream")

    def packed(self) -> bytes:
        numbers = {name: n for n, name in enumerate(self.brokers)}
        now, out = time.monotonic(), bytearray(struct.pack("<II", self.tick, len(self.people)))
        for n, person in enumerate(self.people):
            extra = n >= self.subscribers
            broker = n % max(1, len(self.brokers)) if extra else numbers.get(person.broker or "", 255)
            flags = 2 * (now - person.notified < 2.0 and person.notified > 0) | 4 * (broker == 255)
            out += struct.pack("<HHBB", int(person.x * 65535), int(person.y * 65535), broker, flags)
        return bytes(out)

    async def person(self, request: Request) -> Response:
        found = self._person(request)
        return answer(
            {
                "id": f"person-{found.number:05}",
                **self.shown(found),
                "lat": spot(found.x, found.y)[1],
                "lon": spot(found.x, found.y)[0],
                "riding": False,
                "broker": found.broker,
                "subscriptions": [{"channel": "OfKind", "params": {"kind": found.kind}}],
                "notifications": list(found.got),
            }
        )

    def shown(self, person: Person) -> dict[str, Any]:
        district = NAMES[min(2, int(person.y * 3)) * 3 + min(2, int(person.x * 3))]
        return {"number": person.number, "name": PEOPLE_NAMES[person.number % len(PEOPLE_NAMES)], "district": district}

    async def find(self, request: Request) -> Response:
        who = request.query_params["who"].casefold()
        everyone = [self.shown(person) for person in self.people]
        matches = [each for each in everyone if str(each["number"]) == who]
        matches += [each for each in everyone if who in each["name"].casefold() or who in each["district"].casefold()]
        return answer({"found": matches[:8]})

    def _person(self, request: Request) -> Person:
        number = request.path_params["number"]
        if number >= len(self.people):
            raise NotFound("person", str(number))
        return self.people[number]

    async def phone(self, request: Request) -> Response:
        return self._events(self._person(request).phones, [])

    async def follow(self, request: Request) -> Response:
        return self._events(self.readers, self.replay.events())

    def _events(self, listeners: set[Listener], first: list[tuple[str, Any]]) -> Response:
        queue: Listener = asyncio.Queue()
        for each in first:
            queue.put_nowait(each)
        listeners.add(queue)

        async def chunks() -> AsyncIterator[bytes]:
            try:
                yield b": connected\n\n"
                while (item := await queue.get()) is not None:
                    event, data = item
                    yield b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))
            finally:
                listeners.discard(queue)

        return stream(chunks(), "text/event-stream")

    async def flood(self, request: Request) -> Response:
        try:
            place = msgspec.json.decode(await request.body(), type=dict[str, str])["district"]
        except (msgspec.DecodeError, KeyError) as error:
            raise Malformed("name the district") from error
        if place not in NAMES:
            raise NotFound("district", place)
        n = NAMES.index(place)
        lon, lat = spot((n % 3 + 0.5) / 3, (n // 3 + 0.5) / 3)
        return answer(await asyncio.to_thread(self.announce, "flood", place, lon, lat), 202)
