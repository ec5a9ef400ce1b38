"""A network whose brokers balance among themselves: the coordinator places newcomers and drains, and plans nothing."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness

from tocsin.config import CoordinatorBalancing
from tocsin.errors import UserError
from tocsin.wire.reports import PeerAddress

RATES = {1: 100.0, 2: 100.0}


def made(**settings) -> CoordinatorHarness:
    return CoordinatorHarness(balancing=CoordinatorBalancing("peers"), balance_every=1.0, cool_down=0.0, **settings)


def join(harness: CoordinatorHarness, broker: str, subscribers=None):
    return harness.join(broker, subscribers, rates=RATES, balancing="peers", inside=f"http://{broker}-inside")


def address(broker: str) -> PeerAddress:
    return PeerAddress(f"http://{broker}", f"http://{broker}-inside")


def lopsided() -> CoordinatorHarness:
    harness = made()
    join(harness, "a", {f"subscriber-{n}": [1, 2] for n in range(8)})
    join(harness, "b")
    return harness


def test_it_makes_no_plans_however_skewed_the_load_is():
    harness = lopsided()
    assert harness.run(20, "a", "b") == []
    planning = CoordinatorHarness(balance_every=1.0, cool_down=0.0)
    planning.join("a", {f"subscriber-{n}": [1, 2] for n in range(8)}, rates=RATES)
    planning.join("b")
    assert planning.run(20, "a", "b") != []


def test_it_places_newcomers_and_drains():
    harness = lopsided()
    assert harness.place("newcomer-0000001").broker == "b"
    harness.drain("a")
    assert len(harness.run(5, "a", "b")) == 8


def test_brokers_get_the_list_of_all_others_when_it_changes():
    harness = made()
    assert join(harness, "a").peers == {}
    assert join(harness, "b").peers == {"a": address("a")}
    assert harness.report("a").peers == {"b": address("b")}
    assert harness.report("a").peers == {}
    assert harness.report("a", full=True).peers == {"b": address("b")}  # the reply before may have been lost


@pytest.mark.parametrize(("mode", "of_broker"), [("peers", "coordinator"), ("coordinator", "peers")])
def test_a_broker_that_is_balanced_otherwise_is_refused_with_what_to_do(mode, of_broker):
    harness = CoordinatorHarness(balancing=CoordinatorBalancing(mode))
    with pytest.raises(UserError, match="is balanced by") as refused:
        harness.register("a", balancing=of_broker)
    assert "balancing.mode" in refused.value.hint


def test_a_subscriber_that_its_broker_has_sent_is_expected_at_the_other():
    harness = lopsided()
    harness.report("a", sent={"subscriber-1": "b", "subscriber-2": "unknown", "of-no-broker": "b"})
    harness.report("b", {"subscriber-1": [1, 2]})
    assert harness.at("subscriber-1") == "b"
    harness.report("b", {"subscriber-3": [1]})
    assert harness.at("subscriber-3") == "a"  # no broker has sent it: the first keeps it until it says otherwise
    harness.report("a", left=["subscriber-3"])
    assert harness.at("subscriber-3") == "b"


def test_only_the_broker_of_a_subscriber_can_send_it():
    harness = lopsided()
    harness.report("b", sent={"subscriber-1": "b"})
    harness.report("b", {"subscriber-1": [1]})
    assert harness.at("subscriber-1") == "a"
