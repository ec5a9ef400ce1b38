"""Redirection pointers: two choices balance items, and every lookup finds its item by one random function."""

from __future__ import annotations

from keyspaces import members, network

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.chord.choices import place_id, placed
from tocsin.overlay.keyspace.chord.chord import Chord, hashed
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.redirection import Pointer


def insert(net, keys):
    for key in keys:
        done = net.command("p0", lambda call, key=key: ev.InsertChoice(call, "r", key, f"value of {key}"))
        assert isinstance(done.body, ms.Stored)


def find(net, key: str, host: str = "p1"):
    return net.command(host, lambda call: ev.FindChoice(call, "r", key)).body


def where(net, key: str) -> int:
    """The choice that has the item; the other one has to point there."""
    values = {}
    for choice in range(2):
        for member in members(net):
            if member.owns((hashed(key, choice),)):
                values[choice] = member.store.items[place_id(key, choice)].value
    (found,) = [choice for choice, value in values.items() if not isinstance(value, Pointer)]
    assert values[1 - found] == Pointer(found)
    return found


def test_every_item_is_found_whichever_function_is_asked():
    net = network(Chord(), 8, copies=1)
    keys = [f"k{number}" for number in range(20)]
    insert(net, keys)
    for key in keys:
        where(net, key)
        for _ in range(6):
            assert find(net, key).item.value == f"value of {key}"


def test_two_choices_leave_less_at_the_fullest_peer_than_one():
    keys = [f"k{number}" for number in range(300)]
    two, one = network(Chord(), 10, copies=1), network(Chord(), 10, copies=1)
    insert(two, keys)
    for key in keys:
        one.request("p0", "r", (hashed(key),), ms.Put((Item(key, (hashed(key),), ""),)))
    fullest = [max(peer.load().items for peer in net.peers.values()) for net in (two, one)]
    assert fullest[0] < 0.8 * fullest[1]
    assert sum(peer.load().items for peer in two.peers.values()) == 300
    assert sum(peer.load().pointers for peer in two.peers.values()) == 300


def test_an_item_is_moved_to_its_other_place_and_still_found():
    net = network(Chord(), 6, copies=1)
    insert(net, ["a"])
    before = where(net, "a")
    for target in (1 - before, before):
        done = net.command("p2", lambda call, target=target: ev.Redirect(call, "r", "a", target))
        assert isinstance(done.body, ms.Stored) and where(net, "a") == target
        assert all(find(net, "a").item.value == "value of a" for _ in range(6))


def test_an_unknown_item_cannot_be_moved_or_found():
    net = network(Chord(), 3)
    assert isinstance(net.command("p0", lambda call: ev.Redirect(call, "r", "none", 1)).body, ms.Failed)
    assert isinstance(find(net, "none"), ms.Missing)


def test_pointers_that_point_at_each_other_end_the_lookup():
    net = network(Chord(), 3)
    for choice in range(2):
        point = (hashed("k", choice),)
        net.request("p0", "r", point, ms.Put((Item(place_id("k", choice), point, Pointer(1 - choice)),)))
    assert isinstance(find(net, "k"), ms.Failed)


def test_the_key_of_a_place_may_contain_its_separator():
    assert placed(place_id("a#b", 1)) == ("a#b", 1)
