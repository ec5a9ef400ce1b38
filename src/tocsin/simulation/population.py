"""Simulates a given population without faults, message by message.

The result is deliveries and loads by broker, to compare analytical models with.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from tocsin.errors import UserError
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import BROKER, COORDINATOR, ChannelPlan, ClientPlan, Scenario

#: Seconds for all clients to connect and subscribe, and for the last results to arrive and be reported.
ARRIVAL, REST = 10.0, 3.0


class Account(Struct, frozen=True):
    """By broker. ``fetched`` counts results that it fetched, ``delivered`` those that it sent to subscribers.

    ``load_in`` and ``load_out`` are I and O as the coordinator knows them at the end, in bytes a second; ``received``
    is what each subscriber's application received.
    """

    fetched: list[int]
    delivered: list[int]
    load_in: list[float]
    load_out: list[float]
    received: list[int]
    events: int


def count(
    at: Sequence[int],
    subscriptions: Sequence[Sequence[int]],
    rates: Sequence[float],
    sizes: Sequence[int],
    *,
    brokers: int,
    seconds: float,
    seed: int = 1,
) -> Account:
    """Subscriber i is at broker ``at[i]`` with the BE subscriptions ``subscriptions[i]``; BE subscription k has
    ``rates[k]`` results a second of ``sizes[k]`` bytes each. No subscriber migrates.
    """
    if len(at) != len(subscriptions) or len(rates) != len(sizes):
        raise UserError("at and subscriptions must have the same length, and so must rates and sizes")
    plans = [
        ChannelPlan(f"K{k}", period=1e9, chance=1.0, size={"x": size}, push=bool(k % 2), retention=1e9)
        for k, size in enumerate(sizes)
    ]
    clients = [ClientPlan([(f"K{k}", "x") for k in row], at=here) for here, row in zip(at, subscriptions, strict=True)]
    broker = structs.replace(BROKER, buffer_bytes=1 << 20, heartbeat=10.0, silence=30.0)
    scenario = Scenario(brokers, 0, plans, clients, broker, structs.replace(COORDINATOR, strategy=""))
    world = Deployment(scenario, RandomStreams(seed))
    world.cluster.producing = False
    world.start()
    for channel, rate in zip(world.cluster.data.channels.values(), rates, strict=True):
        for number in range(int(seconds * rate)):
            world.clock.at(ARRIVAL + number / rate, world.cluster.execute, channel)
    world.clock.run(ARRIVAL + seconds + REST)
    state = world.coordinator.state
    loads, nodes = state.load.loads, list(world.brokers.values())
    places = [state.members[node.name].number for node in nodes]
    return Account(
        [node.state.counters.notifications for node in nodes],
        [node.state.counters.deliveries for node in nodes],
        [float(loads.I[place]) for place in places],
        [float(loads.O[place]) for place in places],
        [sum(len(each.received) for each in client.interests.values()) for client in world.clients.values()],
        world.clock.events,
    )
