"""CAN: joins by split, cuts, wildcard subscriptions, mirrors."""

from __future__ import annotations

from random import Random

import pytest
from keyspaces import members, network, owner

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.boxes import Space, meet, volume
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.can.dissemination import Reached, Subscribe
from tocsin.overlay.keyspace.can.terms import QUADRUPLES, point, span
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.load import Load

SPACE = Space(2, 1 << 16)


def quadruple(number: int, *terms: str) -> Item:
    return Item(f"q{number}", point(terms), terms)


def subscription(name: str, *pattern: str | None) -> Item:
    where = span(pattern)
    return Item(name, tuple(low for low, _ in where), "p2", 1, where)


def enter(net, host: str, **how):
    return net.command(host, lambda call: ev.Enter("r", beside=members(net)[0].me, call=call, **how))


def put(net, item: Item, host: str = "p0") -> None:
    done = net.request(host, "r", item.point, ms.Put((item,)))
    assert isinstance(done.body, ms.Stored)


def fill(net, count: int) -> list[Item]:
    """Most subjects are alike."""
    rng = Random(5)
    items = [quadruple(n, "http://g", f"http://s/{rng.randint(0, 9)}", f"p{n % 3}", f"{n}") for n in range(count)]
    for item in items:
        put(net, item)
    return items


def test_zones_are_a_partition_after_every_join():
    for peers in (1, 2, 5, 12):
        net = network(Can(SPACE), peers)
        boxes = [box for each in members(net) for box in each.links.boxes]
        assert sum(map(volume, boxes)) == volume(SPACE.box)
        assert len(members(net)) == peers


def test_a_join_halves_the_zone_at_its_middle_in_turn():
    net = network(Can(SPACE), 1, idle=2)
    for host, wanted in (("p1", ((0, 1 << 15), (0, 1 << 16))), ("p2", ((0, 1 << 15), (0, 1 << 15)))):
        done = net.command(host, lambda call: ev.Enter("r", beside=members(net)[0].me, call=call))
        net.run(5.0)
        assert isinstance(done.body, ms.Welcome)
        assert members(net)[0].links.boxes == (wanted,)


def test_the_centroid_divides_the_items_where_the_middle_does_not():
    shares = {}
    for rule in ("middle", "centroid"):
        net = network(Can(QUADRUPLES), 1, idle=1, copies=1)
        fill(net, 60)
        enter(net, "p1", rule=rule)
        net.run(10.0)
        shares[rule] = sorted(len(each.own_items()) for each in members(net))
    assert shares["middle"] == [0, 60]
    assert min(shares["centroid"]) >= 10


