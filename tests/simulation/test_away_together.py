"""Faults that come together and do not end: the network serves everybody all the same."""

from __future__ import annotations

import pytest

from tocsin.client.core.connection_state import Stage
from tocsin.coordinator.core.members import Members
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import ChannelPlan, ClientPlan, Scenario

#: Seconds within which clients leave a broker: three heartbeats of three seconds, then the tries of others.
SOON = 20.0


def running(seed: int) -> Deployment:
    """Three brokers, and clients that know the coordinator only."""
    channels = [ChannelPlan("A", 0.5, 1.0, {"p": 100}, False, 1e9)]
    world = Deployment(Scenario(3, 0, channels, [ClientPlan([("A", "p")])] * 9), RandomStreams(seed))
    world.start()
    world.clock.run(20.0)
    assert served(world) == set(world.clients)
    return world


def served(world: Deployment) -> set[str]:
    up = {name for name, broker in world.brokers.items() if broker.up}
    return {
        name
        for name, client in world.clients.items()
        if client.state.stage is Stage.READY and client.state.welcome and client.state.welcome.broker in up
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("silent", [True, False], ids=["silent", "closed"])
def test_clients_go_to_other_brokers_while_their_broker_and_the_coordinator_are_away(seed: int, silent: bool) -> None:
    world = running(seed)
    world.coordinator.die(silent=silent)
    world.brokers["b1"].die(silent=silent)
    world.clock.run(world.clock.now + SOON + (10.0 if silent else 0.0))  # the coordinator is waited for
    assert served(world) == set(world.clients)


def test_without_alternatives_they_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Members, "alternatives", lambda self, member: {})
    world = running(1)
    world.coordinator.die(silent=False)
    world.brokers["b1"].die(silent=False)
    world.clock.run(world.clock.now + 60.0)
    assert served(world) != set(world.clients)


@pytest.mark.parametrize("seed", range(5))
def test_clients_leave_a_broker_that_hangs_within_seconds(seed: int) -> None:
    world = running(seed)
    here = {name for name, client in world.clients.items() if client.state.welcome.broker == "b1"}
    assert here
    world.brokers["b1"].freeze(120.0)
    world.clock.run(world.clock.now + SOON)
    assert {name for name in here if world.clients[name].state.welcome.broker == "b1"} == set()
    assert served(world) == set(world.clients)
