"""Chord: lookups, virtual servers that move, leaving, and items that stay."""

from __future__ import annotations

from keyspaces import members, network, owner

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.chord.chord import Chord, hashed
from tocsin.overlay.keyspace.model.item import Item


def stored(net, count: int) -> list[Item]:
    items = [Item(f"i{number}", (hashed(f"i{number}"),), number) for number in range(count)]
    for item in items:
        assert isinstance(net.request("p0", "r", item.point, ms.Put((item,))).body, ms.Stored)
    return items


def all_found(net, items: list[Item], host: str = "p0") -> bool:
    return all(isinstance(net.request(host, "r", each.point, ms.Get(each.id)).body, ms.Found) for each in items)


def test_every_member_follows_the_one_before_it():
    net = network(Chord(), 6, members=2)
    ring = members(net)
    assert len(ring) == 12
    for before, member in zip(ring[-1:] + ring[:-1], ring, strict=True):
        assert before.ring.successors[0].id == member.me.id
        assert member.ring.predecessor is not None and member.ring.predecessor.id == before.me.id


def test_a_confirmed_item_is_on_as_many_hosts_as_there_are_copies():
    net = network(Chord(), 5, members=3, copies=3)
    for item in stored(net, 12):
        assert len({each.me.host for each in members(net) if item.id in each.store.items}) >= 3


def test_a_virtual_server_moves_with_its_items():
    net = network(Chord(), 4, members=2, copies=1)
    items = stored(net, 30)
    member = max(members(net), key=lambda each: len(each.own_items()))
    target = next(host for host in net.peers if host != member.me.host)
    moved = [each.id for each in member.own_items()]
    done = net.command(member.me.host, lambda call: ev.HandOver(member.me.id, target, call))
    net.run(20.0)
    assert isinstance(done.body, ms.Taken)
    (now,) = [each for each in members(net) if each.me.position == member.me.position]
    assert now.me.host == target and [each.id for each in now.own_items()] == moved
    assert len(net.peers[target].members) == 3 and len(net.peers[member.me.host].members) == 1
    assert all_found(net, items)


def test_a_peer_that_leaves_loses_nothing_even_without_copies():
    net = network(Chord(), 5, copies=1)
    items = stored(net, 40)
    for host in ("p1", "p3"):
        (member,) = net.peers[host].members.values()
        net.event(host, ev.Aim("r", 0))
        net.event(host, ev.Withdraw(member.me.id))
        net.run(15.0)
        assert not net.peers[host].members
    assert all_found(net, items) and all_found(net, items, "p3")


def test_a_peer_leaves_and_enters_beside_another_one_taking_half_of_its_items():
    net = network(Chord(), 5, copies=1)
    items = stored(net, 60)
    light, *_, heavy = sorted(members(net), key=lambda each: len(each.own_items()))
    before = len(heavy.own_items())
    then = ev.Enter("r", beside=heavy.me, rule="median")
    net.event(light.me.host, ev.Withdraw(light.me.id, 0, then))
    net.run(25.0)
    (again,) = net.peers[light.me.host].members.values()
    took = len(again.own_items())
    assert again.ring.predecessor is not None and again.ring.predecessor.id == heavy.me.id
    assert abs(took - before / 2) <= 1 or took > before / 2
    assert all_found(net, items)


def test_the_last_member_does_not_leave():
    net = network(Chord(), 1)
    (member,) = members(net)
    done = net.command("p0", lambda call: ev.Withdraw(member.me.id, call))
    assert isinstance(done.body, ms.Failed) and members(net) == [member]


def test_commands_about_unknown_members_fail_and_change_nothing():
    net = network(Chord(), 2)
    before = [each.me.id for each in members(net)]
    for event in (
        lambda call: ev.Withdraw("p0/9/none", call),
        lambda call: ev.HandOver("p0/9/none", "p1", call),
        lambda call: ev.HandOver(next(iter(net.peers["p0"].members)), "p0", call),
        lambda call: ev.Invite("p0/9/none", "p1", call=call),
        lambda call: ev.Invite(next(iter(net.peers["p0"].members)), "p1", mirror=True, call=call),
    ):
        assert isinstance(net.command("p0", event).body, ms.Failed)
    assert [each.me.id for each in members(net)] == before


def test_a_lookup_by_a_peer_without_members_goes_through_the_others():
    net = network(Chord(), 3, idle=1)
    items = stored(net, 5)
    assert all_found(net, items, "p3")


def test_a_lookup_finds_the_only_host_with_members_through_hosts_without_any():
    net = network(Chord(), 4, idle=1)
    items = stored(net, 5)
    for name in ("p1", "p2", "p3"):
        (member,) = net.peers[name].members
        net.event(name, ev.Aim("r", 0))
        net.command(name, lambda call, member=member: ev.Withdraw(member, call))
    assert [each.me.host for each in members(net)] == ["p0"]
    net.peers["p4"].context.bootstrap.remove("p0")
    net.peers["p4"].context.acquaintances.clear()
    assert all_found(net, items, "p4")


def test_a_lookup_without_any_other_peer_ends_with_a_failure():
    net = network(Chord(), 2)
    (member,) = net.peers["p0"].members.values()
    del net.peers["p1"]
    net.event("p0", ev.Request(77, "r", (member.region.end.position,), ms.Get("none")))
    net.run(0.5)
    assert 77 not in net.answers
    net.run(15.0)
    assert isinstance(net.answers[77].body, ms.Missing | ms.Failed)


def test_a_missing_key_is_reported_as_missing():
    net = network(Chord(), 4)
    assert isinstance(net.request("p1", "r", (hashed("none"),), ms.Get("none")).body, ms.Missing)


def test_an_older_version_does_not_replace_a_later_one():
    net = network(Chord(), 3)
    point = (hashed("k"),)
    for version, value in ((2, "new"), (1, "old")):
        net.request("p0", "r", point, ms.Put((Item("k", point, value, version),)))
    assert net.request("p1", "r", point, ms.Get("k")).body.item.value == "new"
    assert owner(net, point).store.items["k"].version == 2