def test_the_centroid_is_that_of_the_items_that_are_left_after_a_split():
    net = network(Can(QUADRUPLES), 1, idle=1, copies=1)
    fill(net, 40)
    enter(net, "p1", rule="centroid")
    net.run(10.0)
    for member in members(net):
        items = member.own_items()
        weight = sum(each.size for each in items)
        assert member.links.centroid.weight == weight
        for dimension in range(4):
            total = sum(each.point[dimension] * each.size for each in items)
            alike = len({each.point[dimension] for each in items}) == 1
            assert member.links.centroid.cut(dimension) == (None if alike else -(-total // weight))


def test_a_given_cut_is_used_and_one_outside_of_the_zone_refused():
    net = network(Can(SPACE), 1, idle=1)
    for cut in ((0, 0), (0, 1 << 16), (2, 5), (-1, 5)):
        done = enter(net, "p1", cut=cut)
        assert isinstance(done.body, ms.Failed) and len(members(net)) == 1
    enter(net, "p1", cut=(1, 100))
    net.run(5.0)
    assert [each.links.boxes for each in members(net)] == [
        (((0, 1 << 16), (0, 100)),),
        (((0, 1 << 16), (100, 1 << 16)),),
    ]


def test_a_zone_of_one_key_cannot_be_divided():
    net = network(Can(Space(1, 1)), 1, idle=1)
    done = enter(net, "p1")
    assert isinstance(done.body, ms.Failed) and len(members(net)) == 1


def test_a_split_by_subscriptions_divides_them_evenly():
    net = network(Can(QUADRUPLES), 1, idle=1, copies=1)
    for number in range(10):
        where = span((f"graph {number}", None, None, None))
        item = Item(f"s{number}", tuple(low for low, _ in where), "p0", 1, where)
        assert isinstance(net.request("p0", "r", item.point, Subscribe(item)).body, Reached)
    enter(net, "p1", rule="subscriptions")
    net.run(10.0)
    assert [each.load().subscriptions for each in members(net)] == [5, 5]


@pytest.mark.parametrize("pattern", [("http://g", None, "p1", None), (None, None, None, None), ("x", "y", "z", None)])
def test_a_subscription_reaches_every_peer_that_owns_its_fixed_terms(pattern):
    net = network(Can(QUADRUPLES, "centroid"), 1, idle=7, copies=1)
    fill(net, 80)
    for number in range(1, 8):
        heaviest = max(members(net), key=lambda each: len(each.own_items()))
        net.command(f"p{number}", lambda call, at=heaviest.me: ev.Enter("r", beside=at, rule="centroid", call=call))
        net.run(8.0)
    where = span(pattern)
    item = Item("s", tuple(low for low, _ in where), "p3", 1, where)
    done = net.request("p0", "r", item.point, Subscribe(item))
    wanted = {each.me.id for each in members(net) if any(meet(box, where) for box in each.links.boxes)}
    assert {each.me.id for each in members(net) if "s" in each.store.items} == wanted
    assert isinstance(done.body, Reached) and done.body.peers == len(wanted)


def test_a_published_quadruple_is_stored_and_matching_subscribers_are_notified():
    net = network(Can(QUADRUPLES), 4)
    for name, pattern in (("s1", ("g", None, None, None)), ("s2", ("h", None, None, None))):
        item = subscription(name, *pattern)
        net.request("p1", "r", item.point, Subscribe(item))
    item = quadruple(1, "g", "s", "p", "o")
    done = net.request("p0", "r", item.point, ms.Publish(item))
    assert isinstance(done.body, ms.Stored) and "q1" in owner(net, item.point).store.items
    assert [(host, each.subscription, each.item.id) for host, each in net.received] == [("p2", "s1", "q1")]


def test_a_subscription_that_has_ended_is_not_notified():
    net = network(Can(QUADRUPLES), 3)
    where = span(("g", None, None, None))
    corner = tuple(low for low, _ in where)
    net.request("p1", "r", corner, Subscribe(Item("s", corner, "p2", 1, where)))
    net.request("p1", "r", corner, Subscribe(Item("s", corner, None, 2, where)))
    net.request("p0", "r", point(("g", "s", "p", "o")), ms.Publish(quadruple(1, "g", "s", "p", "o")))
    assert net.received == []


def test_neighbours_take_turns_with_the_mirrors_of_a_zone():
    net = network(Can(SPACE), 4, idle=2, copies=1)
    item = Item("hot", (5, 5), "value")
    put(net, item)
    heavy = owner(net, item.point)
    for host in ("p4", "p5"):
        done = net.command(heavy.me.host, lambda call, host=host: ev.Invite(heavy.me.id, host, mirror=True, call=call))
        assert isinstance(done.body, ms.Taken)
    net.run(6.0)
    asking = next(each.me.host for each in members(net) if each is not heavy)
    before = {host: net.peers[host].load().events for host in (heavy.me.host, "p4", "p5")}
    for _ in range(30):
        assert isinstance(net.request(asking, "r", item.point, ms.Get("hot")).body, ms.Found)
    served = {host: net.peers[host].load().events - count for host, count in before.items()}
    assert served == {heavy.me.host: 10, "p4": 10, "p5": 10}


def test_a_mirror_follows_its_zone_and_ends_with_its_owner():
    net = network(Can(SPACE), 3, idle=1)
    heavy = members(net)[0]
    net.command(heavy.me.host, lambda call: ev.Invite(heavy.me.id, "p3", mirror=True, call=call))
    net.run(4.0)
    item = Item("new", heavy.order.origin(heavy.me), "value")
    put(net, item)
    (mirror,) = net.peers["p3"].membership.mirrors.values()
    assert "new" in mirror.store.items
    net.event(heavy.me.host, ev.Aim("r", 0))
    net.event(heavy.me.host, ev.Withdraw(heavy.me.id))
    net.run(30.0)
    assert net.peers["p3"].membership.mirrors == {}
    assert isinstance(net.request("p3", "r", item.point, ms.Get("new")).body, ms.Found)


def test_a_busy_host_is_not_invited_and_an_idle_one_takes_half():
    net = network(Can(SPACE), 2, idle=1, copies=1)
    first = members(net)[0]
    refused = net.command(first.me.host, lambda call: ev.Invite(first.me.id, members(net)[1].me.host, call=call))
    assert isinstance(refused.body, ms.Failed)
    taken = net.command(first.me.host, lambda call: ev.Invite(first.me.id, "p2", call=call))
    net.run(5.0)
    assert isinstance(taken.body, ms.Taken) and len(members(net)) == 3


def test_the_load_of_a_peer_names_items_and_subscriptions():
    net = network(Can(QUADRUPLES), 1)
    fill(net, 3)
    where = span((None, None, None, None))
    net.request("p0", "r", (0, 0, 0, 0), Subscribe(Item("s", (0, 0, 0, 0), "p0", 1, where)))
    load = net.peers["p0"].load()
    assert (load.items, load.subscriptions, load.pointers) == (3, 1, 0)
    assert load.plus(Load(items=1)).items == 4
