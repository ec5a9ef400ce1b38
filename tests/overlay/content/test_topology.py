"""What a broker knows of the overlay: records, cycles, and what it forgets."""

from __future__ import annotations

from tocsin.overlay.content.topology import Topology


def test_the_latest_link_of_a_cycle_is_the_superfluous_one():
    def knowing(name: str) -> Topology:
        """A–B, B–C and C–A, made in this order."""
        stamps = {"AB": 1, "BC": 2, "AC": 3}
        topology = Topology(name, 1)
        for each in "ABC":
            links = [(other, stamps["".join(sorted(each + other))]) for other in "ABC" if other != each]
            if each == name:
                topology.describe(links, "both", False)
            else:
                other = Topology(each, 1)
                other.describe(links, "both", False)
                topology.learn(other.me)
        return topology

    assert {name: knowing(name).superfluous() for name in "ABC"} == {"A": ["C"], "B": [], "C": ["A"]}


def test_an_older_record_is_not_learned():
    topology, other = Topology("A", 1), Topology("B", 2)
    old = other.me
    other.describe([("A", 1)], "both", False)
    assert topology.learn(other.me)
    assert not topology.learn(old)
    assert not topology.learn(Topology("B", 1).me)
    assert not topology.learn(Topology("A", 9).me)
    assert topology.learn(Topology("B", 3).me)


def test_a_record_that_arrives_before_those_on_the_way_is_kept_for_a_while():
    topology, far = Topology("A", 1), Topology("C", 1)
    far.describe([("B", 2)], "both", False)
    topology.learn(far.me)
    topology.look_for_astray(0.0)
    topology.prune(10.0, after=60.0)
    assert "C" in topology.records
    near = Topology("B", 1)
    near.describe([("A", 1), ("C", 2)], "both", False)
    topology.describe([("B", 1)], "both", False)
    topology.learn(near.me)
    topology.look_for_astray(20.0)
    topology.prune(100.0, after=60.0)
    assert [name for name, _ in topology.distances()] == ["A", "B", "C"]


def test_a_broker_that_no_link_leads_to_is_forgotten():
    topology = Topology("A", 1)
    topology.learn(Topology("C", 1).me)
    topology.look_for_astray(0.0)
    topology.prune(61.0, after=60.0)
    assert topology.records == {}
