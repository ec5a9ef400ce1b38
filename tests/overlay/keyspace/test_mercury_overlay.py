"""Mercury: range queries, and what samples say about a hub."""

from __future__ import annotations

from math import log
from random import Random

import pytest
from keyspaces import members, network

from tocsin.overlay.keyspace import converged
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.mercury.attribute import Attribute
from tocsin.overlay.keyspace.mercury.mercury import Hub
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.simulation.keyspaces.loopback import Loopback

PRICE = Attribute("price", 0.0, 100.0)


def filled(peers: int, count: int) -> tuple[Loopback, list[float]]:
    net, rng = network(Hub(3), peers), Random(4)
    values = [100.0 * rng.random() ** 3 for _ in range(count)]
    for number, value in enumerate(values):
        item = Item(f"i{number}", (PRICE.place(value),), value)
        assert isinstance(net.request("p0", "r", item.point, ms.Put((item,))).body, ms.Stored)
    return net, values


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (1.0, 2.0), (40.0, 99.0), (0.0, 0.1), (99.9, 100.0)])
def test_a_range_query_finds_exactly_the_items_of_the_range(low, high):
    net, values = filled(7, 60)
    done = net.command("p2", lambda call: ev.RangeRequest(call, "r", PRICE.place(low), PRICE.place(high)))
    assert sorted(each.value for each in done.body.items) == sorted(each for each in values if low <= each < high)


def test_an_empty_range_has_no_items():
    net, _ = filled(3, 5)
    done = net.command("p0", lambda call: ev.RangeRequest(call, "r", 500, 500))
    assert done.body.items == ()


def test_values_outside_of_an_attribute_go_to_its_ends():
    assert PRICE.place(-5.0) == PRICE.place(0.0) == 0
    assert PRICE.place(1e9) == PRICE.place(100.0) == max(PRICE.place(each) for each in (99.0, 100.0, 101.0))


def test_the_number_of_members_is_estimated_by_sampling():
    net = network(Hub(4), 8)
    net.run(60.0)
    estimates = [each.links.samples.members() for each in members(net)]
    assert all(4 <= each <= 16 for each in estimates)


def test_distances_of_long_links_are_harmonic_even_if_values_are_skewed():
    """Between 1/n and 1, each factor of e has the same share."""
    peers = converged.mercury(200, Random(2), Settings(copies=1), hub=Hub(6), spread=lambda x: x**4)
    ring = sorted((m for peer in peers.values() for m in peer.members.values()), key=lambda each: each.me.rank)
    place = {each.me.id: number for number, each in enumerate(ring)}
    shares = [
        log((place[link.id] - place[each.me.id]) % 200) / log(200) for each in ring for link in each.links.contacts()
    ]
    for low in (0.25, 0.5, 0.75):
        assert 0.15 < sum(low <= share < low + 0.25 for share in shares) / len(shares) < 0.45


def test_a_new_member_takes_half_of_the_items():
    net = network(Hub(3), 1, idle=1, copies=1)
    for number in range(20):
        net.request("p0", "r", (number,), ms.Put((Item(f"i{number}", (number,), number),)))
    done = net.command("p1", lambda call: ev.Enter("r", beside=members(net)[0].me, rule="median", call=call))
    net.run(10.0)
    assert isinstance(done.body, ms.Welcome)
    assert [len(each.own_items()) for each in members(net)] == [10, 10]


def test_a_member_whose_items_all_have_its_own_key_is_divided_by_width():
    net = network(Hub(3), 1, idle=1)
    net.request("p0", "r", (0,), ms.Put((Item("i", (0,), 0),)))
    done = net.command("p1", lambda call: ev.Enter("r", beside=members(net)[0].me, rule="median", call=call))
    assert isinstance(done.body, ms.Welcome) and done.body.me.position == Hub(3).size // 2
