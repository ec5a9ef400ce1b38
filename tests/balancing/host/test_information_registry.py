from __future__ import annotations

import pytest

from tocsin.balancing.host import information_registry
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadInformation


def about(peer, load=1.0, criterion="items", **fields):
    return LoadInformation(peer, criterion, load, **fields)


class Counted(float):
    """Counts comparisons of times; differences and negatives count too."""

    comparisons = 0

    def __lt__(self, other):
        Counted.comparisons += 1
        return float(self) < float(other)

    def __eq__(self, other):
        return float(self) == float(other)

    __hash__ = float.__hash__

    def __sub__(self, other):
        return Counted(float(self) - float(other))

    def __neg__(self):
        return Counted(-float(self))


def compared(work):
    Counted.comparisons = 0
    work()
    return Counted.comparisons


def filled(n, first=0):
    registry = InformationRegistry(lifetime=1e9)
    for number in range(n):
        registry.register(about(f"peer-{number}"), Counted(first + number))
    return registry


def test_it_reports_the_latest_of_each_peer_by_criterion_and_may_report_nothing():
    registry = InformationRegistry()
    registry.register(about("b", 1.0), 0.0)
    registry.register(about("b", 2.0), 1.0)
    registry.register(about("a", 3.0), 1.0)
    registry.register(about("a", 4.0, "events"), 1.0)
    assert [(each.peer, each.load) for each in registry.get_load_report("items")] == [("a", 3.0), ("b", 2.0)]
    assert [each.load for each in registry.get_load_report("items", ["b", "unknown"])] == [2.0]
    assert registry.get_load_report("disk") == []
    assert len(registry) == 3


def test_information_that_was_overtaken_is_not_registered():
    registry = InformationRegistry()
    assert registry.register(about("a", 1.0), 10.0)
    assert not registry.register(about("a", 9.0, age=5.0), 12.0)
    assert registry.register(about("a", 2.0, age=1.0), 12.0)
    assert registry.get_load_report("items")[0].load == 2.0


def test_information_from_the_future_counts_as_of_now():
    registry = InformationRegistry()
    registry.register(about("a", 1.0, age=-1e9), 10.0)
    assert registry.register(about("a", 2.0), 11.0)


def test_outdated_information_expires_and_is_not_registered():
    registry = InformationRegistry(lifetime=30.0)
    assert not registry.register(about("a", age=31.0), 100.0)
    registry.register(about("a"), 100.0)
    registry.register(about("b"), 110.0)
    registry.expire(131.0)
    assert [each.peer for each in registry.get_load_report("items")] == ["b"]
    registry.expire(141.0)
    assert len(registry) == 0 and registry.freshest() is None


def test_what_replaced_an_outdated_entry_stays():
    registry = InformationRegistry(lifetime=30.0)
    registry.register(about("a", 1.0), 0.0)
    registry.register(about("a", 2.0), 20.0)
    registry.expire(31.0)
    assert registry.get_load_report("items")[0].load == 2.0


def test_the_freshest_follows_registrations_and_losses():
    registry = InformationRegistry()
    registry.register(about("a"), 1.0)
    registry.register(about("b"), 3.0)
    registry.register(about("c", age=3.5), 4.0)
    assert registry.freshest().peer == "b"
    registry.forget("b")
    assert registry.freshest().peer == "a"
    assert registry.get_load_report("items", ["b"]) == []


def test_what_is_passed_on_has_its_age():
    registry = InformationRegistry()
    registry.register(about("a", age=2.0), 10.0)
    assert [each.age for each in registry.aged("items", 15.0)] == [7.0]


@pytest.mark.parametrize("n", [10, 1_000])
def test_the_freshest_takes_no_comparison_however_many_there_are(n):
    registry = filled(n)
    assert compared(registry.freshest) == 0


def test_removing_an_outdated_entry_takes_a_logarithm_of_comparisons():
    for n, most in ((64, 24), (4_096, 48)):
        registry = filled(n, first=1)
        registry.lifetime = 0.5
        took = compared(lambda registry=registry: registry.expire(1.7))  # only the first is outdated
        assert len(registry) == n - 1
        # Sifting in a heap of n takes at most 2 log2 n comparisons.
        assert 0 < took <= most


def test_replaced_entries_do_not_accumulate():
    registry = InformationRegistry()
    for second in range(10_000):
        registry.register(about(f"peer-{second % 5}"), float(second) / 1_000)
    assert len(registry) == 5
    assert len(registry._freshest) + len(registry._oldest) <= 4 * 5 + information_registry.REPLACED
    assert registry.freshest().peer == "peer-4"


def test_a_peer_that_invents_others_cannot_fill_the_memory(monkeypatch):
    monkeypatch.setattr(information_registry, "MOST_PEERS", 3)
    registry = InformationRegistry()
    assert [registry.register(about(f"invented-{number}"), 0.0) for number in range(5)] == [True] * 3 + [False] * 2
    assert registry.register(about("invented-0", 2.0), 1.0)
