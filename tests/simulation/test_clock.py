"""Simulated time."""

from __future__ import annotations

from tocsin.simulation.network.clock import Clock


def test_things_happen_in_the_order_of_their_times_and_then_as_they_were_asked_for():
    clock, seen = Clock(), []
    for name, time in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        clock.at(time, seen.append, name)
    clock.run(1.5)
    assert (seen, clock.now) == (["a", "b"], 1.5)
    clock.run(2.0)
    assert (seen, clock.now, clock.events) == (["a", "b", "c", "d"], 2.0, 4)


def test_what_an_event_asks_for_happens_in_the_same_run_if_its_time_has_come():
    clock, seen = Clock(), []
    clock.at(1.0, lambda: clock.after(0.5, lambda: seen.append(clock.now)))
    clock.run(1.6)
    assert seen == [1.5]


def test_what_should_have_happened_before_happens_now():
    clock, seen = Clock(), []
    clock.run(5.0)
    clock.at(1.0, lambda: seen.append(clock.now))
    clock.run(5.0)
    assert seen == [5.0]
