from __future__ import annotations

from random import Random

import pytest

from tocsin.balancing.host.actions import Migrate, Split
from tocsin.overlay.balancing.region_load import RegionLoad
from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.simulation.keyspaces.loopback import Loopback

SETTINGS = Settings(copies=1)


@pytest.fixture
def loads() -> dict[str, RegionLoad]:
    peers = converged.chord(4, Random(1), SETTINGS, virtual=3)
    network = Loopback(peers)
    for number in range(60):
        point = (hashed(f"i{number}"),)
        network.request("p0", "chord", point, ms.Put((Item(f"i{number}", point, number),)))
    return {name: RegionLoad(peer, "chord") for name, peer in peers.items()}


def test_the_load_of_a_peer_is_that_of_its_virtual_servers(loads):
    assert sum(each.measure("items") for each in loads.values()) == 60
    for each in loads.values():
        units = each.units("items")
        assert sum(load for _, load in units) == each.measure("items")
        assert [load for _, load in units] == sorted((load for _, load in units), reverse=True)
        assert all(each.holds(unit) for unit, _ in units) and not each.holds("another")


def test_what_if_changes_nothing_else(loads):
    load = loads["p1"]
    unit, weight = load.units("items")[0]
    before, trial = load.measure("items"), load.what_if()
    trial.apply(Migrate("p1", "p2", weight, "", (unit,)))
    trial.apply(Migrate("p2", "p1", 5.0, "", ("of p2",)))
    assert trial.measure("items") == before - weight + 5.0
    trial.apply(Split("p1", "p3", 2.0))
    assert trial.measure("items") == before - weight + 3.0
    assert load.measure("items") == before


def test_events_are_a_rate(loads):
    load = loads["p0"]
    for member in load.members:
        member.events += 10
    load.tick(5.0)
    assert load.measure("events") == 0.0  # too short a time
    load.tick(20.0)
    assert load.measure("events") == 30 / 20
    load.tick(40.0)
    assert load.measure("events") == 0.0


def test_neighbours_are_other_hosts_each_once(loads):
    for name, each in loads.items():
        assert name not in each.hosts and len(set(each.hosts)) == len(each.hosts)
        assert set(each.around) <= set(each.hosts)


def test_a_number_is_a_key_of_every_key_space():
    peers = converged.can(2, Random(1), SETTINGS, space=Space(3, 1 << 32))
    load = RegionLoad(peers["p0"], "can")
    assert load.point(5) == load.point(5) != load.point(6)
    assert len(load.point(5)) == 3 and all(0 <= x < 1 << 32 for x in load.point(5))
