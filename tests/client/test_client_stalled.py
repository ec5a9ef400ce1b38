"""A client that did not run for a while does not take that for the broker's silence; clients come back scattered."""

from __future__ import annotations

from random import Random

import pytest
from rig import HEARTBEAT, Rig

from tocsin.client.core import events as ev
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff


def opened() -> Rig:
    """Its next timer is that of the broker's silence."""
    rig = Rig().open()
    while rig.timer != 100.0 + 3 * HEARTBEAT:
        rig.tick()
    return rig


def late(rig: Rig, seconds: float) -> None:
    """The timer's time comes, and this much more passes before anybody looks."""
    assert rig.timer is not None
    rig.now = rig.timer + seconds
    rig.timer = None
    rig.do(ev.Timer())


def test_a_broker_that_is_silent_for_three_heartbeats_is_lost():
    rig = opened()
    rig.tick()
    assert rig.now == 100.0 + 3 * HEARTBEAT and not rig.line.online


def test_a_client_that_slept_gives_the_broker_a_heartbeat_more():
    rig = opened()
    late(rig, 5.0)
    assert rig.line.online
    rig.hear(wire.Ping())
    while rig.line.online:
        rig.tick()
    assert not rig.line.online and rig.now == 135.0 + 3 * HEARTBEAT


def test_what_stays_silent_after_that_is_lost():
    rig = opened()
    late(rig, 5.0)
    rig.tick()
    assert not rig.line.online and rig.now == 135.0 + HEARTBEAT


def test_one_that_slept_while_it_connected_waits_for_the_welcome_again():
    rig = Rig()
    rig.do(ev.Open())
    rig.connect()
    late(rig, 5.0)
    assert rig.line.online
    rig.welcome()
    assert rig.state.stage.value == "ready"


def test_clients_of_a_broker_that_broke_off_come_back_scattered():
    waits = [Backoff(Random(seed)).scattered(1.0) for seed in range(200)]
    assert min(waits) < 0.05 and max(waits) > 0.95 and 0.4 < sum(waits) / 200 < 0.6


@pytest.mark.parametrize("scatter", [0.01, 5.0])
def test_the_broker_says_over_how_long_they_are_scattered(scatter):
    rig = Rig()
    rig.do(ev.Open())
    rig.connect()
    rig.welcome(scatter=scatter)
    rig.cut()
    assert rig.timer is not None and rig.now < rig.timer <= rig.now + scatter


def test_the_second_try_is_as_after_any_failure():
    rig = Rig("one", "two").open()
    rig.cut()
    assert rig.timer is not None and rig.now <= rig.timer <= rig.now + 1.0
    rig.tick()
    rig.cut()
    assert rig.timer is not None and rig.timer - rig.now <= 0.2
