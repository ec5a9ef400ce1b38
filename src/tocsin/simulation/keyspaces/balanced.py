"""A key space whose peers all run a strategy, without a network: messages arrive at once, only ticks take time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from random import Random

from tocsin.overlay.balancing.balanced_peer import BalancedPeer
from tocsin.overlay.balancing.strategies import Strategy
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.overlay import Overlay
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.loopback import Loopback

#: Makes the strategy of a peer.
Make = Callable[[Peer], Strategy]
#: No machine fails here, so that copies would only cost time.
SETTINGS = Settings(copies=1)
#: Names that an idle peer knows from the start.
KNOWN = 64


class BalancedKeySpace:
    def __init__(self, peers: Mapping[str, Peer], ring: str, make: Make, seed: int) -> None:
        rng = Random(f"hosts {seed}")
        self.ring = ring
        self.peers = {name: BalancedPeer(peer, make(peer), Random(rng.getrandbits(64))) for name, peer in peers.items()}
        self.net = Loopback(self.peers)

    @property
    def members(self) -> list[Member]:
        return [member for each in self.peers.values() for member in each.peer.members_of(self.ring)]

    def loads(self, criterion: str = "items") -> dict[str, float]:
        """Of all peers, idle ones too."""
        return {name: each.model.measure(criterion) for name, each in self.peers.items()}

    def put(self, items: Iterable[Item]) -> None:
        """Each at the owner of its key, in a ring with positions."""
        members = sorted(self.members, key=lambda each: each.me.rank)
        positions = [each.me.position for each in members]
        found: dict[int, list[Item]] = {}
        for item in items:
            found.setdefault(bisect_right(positions, item.point[0]) - 1, []).append(item)
        for place, group in found.items():
            self.store(members[place].me.host, group)

    def insert(self, items: Iterable[Item]) -> None:
        """Each at the owner of its key, in any key space."""
        members = self.members
        found: dict[str, list[Item]] = {}
        for item in items:
            owner = next(each for each in members if each.owns(item.point))
            found.setdefault(owner.me.host, []).append(item)
        for host, group in found.items():
            self.store(host, group)

    def store(self, host: str, items: list[Item]) -> None:
        """At a peer that owns the keys of all of them."""
        done = self.net.request(host, self.ring, items[0].point, ms.Put(tuple(items)))
        assert isinstance(done.body, ms.Stored), done.body

    def run(self, seconds: float, tick: float = 0.5) -> None:
        self.net.run(seconds, tick)

    @property
    def sessions(self) -> int:
        return sum(len(each.host.sessions) for each in self.peers.values())

    @property
    def mails(self) -> int:
        """Messages of hosts to hosts."""
        return sum(each.mails for each in self.peers.values())


def one_and_idle(
    overlay: Overlay, ring: str, count: int, rng: Random, settings: Settings = SETTINGS
) -> dict[str, Peer]:
    """The first peer owns everything, the others wait."""
    names = [f"p{number:02}" for number in range(count)]
    peers = {name: Peer(name, {ring: overlay}, settings, Random(rng.getrandbits(64)), names[:KNOWN]) for name in names}
    peers[names[0]].handle(ev.Create(ring), 0.0)
    peers[names[0]].handle(ev.Aim(ring, 1), 0.0)
    return peers
