"""The demo's web server: what a local deployment has, and the city API for the page's city panel."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.coordinator.admin import Admin
from tocsin.demo.city.city import NAME
from tocsin.demo.event_stream import encode
from tocsin.demo.loop import DemoLoop
from tocsin.demo.people_finder import PeopleFinder
from tocsin.errors import Busy, NotFound
from tocsin.http.requests import from_json, from_query, media_type, read_body
from tocsin.http.responses import answer, stream
from tocsin.local import LocalApp, Supervisor

BODY_BYTES = 10_000


class After(Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0)] = 0


class Who(Struct, forbid_unknown_fields=True):
    who: Annotated[str, Meta(min_length=1, max_length=60)]


class Flood(Struct, forbid_unknown_fields=True):
    district: str


class CityApp(LocalApp):
    features = ("local", "city")

    def __init__(self, loop: DemoLoop, supervisor: Supervisor, admin: Admin) -> None:
        self.loop = loop
        super().__init__(supervisor, admin)

    def routes(self) -> list[Route]:
        return [
            *super().routes(),
            Route("/city", self.facts, methods=["GET"]),
            Route("/city/map", self.map, methods=["GET"]),
            Route("/city/people", self.people, methods=["GET"]),
            Route("/city/people/past", self.past, methods=["GET"]),
            Route("/city/people/{number}", self.person, methods=["GET"]),
            Route("/city/people/{number}/phone", self.phone, methods=["GET"]),
            Route("/city/events", self.events, methods=["GET"]),
            Route("/city/find", self.find, methods=["GET"]),
            Route("/city/floods", self.flood, methods=["POST"]),
        ]

    async def _checked(self, scope: Any, receive: Any, send: Any) -> None:
        # A page that reconnects now would keep the server from stopping.
        if self.loop.stopping and scope["path"].startswith("/city"):
            raise Busy("the demo is stopping", hint="start it again with `tocsin demo`")
        await super()._checked(scope, receive, send)

    async def stop(self) -> None:
        await super().stop()
        await self.loop.stop()

    @cached_property
    def finder(self) -> PeopleFinder:
        return PeopleFinder(self.loop.city)

    @cached_property
    def _map(self) -> bytes:
        return bytes(answer(self.loop.city.map()).body)

    async def facts(self, request: Request) -> Response:
        options = self.loop.options
        return answer(
            {
                "name": NAME,
                "seed": options.seed,
                "speed": options.speed,
                "brokers": self.supervisor.brokers,
                "subscribers": options.subscribers,
                "now": self.loop.now,
            }
        )

    async def map(self, request: Request) -> Response:
        return Response(self._map, media_type="application/json")

    async def people(self, request: Request) -> Response:
        after = from_query(request.scope["query_string"], After).after
        return Response(await self.loop.next_frame(after), media_type="application/octet-stream")

    async def past(self, request: Request) -> Response:
        return Response(self.loop.replay.frames(), media_type="application/octet-stream")

    async def find(self, request: Request) -> Response:
        who = from_query(request.scope["query_string"], Who).who
        return answer({"found": [self.finder.shown(number) for number in self.finder.find(who)]})

    async def person(self, request: Request) -> Response:
        number = self._number(request)
        return answer(self.finder.shown(number) | await self.loop.person(number))

    async def phone(self, request: Request) -> Response:
        number = self._number(request)
        phone = self.loop.follow(number)
        return stream(phone.read([], lambda: self.loop.unfollow(number)), "text/event-stream")

    async def events(self, request: Request) -> Response:
        city = self.loop.city
        first: list[tuple[str, Any]] = [("brokers", {"brokers": self.supervisor.brokers})]
        first += self.loop.replay.events()
        first += [("emergency", city.show(each) | {"at": time.time()}) for each in city.emergencies.active]
        return stream(self.loop.events.read([encode(*each) for each in first]), "text/event-stream")

    async def flood(self, request: Request) -> Response:
        headers = request.scope["headers"]
        media_type(headers, ["application/json"], "application/json")
        district = from_json(await read_body(headers, request.receive, BODY_BYTES), Flood).district
        try:
            return answer(self.loop.flood(district), 202)
        except KeyError:
            there = ", ".join(self.loop.city.districts)
            raise NotFound("district", district, hint=f"there are: {there}") from None

    def _number(self, request: Request) -> int:
        text, people = request.path_params["number"], self.loop.options.subscribers
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < people):
            raise NotFound("person", text, hint=f"their numbers are 0 to {people - 1}")
        return int(text)
