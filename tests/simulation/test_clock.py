"""Simulated time."""

from __future__ import annotations

from tocsin.simulation.network.clock import Clock


def test_events_run_in_the_order_of_their_times_and_then_of_scheduling():
    clock, seen = Clock(), []
    for name, time in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        clock.at(time, seen.append, name)
    clock.run(1.5)
    assert (seen, clock.now) == (["a", "b"], 1.5)
    clock.run(2.0)
    assert (seen, clock.now, clock.events) == (["a", "b", "c", "d"], 2.0, 4)


def test_an_event_scheduled_by_an_event_runs_in_the_same_run_if_it_is_due():
    clock, seen = Clock(), []
    clock.at(1.0, lambda: clock.after(0.5, lambda: seen.append(clock.now)))
    clock.run(1.6)
    assert seen == [1.5]


def test_an_event_scheduled_in_the_past_runs_now():
    clock, seen = Clock(), []
    clock.run(5.0)
    clock.at(1.0, lambda: seen.append(clock.now))
    clock.run(5.0)
    assert seen == [5.0]
