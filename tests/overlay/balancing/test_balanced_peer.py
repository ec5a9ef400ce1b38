"""Actions on a key space: what each of them does, and what a host refuses."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tocsin.balancing.host import messages as hm
from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Redirect, Rejoin, Replicate, Split
from tocsin.balancing.host.host import Trigger
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.managers import Concern
from tocsin.overlay.balancing import strategies
from tocsin.overlay.balancing.balanced_peer import Insert
from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.model.item import Item
from tocsin.simulation.keyspaces.balanced import SETTINGS, BalancedKeySpace, one_and_idle


class Suggest:
    """A detector and balancer of one action."""

    actions = frozenset({ActionKind.SPLIT})

    def __init__(self, action: AnyAction) -> None:
        self.action = action

    def make_decision(self, scope: Any, criterion: str) -> LoadState:
        return LoadState.OVERLOADED

    def select_target(self, scope: Any, criterion: str, state: LoadState) -> str:
        return self.action.target

    def select_load_to_move(self, scope: Any, criterion: str, state: LoadState, target: str) -> list[str]:
        return []

    def rebalance(self, scope: Any, criterion: str, state: LoadState, target: str, load: Any) -> list[AnyAction]:
        return [self.action]


def suggest(space: BalancedKeySpace, peer: str, action: AnyAction, criterion: str = "items") -> None:
    host = space.peers[peer].host
    concerns, each = host.balancing.concerns, Suggest(action)
    host.balancing.concerns = [Concern(criterion, each, each)]
    space.net.event(peer, Trigger())
    host.balancing.concerns = concerns
    space.run(12.0, 1.0)


def quiet(name: str, ring: str, **settings: Any) -> Any:
    def make(peer: Any) -> strategies.Strategy:
        strategy = strategies.make(name, peer, ring, settings)
        clocks = replace(strategy.composition, balance_every=float("inf"), exchange_every=1e9)
        return replace(strategy, composition=clocks, triggers=frozenset())

    return make


def chord(virtual: int = 1, name: str = "rao-one-to-one") -> BalancedKeySpace:
    peers = converged.chord(4, Random(2), SETTINGS, virtual=virtual)
    for each in peers.values():
        each.handle(ev.Aim("chord", virtual), 0.0)
    return BalancedKeySpace(peers, "chord", quiet(name, "chord"), 1)


def zones(peers: int = 3) -> BalancedKeySpace:
    can = one_and_idle(Can(Space(2, 1 << 16)), "zones", peers, Random(1))
    space = BalancedKeySpace(can, "zones", quiet("gupta", "zones"), 1)
    rng = Random(3)
    space.store("p00", [Item(f"i{n}", (rng.randrange(1 << 16), rng.randrange(1 << 16)), n) for n in range(40)])
    return space


def test_a_virtual_server_migrates():
    space = chord(virtual=2)
    space.put(Item(f"i{n}", (hashed(f"i{n}"),), n) for n in range(60))
    before = space.loads()
    heavy, light = max(before, key=before.get), min(before, key=before.get)
    unit, load = space.peers[heavy].model.units("items")[1]
    suggest(space, heavy, Migrate(heavy, light, load, "", (unit,)))
    after = space.loads()
    assert load > 0 and after == before | {heavy: before[heavy] - load, light: before[light] + load}
    assert len(space.peers[light].model.members) == 3 and space.sessions == 0


def test_a_light_peer_may_ask_for_it_too():
    space = chord(virtual=2)
    space.put(Item(f"i{n}", (hashed(f"i{n}"),), n) for n in range(60))
    before = space.loads()
    heavy, light = max(before, key=before.get), min(before, key=before.get)
    unit, load = space.peers[heavy].model.units("items")[1]
    suggest(space, light, Migrate(heavy, light, load, "", (unit,)))
    assert len(space.peers[light].model.members) == 3 and space.sessions == 0


def test_a_zone_is_split_and_an_idle_peer_gets_a_part():
    space = zones()
    suggest(space, "p00", Split("p00", "p02", 20.0, "", "median"), "subscriptions")
    assert space.loads() == {"p00": 20.0, "p01": 0.0, "p02": 20.0} and space.sessions == 0


def test_a_peer_with_a_region_of_its_own_declines():
    space = zones()
    suggest(space, "p00", Split("p00", "p02", 20.0, "", "median"), "subscriptions")
    suggest(space, "p00", Split("p00", "p02", 10.0, "", "median"), "subscriptions")
    assert space.loads()["p00"] == 20.0
    assert "region of its own" in space.peers["p00"].host.refusals[-1].reason


def test_a_replica_serves_events_in_turn():
    space = zones()
    suggest(space, "p00", Split("p00", "p01", 20.0, "", "median"), "subscriptions")
    suggest(space, "p00", Replicate("p00", "p02", 1.0), "events")
    member = space.peers["p00"].model.members[0]
    item = member.own_items()[0]
    for _ in range(10):
        space.net.request("p01", "zones", item.point, ms.Get(item.id))
    assert member.events == 5 and space.peers["p02"].peer.load().events == 5


def test_a_light_peer_leaves_its_place_and_takes_half_of_a_heavy_one():
    peers = converged.mercury(4, Random(5), SETTINGS)
    for each in peers.values():
        each.handle(ev.Aim("hub", 1), 0.0)
    space = BalancedKeySpace(peers, "hub", quiet("bharambe", "hub"), 1)
    heavy = space.peers["p1"].model.members[0]
    start, end = heavy.region.start.position, heavy.region.end.position
    width = (end - start) % (1 << 48)
    space.put(Item(f"i{n}", ((start + n * width // 40) % (1 << 48),), n) for n in range(40))
    suggest(space, "p1", Rejoin("p1", "p3", 20.0))
    space.run(10.0, 1.0)
    assert space.loads()["p1"] == 20.0 and space.loads()["p3"] == 20.0 and len(space.members) == 4


def test_an_item_is_redirected_to_another_of_its_places_and_still_found():
    space = chord(name="byers")
    for n in range(20):
        space.net.command("p0", lambda call, n=n: Insert(call, f"k{n}", n))
    owner = {
        (f"k{n}", choice): next(each.me.host for each in space.members if each.owns((hashed(f"k{n}", choice),)))
        for n in range(20)
        for choice in (0, 1)
    }
    key = next(key for key, choice in owner if choice == 0 and owner[key, 0] != owner[key, 1])
    suggest(space, owner[key, 0], Redirect(owner[key, 0], owner[key, 1], 1.0, "", (key,)))
    assert not space.peers[owner[key, 0]].model.holds(key) and space.peers[owner[key, 1]].model.holds(key)
    for _ in range(5):
        found = space.net.command("p2", lambda call: ev.FindChoice(call, "chord", key))
        assert isinstance(found.body, ms.Found) and found.body.item.value == int(key[1:])


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Migrate("p1", "p2", 1.0, "", ("p9/9",)), "p9/9 is not here"),
        (Migrate("p1", "p1", 1.0, "", ()), "does not concern"),
        (Split("p1", "p2", 1.0), "region of its own"),
        (Rejoin("p1", "p2", float("nan")), "its load is nan"),
        (Replicate("p1", "p2", 1.0), "cannot replicate"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_changes(action, reason):
    space = chord(virtual=2)
    before = {each.me.id for each in space.members}
    suggest(space, "p1", action)
    assert reason in space.peers["p1"].host.refusals[-1].reason
    assert {each.me.id for each in space.members} == before and space.sessions == 0


@pytest.mark.parametrize(
    "message",
    [
        hm.Request("p2/0/1", "items", (Migrate("p0", "p2", 1.0, "", ("p0/0",)),)),  # of another peer
        hm.Request("p2/0/1", "items", (Migrate("p1", "p2", 1.0, "", ("p1/99",)),)),  # which it does not have
        hm.Request("p0/0/1", "items", ()),  # in another's name
        hm.Accept("p1/0/1"),
        hm.Done("p1/0/1", (0, 1, 2)),
        hm.Report(7, ()),
        "no message at all",
    ],
)
def test_a_peer_that_lies_makes_no_other_move_anything(message):
    space = chord(virtual=2)
    before = {each.me.id for each in space.members}
    space.net.event("p1", ev.Received("p2", ms.Mail("p2", message)))
    space.run(40.0, 1.0)
    assert {each.me.id for each in space.members} == before and space.sessions == 0


def test_the_first_place_of_an_inserted_item_sends_it_on_to_the_second_if_that_has_less():
    peers = converged.chord(4, Random(2), SETTINGS)
    space = BalancedKeySpace(peers, "chord", lambda peer: strategies.make("byers", peer, "chord"), 1)
    for each in space.peers.values():
        each.host.balancing.clock.due_at = float("inf")
    for n in range(100):
        space.net.command("p0", lambda call, n=n: Insert(call, f"k{n}", n))
    members = space.members
    first = [sum(each.owns((hashed(f"k{n}", 0),)) for n in range(100)) for each in members]
    assert sum(space.loads().values()) == 100 and max(space.loads().values()) < max(first)
