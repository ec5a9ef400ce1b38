"""Small key spaces in memory for tests: peers that join one after the other, and time that passes at once."""

from __future__ import annotations

from random import Random

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.overlay import Overlay
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.loopback import Loopback


def network(overlay: Overlay, peers: int, *, idle: int = 0, members: int = 1, copies: int = 2) -> Loopback:
    """All have joined the ring ``r``; ``idle`` ones have not."""
    rng, names = Random(1), [f"p{number}" for number in range(peers + idle)]
    settings = Settings(copies=copies, successors=copies + 2)
    found = Loopback(
        {name: Peer(name, {"r": overlay}, settings, Random(rng.getrandbits(64)), names[:peers]) for name in names}
    )
    found.event("p0", ev.Create("r"))
    for name in names[:peers]:
        found.event(name, ev.Aim("r", members))
        found.run(3.0)
    found.run(20.0)
    return found


def members(loopback: Loopback, ring: str = "r") -> list[Member]:
    """In the order of the ring."""
    found = [each for peer in loopback.peers.values() for each in peer.members.values() if each.ring.name == ring]
    return sorted(found, key=lambda each: each.me.rank)


def owner(loopback: Loopback, point: tuple[int, ...]) -> Member:
    (found,) = [each for each in members(loopback) if each.owns(point)]
    return found
