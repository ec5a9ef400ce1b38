"""The town's HTTP interface where there is a city: map, people, phones, emergencies."""

from __future__ import annotations

import time
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.demo.city.city import NAME
from tocsin.demo.loop import DemoLoop
from tocsin.demo.people_finder import PeopleFinder
from tocsin.errors import NotFound
from tocsin.http.requests import check_origin, from_json, from_query, media_type, read_body
from tocsin.http.responses import answer, stream
from tocsin.local.listeners import shown
from tocsin.local.server import App

BODY_BYTES = 10_000


class After(Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0)] = 0


class Who(Struct, forbid_unknown_fields=True):
    who: Annotated[str, Meta(min_length=1, max_length=60)]


class Flood(Struct, forbid_unknown_fields=True):
    district: str


class CityApp(App):
    def __init__(self, life: DemoLoop) -> None:
        self.life = life
        self.finder = PeopleFinder(life.city)
        self._map: bytes | None = None
        super().__init__(life.parts)

    def routes(self) -> list[Route]:
        mine = [
            Route("/map", self.map, methods=["GET"]),
            Route("/people", self.people, methods=["GET"]),
            Route("/people/past", self.past, methods=["GET"]),
            Route("/people/{number}", self.person, methods=["GET"]),
            Route("/people/{number}/phone", self.phone, methods=["GET"]),
            Route("/stream", self.stream, methods=["GET"]),
            Route("/find", self.find, methods=["GET"]),
            Route("/flood", self.flood, methods=["POST"]),
        ]
        return [*mine, *(each for each in super().routes() if each.path not in {route.path for route in mine})]

    async def facts(self, request: Request) -> Response:
        life = self.life
        return answer(
            {
                "city": True,
                "name": NAME,
                "seed": life.options.seed,
                "speed": life.options.speed,
                "can": ["add", "kill", "flood"],
                "brokers": life.parts.brokers,
                "subscribers": life.options.subscribers,
                "now": life.now,
            }
        )

    async def map(self, request: Request) -> Response:
        if self._map is None:
            self._map = bytes(answer(self.life.city.map()).body)
        return Response(self._map, media_type="application/json")

    async def people(self, request: Request) -> Response:
        after = from_query(request.scope["query_string"], After).after
        life = self.life
        async with life.ticked:
            await life.ticked.wait_for(lambda: life.tick > after or after > life.tick + 1)
        return Response(life.packed, media_type="application/octet-stream")

    async def past(self, request: Request) -> Response:
        return Response(self.life.past.moments(), media_type="application/octet-stream")

    async def find(self, request: Request) -> Response:
        wanted = from_query(request.scope["query_string"], Who).who
        return answer({"found": [self.finder.shown(number) for number in self.finder.find(wanted)]})

    async def person(self, request: Request) -> Response:
        number = self._number(request)
        return answer(self.finder.shown(number) | await self.life.person(number))

    async def phone(self, request: Request) -> Response:
        number = self._number(request)
        listeners = self.life.follow(number)
        return stream(listeners.listen([], lambda: self.life.unfollow(number)), "text/event-stream")

    async def stream(self, request: Request) -> Response:
        city = self.life.city
        first: list[tuple[str, Any]] = [("brokers", {"brokers": self.parts.brokers})]
        first += self.life.past.events()
        first += [("emergency", city.show(each) | {"at": time.time()}) for each in city.emergencies.active]
        return stream(self.life.watchers.listen([shown(*each) for each in first]), "text/event-stream")

    async def flood(self, request: Request) -> Response:
        headers = request.scope["headers"]
        check_origin(headers)
        media_type(headers, ["application/json"], "application/json")
        district = from_json(await read_body(headers, request.receive, BODY_BYTES), Flood).district
        try:
            return answer(self.life.flood(district), 202)
        except KeyError:
            there = ", ".join(self.life.city.districts)
            raise NotFound("district", district, hint=f"there are: {there}") from None

    def _number(self, request: Request) -> int:
        text = request.path_params["number"]
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < self.life.options.subscribers):
            raise NotFound("person", text, hint=f"they have numbers from 0 to {self.life.options.subscribers - 1}")
        return int(text)
