"""A handler that raises emits nothing, and the state machine continues to work."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_harness import CoordinatorHarness, crowd

from tocsin.balancing.central_host import plan_for
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.wire import reports


class Injected(Exception):
    pass


#: By event: where its handler fails, as late as possible, and the event. ``a`` and ``b`` are alive, ``c`` is gone.
FAILURES: dict[type[Any], tuple[str, str]] = {
    ev.Restored: ("reconfiguration", "restore"),
    ev.Register: ("members", "admit"),
    ev.Report: ("migrations", "hand_out"),
    ev.Leave: ("migrations", "left"),
    ev.Place: ("placement._tickets", "issue"),
    ev.Drain: ("migrations", "cancel_all"),
    ev.Forget: ("members", "forget"),
    ev.Reconfigure: ("plans", "evaluate_soon"),
    ev.ShowPlan: ("plans", "_request"),
    ev.PlanReady: ("host", "_conclude"),
    ev.ShowTopology: ("queries", "_row"),
    ev.ListBrokers: ("placement", "_candidates"),
    ev.Tick: ("queries", "sample"),
}


def network() -> CoordinatorHarness:
    """Six subscribers at ``a`` and none at ``b``, with a plan that waits to be adopted."""
    harness = CoordinatorHarness(offloaded=True, balance_every=1.0)
    harness.join("a", {name: [k] for k, name in enumerate(crowd(6))}, rates=dict.fromkeys(range(6), 100.0))
    harness.join("b")
    harness.join("c")
    harness.handle(ev.Leave(0, "c", harness._tokens["c"]))
    harness.tick(1)
    return harness


def event(kind: type[Any], harness: CoordinatorHarness) -> ev.Event:
    row = ev.BrokerRow("d", "http://d", 1.0, 10)
    token = harness._tokens["a"]
    made: dict[type[Any], ev.Event] = {
        ev.Restored: ev.Restored([row]),
        ev.Register: ev.Register(1, reports.Registration("d", "http://d")),
        ev.Report: ev.Report(1, "a", token, reports.LoadReport(2, left=["subscriber-0000"])),
        ev.Leave: ev.Leave(1, "a", token),
        ev.Place: ev.Place(1, reports.BrokerRequest("newcomer")),
        ev.Drain: ev.Drain(1, "b"),
        ev.Forget: ev.Forget(1, "c"),
        ev.Reconfigure: ev.Reconfigure(1, "gsh"),
        ev.ShowPlan: ev.ShowPlan(1),
        ev.PlanReady: ev.PlanReady(harness.plan_requests[0].number, plan_for(harness.plan_requests[0].request)),
        ev.ShowTopology: ev.ShowTopology(1),
        ev.ListBrokers: ev.ListBrokers(1),
        ev.Tick: ev.Tick(),
    }
    return made[kind]


def test_every_event_has_an_injected_failure() -> None:
    assert set(FAILURES) == set(network().state._handlers)


@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.__name__)
def test_a_handler_that_raises_emits_nothing_and_the_state_machine_continues(kind, monkeypatch) -> None:
    harness = network()
    state: CoordinatorState = harness.state
    path, method = FAILURES[kind]
    part: Any = state
    for name in path.split("."):
        part = getattr(part, name)

    def fail(*args: Any, **settings: Any) -> Any:
        raise Injected

    failing = event(kind, harness)
    harness.now += 1.0
    with monkeypatch.context() as patch:
        patch.setattr(part, method, fail)
        with pytest.raises(Injected):
            state.handle(failing, harness.now)
    # Nothing of the failed call is in the result of the next one.
    (reply,) = state.handle(ev.ShowTopology(2), harness.now)
    assert isinstance(reply, ev.Reply) and reply.call == 2
    # Brokers report, subscribers are placed and plans are adopted as before.
    harness.join("a", {name: [k] for k, name in enumerate(crowd(6))}, rates=dict.fromkeys(range(6), 100.0))
    harness.join("b")
    harness.drain("b", undo=True)
    assert harness.place().broker in ("a", "b")
    for _ in range(5):
        harness.tick(1)
        harness.report("a")
        harness.report("b")
        while harness.plan_requests:
            harness.make_plan()
    assert "order" in {note.kind for note in harness.notes}
    assert harness.topology()["subscribers"] == 6
    assert set(state.host.pending) >= {each.subscriber for each in state.migrations._in_flight.values()}
