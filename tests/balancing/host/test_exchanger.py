from __future__ import annotations

from host_network import scope

from tocsin.balancing.host.exchanger import PullFromRandom, PushToNeighbours, Silent
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.messages import Pull, Push

OWN = (LoadInformation("a", "items", 1.0),)


def exchanged(exchanger, neighbours=("b", "c", "d")):
    here = scope(neighbours=neighbours)
    return list(exchanger.exchange_load_information(here, exchanger.recipients(here), OWN))


def test_silent_exchanges_nothing():
    assert exchanged(Silent()) == []


def test_push_sends_the_own_load_to_all_neighbours():
    assert exchanged(PushToNeighbours()) == [(peer, Push(OWN)) for peer in ("b", "c", "d")]


def test_pull_asks_some_random_neighbours_each_once():
    found = exchanged(PullFromRandom(count=2, ttl=3))
    assert len({peer for peer, _ in found}) == 2
    assert all(message == Pull(0, "a", 3) for _, message in found)


def test_pull_asks_at_most_the_neighbours_that_there_are():
    assert len(exchanged(PullFromRandom(count=9))) == 3
    assert exchanged(PullFromRandom(count=9), neighbours=()) == []
