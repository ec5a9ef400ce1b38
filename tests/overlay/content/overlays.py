"""Small overlays for tests: brokers on a loopback, their clients, and what they have in their tables."""

from __future__ import annotations

from typing import Any

from tocsin.cluster.model import Column
from tocsin.content import Advertisement, Attributes, Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.instructions import Instruction
from tocsin.overlay.content.router import Router
from tocsin.simulation.content.loopback import Loopback

A = Attributes.of_columns([Column("a", "bigint"), Column("b", "bigint")])
FEED = "feed"


def condition(text: str) -> Condition:
    return Condition.parse(text, A)


def overlay(*links: str, pin: ms.Role | None = "both", names: str = "") -> Loopback:
    """``overlay("B1 B2", "B2 B3")``: each pair is connected, the first to the second."""
    loopback = Loopback()
    pairs = [tuple(each.split()) for each in links]
    for name in dict.fromkeys([*names.split(), *(name for pair in pairs for name in pair)]):
        loopback.start(name, pin=pin)
    loopback.connect((one, other) for one, other in pairs)
    return loopback


def advertise(loopback: Loopback, broker: str, client: str, text: str, id: str = "") -> list[Instruction]:
    if client not in loopback.routers[broker].clients.all:
        loopback.event(broker, ev.Attach(client, "publisher"))
    return loopback.event(broker, ev.AdvertiseFeed(client, id or client, FEED, Advertisement(condition(text))))


def subscribe(loopback: Loopback, broker: str, client: str, text: str, id: str = "") -> list[Instruction]:
    if client not in loopback.routers[broker].clients.all:
        loopback.event(broker, ev.Attach(client, "subscriber"))
    return loopback.event(broker, ev.SubscribeFeed(client, id or client, FEED, condition(text)))


def publish(loopback: Loopback, broker: str, client: str, **values: Any) -> list[Instruction]:
    return loopback.event(broker, ev.Publish(client, client, values))


def table(router: Router, kind: str = "subscriptions") -> set[tuple[str, str]]:
    """(next hop, condition) of a broker's routing table, as in figure 2.2."""
    return {
        (key.owner, getattr(what, "condition", what).to_sql())
        for space in router.routing.spaces.values()
        for key, what in getattr(space, kind).items()
    }


def bodies(loopback: Loopback, kind: type[Any], *, source: str = "", target: str = "") -> list[Any]:
    return [
        body
        for one, other, body in loopback.sent
        if isinstance(body, kind) and source in ("", one) and target in ("", other)
    ]
