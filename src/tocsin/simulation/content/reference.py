"""Routing tables in a form in which two brokers compare, and those of an overlay that is built from nothing."""

from __future__ import annotations

from tocsin.content import Advertisement, Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.router import Router
from tocsin.simulation.content.loopback import Loopback
from tocsin.simulation.content.world import World

#: (whose, kind, space, normal form) of every announcement.
Tables = frozenset[tuple[str, str, str, frozenset[object]]]


def tables(router: Router) -> Tables:
    """Without ids: equal conditions may have been written in several ways."""
    return frozenset(
        (key.owner, kind, space.name, frozenset(what.key))
        for space in router.routing.spaces.values()
        for kind, table in (("advertisement", space.advertisements), ("subscription", space.subscriptions))
        for key, what in table.items()
    )


def fresh(world: World) -> dict[str, Tables]:
    """The same brokers, links and clients, without anything that happened."""
    loopback = Loopback()
    names = {name for pair in world.tree for name in pair} | {node.name for node in world.up}
    for name in sorted(names - world.gone):
        loopback.start(name, pin="both")
    loopback.connect(world.tree)
    for client in world.clients.values():
        if client.home is not None:
            loopback.event(client.home.name, ev.Attach(client.name, client.kind))
            for id, what in client.wanted.items():
                make = ev.SubscribeFeed if client.kind == "subscriber" else ev.AdvertiseFeed
                loopback.event(client.home.name, make(client.name, id, "feed", what))  # type: ignore[arg-type]
    return {name: tables(router) for name, router in loopback.routers.items()}


def implied(world: World, source: str, target: str) -> Tables:
    """What one broker should have from its neighbour, worked out from all announcements at once."""
    near, far = world.beyond(target, source), world.beyond(source, target)
    advertised = [each for each in _announced(world, near) if isinstance(each, Advertisement)]
    attracting = [each for each in _announced(world, far) if isinstance(each, Advertisement)]
    subscribed = [
        each
        for each in _announced(world, near)
        if isinstance(each, Condition) and each.terms and any(ad.intersects(each) for ad in attracting)
    ]
    return frozenset(
        (source, kind, "feed", frozenset(each.key))
        for kind, all_of_them in (("advertisement", advertised), ("subscription", subscribed))
        for each in all_of_them
        if not any(other.key != each.key and other.covers(each) for other in all_of_them)  # type: ignore[arg-type]
    )


def _announced(world: World, brokers: set[str]) -> list[Condition | Advertisement]:
    clients = [each for each in world.clients.values() if each.home is not None and each.home.name in brokers]
    return [what for client in clients for what in client.wanted.values()]
