from __future__ import annotations

from tocsin.broker.core.balancing.peer_list import FORGOTTEN, MOST, PeerList
from tocsin.wire.reports import PeerAddress


def address(name: str) -> PeerAddress:
    return PeerAddress(f"http://{name}", f"http://{name}-inside")


def known(*names: str) -> PeerList:
    peers = PeerList("me")
    peers.learn({name: address(name) for name in names})
    return peers


def test_it_learns_others_and_says_whether_something_has_changed():
    peers = PeerList("me")
    assert peers.learn({"a": address("a"), "me": address("me")})
    assert not peers.learn({"a": address("a")})
    assert peers.learn({"a": address("moved")})
    assert peers.addresses == {"a": address("moved")}


def test_what_a_coordinator_does_not_name_stays():
    peers = known("a", "b")
    peers.learn({"b": address("b")})
    assert set(peers.addresses) == {"a", "b"}


def test_a_broker_that_fails_is_tried_again_later_and_later():
    peers = known("a", "b")
    peers.failed("a", 0.0)
    assert peers.reachable(1.0) == ["b"] and peers.reachable(2.0) == ["a", "b"]
    peers.failed("a", 2.0)
    assert peers.reachable(5.0) == ["b"] and peers.reachable(6.0) == ["a", "b"]
    peers.answered("a")
    assert peers.reachable(5.0) == ["a", "b"]


def test_another_address_is_tried_at_once():
    peers = known("a")
    peers.failed("a", 0.0)
    peers.learn({"a": address("moved")})
    assert peers.reachable(0.0) == ["a"]


def test_a_broker_that_does_not_answer_for_a_day_is_forgotten():
    peers = known("a")
    assert not peers.failed("a", 0.0) and not peers.failed("a", FORGOTTEN - 1)
    assert peers.failed("a", FORGOTTEN) and not peers.addresses
    assert not peers.failed("a", FORGOTTEN)


def test_it_remembers_a_limited_number():
    assert len(known(*(f"b{n}" for n in range(MOST + 10))).addresses) == MOST
