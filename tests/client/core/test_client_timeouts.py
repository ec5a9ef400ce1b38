"""A client that was suspended does not count the pause as the broker's silence; reconnects are randomized."""

from __future__ import annotations

from random import Random

import pytest
from client_harness import HEARTBEAT, ClientHarness

from tocsin.client.core import events as ev
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff


def opened() -> ClientHarness:
    """The next timer is the one that detects a silent broker."""
    harness = ClientHarness().open()
    while harness.timer != 100.0 + 3 * HEARTBEAT:
        harness.tick()
    return harness


def fire_late(harness: ClientHarness, seconds: float) -> None:
    """Fires the timer this many seconds late."""
    assert harness.timer is not None
    harness.now = harness.timer + seconds
    harness.timer = None
    harness.do(ev.Timer())


def test_a_broker_that_is_silent_for_three_heartbeats_is_lost():
    harness = opened()
    harness.tick()
    assert harness.now == 100.0 + 3 * HEARTBEAT and not harness.line.online


def test_a_client_that_was_suspended_gives_the_broker_one_more_heartbeat():
    harness = opened()
    fire_late(harness, 5.0)
    assert harness.line.online
    harness.receive(wire.Ping())
    while harness.line.online:
        harness.tick()
    assert not harness.line.online and harness.now == 135.0 + 3 * HEARTBEAT


def test_a_broker_that_stays_silent_after_the_extra_heartbeat_is_lost():
    harness = opened()
    fire_late(harness, 5.0)
    harness.tick()
    assert not harness.line.online and harness.now == 135.0 + HEARTBEAT


def test_a_client_that_was_suspended_while_connecting_waits_again_for_the_welcome():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.connect()
    fire_late(harness, 5.0)
    assert harness.line.online
    harness.welcome()
    assert harness.state.stage.value == "ready"


def test_clients_of_a_broken_broker_reconnect_at_random_times():
    waits = [Backoff(Random(seed)).scattered(1.0) for seed in range(200)]
    assert min(waits) < 0.05 and max(waits) > 0.95 and 0.4 < sum(waits) / 200 < 0.6


@pytest.mark.parametrize("reconnect_within", [0.01, 5.0])
def test_the_welcome_says_within_how_many_seconds_to_reconnect(reconnect_within):
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.connect()
    harness.welcome(reconnect_within=reconnect_within)
    harness.cut()
    assert harness.timer is not None and harness.now < harness.timer <= harness.now + reconnect_within


def test_the_second_try_uses_the_backoff():
    harness = ClientHarness("one", "two").open()
    harness.cut()
    assert harness.timer is not None and harness.now <= harness.timer <= harness.now + 1.0
    harness.tick()
    harness.cut()
    assert harness.timer is not None and harness.timer - harness.now <= 0.2
