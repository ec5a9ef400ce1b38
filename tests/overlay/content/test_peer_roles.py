"""PEER: roles from the topology, conversion as brokers join, and where clients are sent."""

from __future__ import annotations

from random import Random

import pytest
from overlays import advertise, condition, overlay, publish, subscribe

from tocsin.content import Advertisement
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Attached, Redirect
from tocsin.overlay.content.roles import role_of
from tocsin.simulation.content.loopback import Loopback


def roles(loopback: Loopback) -> dict[str, str]:
    return {name: router.role for name, router in loopback.routers.items()}


def redirects(loopback: Loopback) -> dict[str, str]:
    """The last target of each client."""
    return {each.client: each.target for _, each in loopback.done if isinstance(each, Redirect)}


@pytest.mark.parametrize(
    ("neighbours", "brokers", "role"),
    [(0, 1, "both"), (1, 2, "both"), (1, 3, "edge"), (2, 3, "head"), (1, 10, "edge"), (5, 10, "head")],
)
def test_the_role_follows_from_the_topology(neighbours, brokers, role):
    assert role_of(neighbours, brokers) == role


def test_one_or_two_brokers_serve_everybody():
    loopback = overlay("A B", pin=None)
    assert roles(loopback) == {"A": "both", "B": "both"}
    for name in "AB":
        for kind in ("publisher", "subscriber"):
            assert isinstance(loopback.event(name, ev.Attach(f"{kind} {name}", kind))[0], Attached)


def test_the_third_broker_makes_the_one_that_accepts_it_a_head_and_both_kinds_of_clients_migrate():
    loopback = overlay("A B", pin=None, names="C")
    subscribe(loopback, "B", "sub at B", "a > 5")
    advertise(loopback, "B", "pub at B", "a > 1")
    advertise(loopback, "A", "pub at A", "a > 1")
    subscribe(loopback, "A", "sub at A", "a > 5")
    loopback.done.clear()
    loopback.event("C", ev.Connect("B"))
    assert roles(loopback) == {"A": "edge", "B": "head", "C": "edge"}
    found = redirects(loopback)
    assert found.pop("sub at B") in ("A", "C")
    assert found == {"pub at A": "B"}


def test_a_client_keeps_its_service_until_it_detaches():
    loopback = overlay("A B", pin=None, names="C")
    subscribe(loopback, "B", "sub", "a > 5")
    advertise(loopback, "A", "pub", "a > 1")
    loopback.event("C", ev.Connect("B"))
    publish(loopback, "A", "pub", a=10)
    assert loopback.delivered == [("sub", {"a": 10})]


def test_a_redirection_is_repeated_until_the_client_follows():
    loopback = overlay("A B", pin=None, names="C")
    advertise(loopback, "A", "pub", "a > 1")
    loopback.event("C", ev.Connect("B"))
    loopback.run(11)
    assert sum(isinstance(each, Redirect) for _, each in loopback.done) == 3
    loopback.event("A", ev.Detach("pub"))
    loopback.done.clear()
    loopback.run(11)
    assert loopback.done == []


def test_a_broker_that_connects_to_an_edge_makes_it_a_head():
    loopback = overlay("A B", "C B", pin=None, names="D")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.done.clear()
    loopback.event("D", ev.Connect("C"))
    assert roles(loopback) == {"A": "edge", "B": "head", "C": "head", "D": "edge"}
    assert redirects(loopback) == {"sub": "D"}


def test_roles_convert_back_when_brokers_leave():
    loopback = overlay("A B", "C B", pin=None)
    loopback.event("C", ev.Leave())
    assert roles(loopback) == {"A": "both", "B": "both", "C": "both"}


@pytest.mark.parametrize("pin", ["head", "edge", "both"])
def test_a_pinned_role_stays_whatever_connects(pin):
    loopback = Loopback()
    for name in "AC":
        loopback.start(name)
    loopback.start("B", pin=pin)
    loopback.connect([("A", "B"), ("C", "B")])
    assert roles(loopback)["B"] == pin
    assert loopback.routers["A"].topology.records["B"].role == pin


