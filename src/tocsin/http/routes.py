"""Declares each route at the method that answers it; router, OpenAPI document and reference page are made from that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, get_type_hints

from msgspec import Struct

BROKER = "the broker, with its key and the token of its registration"
ADMIN = "the admin token; without one only this machine"
OBSERVER = "the admin token; on loopback anybody"

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Described(NamedTuple):
    """``name`` is that of the method that answers; ``answer`` a struct, or the names of the fields."""

    method: str
    path: str
    name: str
    meaning: str
    body: type[Struct] | None
    answer: type[Struct] | str
    who: str
    query: type[Struct] | None


def route(
    request: str,
    meaning: str,
    answer: type[Struct] | str,
    who: str = "anybody",
    *,
    query: type[Struct] | None = None,
    body: type[Struct] | None = None,
) -> Callable[[Handler], Handler]:
    """``request`` is method and path. A parameter ``body`` of the method gets the request's body, of its type."""

    def described(handler: Handler) -> Handler:
        method, _, path = request.partition(" ")
        kind = body or get_type_hints(handler).get("body")
        known = [Described(method, path, handler.__name__, meaning, kind, answer, who, query), *routes_of(handler)]
        handler.routes = known  # type: ignore[attr-defined]
        return handler

    return described


def routes_of(handler: Any) -> list[Described]:
    return getattr(handler, "routes", [])


def all_routes(app: type[Any]) -> list[Described]:
    """The routes of all methods of a class and of those it inherits, in the order of their definition."""
    return [each for part in app.__mro__ for handler in vars(part).values() for each in routes_of(handler)]
