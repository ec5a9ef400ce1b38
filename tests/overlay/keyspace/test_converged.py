"""An overlay that is built at once is like one that all peers have joined: nothing in it changes when time passes."""

from __future__ import annotations

from random import Random

import pytest
from keyspaces import members

from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.neighbours import Neighbours
from tocsin.overlay.keyspace.chord.fingers import Fingers
from tocsin.overlay.keyspace.messages import Described, Find
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.simulation.keyspaces.invariants import closed, zones
from tocsin.simulation.keyspaces.loopback import Loopback

SETTINGS = Settings(copies=2, successors=4)
BUILT = {
    "chord": lambda rng: converged.chord(5, rng, SETTINGS, virtual=2),
    "can": lambda rng: converged.can(13, rng, SETTINGS, space=Space(3, 1 << 20)),
    "hub": lambda rng: converged.mercury(10, rng, SETTINGS, spread=lambda x: x**3),
}


def shape(net: Loopback, ring: str) -> list[object]:
    """What maintenance would repair if it were wrong."""
    found: list[object] = []
    for member in members(net, ring):
        links = member.links
        known = sorted(links.table) if isinstance(links, Neighbours) else ()
        fingers = {number: each.id for number, each in links.fingers.items()} if isinstance(links, Fingers) else {}
        found.append((member.me.rank, [each.id for each in member.ring.successors], known, fingers))
    return found


@pytest.mark.parametrize("ring", BUILT)
def test_it_obeys_the_invariants(ring):
    for seed in range(5):
        net = Loopback(BUILT[ring](Random(seed)))
        everyone = members(net, ring)
        assert list(closed(ring, everyone)) == [] and list(zones(ring, everyone)) == []


@pytest.mark.parametrize("ring", BUILT)
def test_time_changes_nothing(ring):
    net = Loopback(BUILT[ring](Random(3)))
    before = shape(net, ring)
    net.run(60.0 if ring == "chord" else 20.0)
    assert shape(net, ring) == before


@pytest.mark.parametrize("ring", BUILT)
def test_every_member_is_found_from_every_peer(ring):
    net = Loopback(BUILT[ring](Random(4)))
    for member in members(net, ring):
        for host in net.peers:
            done = net.request(host, ring, member.order.origin(member.me), Find())
            assert isinstance(done.body, Described) and done.body.me.id == member.me.id