def test_control_clients_stay_where_they_are():
    loopback = overlay("A B", pin=None, names="C")
    loopback.event("B", ev.Attach("load reports", "subscriber", control=True))
    loopback.event("A", ev.Attach("agent", "publisher", control=True))
    loopback.event("C", ev.Connect("B"))
    loopback.run(11)
    assert redirects(loopback) == {}
    assert isinstance(loopback.event("B", ev.Attach("later", "subscriber", control=True))[0], Attached)


def test_an_edge_redirects_a_publisher_to_its_head_and_a_head_a_subscriber_to_one_of_its_edges():
    loopback = overlay("A B", "C B", "B E", "F E", "G E", pin=None)
    assert loopback.event("A", ev.Attach("pub", "publisher"))[0].target == "B"
    assert loopback.event("F", ev.Attach("pub", "publisher"))[0].target == "E"
    found = {loopback.event("E", ev.Attach(f"sub{n}", "subscriber"))[0].target for n in range(40)}
    assert found == {"F", "G"}
    assert loopback.routers["E"].clients.all == {}


def test_an_overloaded_edge_gets_no_subscribers_while_another_has_room():
    loopback = overlay("A B", "C B", "B E", "F E", "G E", pin=None)
    loopback.event("F", ev.Overload(True))
    assert {loopback.event("E", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(20)} == {"G"}
    loopback.event("G", ev.Overload(True))
    assert {loopback.event("E", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(40)} == {"A", "C"}
    for name in "AC":
        loopback.event(name, ev.Overload(True))
    assert {loopback.event("E", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(40)} == {"F", "G"}
    loopback.event("F", ev.Overload(False))
    assert {loopback.event("E", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(20)} == {"F"}


def test_subscribers_go_to_the_nearest_cluster_when_their_own_has_no_edge():
    """H is between two heads: its cluster is empty, and the ones beside it are nearer than the last."""
    loopback = overlay("A B", "H B", "C H", "D C", "E D", "F E", pin=None)
    assert [name for name, role in roles(loopback).items() if role == "edge"] == ["A", "F"]
    assert {loopback.event("H", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(20)} == {"A"}


def test_an_edge_whose_link_is_down_gets_no_subscribers():
    loopback = overlay("A B", "C B", pin=None)
    loopback.broken.add(frozenset("AB"))
    loopback.run(5)
    assert {loopback.event("B", ev.Attach(f"s{n}", "subscriber"))[0].target for n in range(20)} == {"C"}


def test_clients_are_served_where_they_are_if_no_other_broker_serves_them():
    loopback = overlay("A B", "C B", pin="head")
    assert isinstance(loopback.event("A", ev.Attach("sub", "subscriber"))[0], Attached)


def test_a_client_that_was_redirected_often_is_accepted():
    loopback = overlay("A B", "C B", pin=None)
    assert isinstance(loopback.event("A", ev.Attach("pub", "publisher", redirects=4))[0], Attached)


def test_publications_find_subscribers_that_migrated():
    loopback = overlay("A B", pin=None, names="C")
    subscribe(loopback, "B", "sub", "a > 5")
    loopback.event("C", ev.Connect("B"))
    target = redirects(loopback)["sub"]
    loopback.event("B", ev.Detach("sub"))
    loopback.event(target, ev.Attach("sub", "subscriber", redirects=1))
    loopback.event(target, ev.SubscribeFeed("sub", "sub", "feed", condition("a > 5")))
    loopback.event("B", ev.Attach("pub", "publisher"))
    loopback.event("B", ev.AdvertiseFeed("pub", "pub", "feed", Advertisement(condition("a > 1"))))
    publish(loopback, "B", "pub", a=10)
    assert loopback.delivered == [("sub", {"a": 10})]


@pytest.mark.parametrize("seed", range(5))
def test_roles_are_those_of_the_tree_in_whatever_order_it_is_built(seed):
    rng = Random(seed)
    names = [f"B{n}" for n in range(9)]
    tree = [(name, rng.choice(names[:n])) for n, name in enumerate(names) if n]
    loopback = overlay(*(" ".join(pair) for pair in rng.sample(tree, len(tree))), pin=None)
    degree = {name: sum(name in pair for pair in tree) for name in names}
    assert roles(loopback) == {name: "head" if degree[name] > 1 else "edge" for name in names}
    assert all(len(router.topology) == 9 for router in loopback.routers.values())
