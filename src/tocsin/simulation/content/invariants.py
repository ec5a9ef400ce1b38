"""What must be true of an overlay once it is quiet."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.content import Condition
from tocsin.overlay.content.events import Kind
from tocsin.overlay.content.messages import Role
from tocsin.overlay.content.roles import SERVES, role_of
from tocsin.simulation.content.reference import fresh, implied, tables
from tocsin.simulation.content.world import World
from tocsin.simulation.violation import Violation


def unsettled(world: World) -> Iterator[Violation]:
    """What is not right yet."""
    yield from links(world)
    yield from roles(world)
    yield from placed(world)
    yield from routed(world)
    yield from minimal(world)
    yield from bounded(world)


def links(world: World) -> Iterator[Violation]:
    """Messages flow over the links that there should be, and over no others."""
    for node in world.up:
        found = {link.name for link in node.router.links.joined if link.established}
        if found != set(world.linked(node.name)):
            yield Violation("links are as configured", f"{node.name} has {sorted(found)}")
        known, there = set(node.router.topology.records), {each.name for each in world.up} - {node.name}
        if known != there:
            yield Violation("all brokers are known", f"{node.name} knows {sorted(known)} of {sorted(there)}")
        for name in sorted(known & there):
            if node.router.topology.records[name] != world.nodes[name].router.topology.me:
                yield Violation("records are the latest", f"{node.name} has an old record of {name}")


def expected_role(world: World, name: str) -> Role:
    return world.scenario.pins.get(name) or role_of(len(world.linked(name)), len(world.up))


def roles(world: World) -> Iterator[Violation]:
    for node in world.up:
        if node.router.role != expected_role(world, node.name):
            yield Violation("roles follow from the topology", f"{node.name} is {node.router.role}")


def placed(world: World) -> Iterator[Violation]:
    """Each client is at one broker that serves its kind, if there is one."""
    kinds: tuple[Kind, Kind] = ("publisher", "subscriber")
    served = {kind: {n.name for n in world.up if n.router.role in SERVES[kind]} for kind in kinds}
    for client in world.clients.values():
        where = [node.name for node in world.up if client.name in node.router.clients.all]
        home = client.home.name if client.home is not None else ""
        if where != ([] if client.ended else [home]):
            yield Violation("each client is at one broker", f"{client.name} of {home} is at {where}")
        elif not client.ended and not client.control and served[client.kind] and home not in served[client.kind]:
            yield Violation("clients are where their kind is served", f"{client.name} is at {home}")


def routed(world: World) -> Iterator[Violation]:
    """Tables are those of an overlay in which nothing ever happened."""
    right = fresh(world)
    for node in world.up:
        found = tables(node.router)
        if found != right[node.name]:
            more, less = len(found - right[node.name]), len(right[node.name] - found)
            yield Violation("tables are those of a new overlay", f"{node.name} has {more} too many and lacks {less}")


def minimal(world: World) -> Iterator[Violation]:
    """From each neighbour a broker has the covering set of what is beyond it and may match."""
    for node in world.up:
        found = {(owner, kind, "feed", key) for owner, kind, _, key in tables(node.router)}
        for neighbour in world.linked(node.name):
            right = implied(world, neighbour, node.name)
            has = {each for each in found if each[0] == neighbour}
            if has != right:
                more, less = len(has - right), len(right - has)
                what = f"{node.name} has {more} too many of {neighbour} and lacks {less}"
                yield Violation("tables are the covering sets", what)


def bounded(world: World) -> Iterator[Violation]:
    """Nothing is left of what happened."""
    for node in world.up:
        router = node.router
        waiting = sum(link.waiting for link in router.links.all.values())
        if waiting:
            yield Violation("nothing waits", f"{node.name} has {waiting} messages for its neighbours")
        entries = sum(len(each.advertisements) + len(each.subscriptions) for each in router.routing.spaces.values())
        if entries != len(tables_of(world, node.name)):
            yield Violation("nothing is left of the past", f"{node.name} has {entries} entries")
        if len(router.seen) > len(world.nodes):
            yield Violation("nothing is left of the past", f"{node.name} remembers {len(router.seen)} heads")


def tables_of(world: World, name: str) -> list[tuple[str, int | str]]:
    """What the neighbours and clients of a broker announced to it."""
    router = world.nodes[name].router
    found: list[tuple[str, int | str]] = [(each, id) for each, ids in router.routing.neighbours.items() for id in ids]
    return found + [(client.name, id) for client in router.clients.all.values() for id in client.announced]


def wasted(world: World) -> Iterator[Violation]:
    """No publication went to a broker without a matching subscription at it or beyond it."""
    for publication, source, target in world.passed:
        beyond = world.beyond(source, target)
        if not any(
            isinstance(what, Condition) and what.matches(publication.values)
            for client in world.clients.values()
            if client.home is not None and client.home.name in beyond
            for what in client.wanted.values()
        ):
            yield Violation("publications go where they match", f"{publication.id} went from {source} to {target}")
