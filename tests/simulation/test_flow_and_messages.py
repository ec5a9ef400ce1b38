"""The flow simulation counts what the message-level simulator delivers, broker by broker, one by one.

There every notification is a message through the state machines of data cluster, broker and client. The flow simulation
uses only its executions and their results; both compute the deliveries independently.
"""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest
from msgspec import structs

from tocsin.simulation.flow import Execution, Run, Workload, settings, simulate
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import BROKER, COORDINATOR, ChannelPlan, ClientPlan, Scenario

KINDS = ("p", "q", "r", "s")
CHANNELS = {"A": 0.4, "B": 0.8, "C": 1.5}
BROKERS, CLIENTS = 3, 30
QUICK = structs.replace(COORDINATOR.limits, cool_down=2.0)
#: All clients have subscribed by QUIET, results end at UNTIL, and everything is delivered by END.
QUIET, UNTIL, END = 10.0, 40.0, 60.0


def simulated(seed: int, *, at: bool, **coordinator: object) -> Deployment:
    rng = Random(seed)
    choices = [(channel, kind) for channel in CHANNELS for kind in KINDS]
    clients = [
        ClientPlan(
            rng.sample(choices, rng.randint(1, 6)),
            bandwidth=1e9,
            at=min(rng.randrange(BROKERS), rng.randrange(BROKERS)) if at else None,
        )
        for _ in range(CLIENTS)
    ]
    channels = [
        ChannelPlan(name, period, 0.7, {kind: rng.choice((60, 120, 400)) for kind in KINDS}, name == "B", 1e9)
        for name, period in CHANNELS.items()
    ]
    broker = structs.replace(BROKER, buffer_bytes=1 << 20)
    config = structs.replace(COORDINATOR, **{"strategy": "", **coordinator})
    scenario = Scenario(BROKERS, 0, channels, clients, broker, config)
    deployment = Deployment(scenario, RandomStreams(seed))
    deployment.cluster.producing = False
    deployment.start()
    deployment.clock.run(QUIET)
    deployment.cluster.producing = True
    deployment.clock.run(UNTIL)
    deployment.cluster.producing = False
    deployment.clock.run(END)
    return deployment


def counted(deployment: Deployment) -> Run:
    """The same clients and results in the flow simulation, each client at the site of its broker."""
    keys = [(channel, kind) for channel in CHANNELS for kind in KINDS]
    executions = [
        Execution(
            execution.started,
            np.array([keys.index((channel.name, json.loads(args)[0])) for args in execution.found]),
            np.array([len(found) for found in execution.found.values()]),
        )
        for channel in deployment.cluster.data.channels.values()
        for execution in channel.executions
    ]
    plans = deployment.scenario.clients
    sites = np.array([[60.0, float(j)] for j in range(BROKERS)])
    size = np.array([len(plan.interests) for plan in plans])
    work = Workload(
        END,
        np.ones(BROKERS),
        sites,
        sites[[plan.at or 0 for plan in plans]],
        np.zeros(CLIENTS),
        size,
        np.array([keys.index(each) for plan in plans for each in plan.interests], dtype=np.int32),
        np.full(int(size.sum()), QUIET - 1.0),
        sorted(executions, key=lambda execution: execution.time),
        len(keys),
    )
    return simulate(work, settings("", "nearest"))


@pytest.mark.parametrize("seed", range(2))
def test_every_broker_delivers_as_often_as_in_the_message_level_simulation(seed):
    deployment = simulated(seed, at=True)
    delivered = [broker.state.counters.deliveries for broker in deployment.brokers.values()]
    assert counted(deployment).deliveries.tolist() == delivered
    assert min(delivered) > 100


@pytest.mark.parametrize("seed", range(2))
def test_clients_receive_as_many_notifications_during_migrations(seed):
    deployment = simulated(seed, at=False, strategy="ldm", settings={"alpha": 0.02}, placement="random", limits=QUICK)
    assert deployment.coordinator.migrations > 0
    received = sum(len(each.received) for client in deployment.clients.values() for each in client.interests.values())
    assert int(counted(deployment).deliveries.sum()) == received
