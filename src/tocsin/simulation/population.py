"""A given population without faults, message by message: who is where with what, and how often each thing is found.

What comes out are deliveries and loads by broker, to compare other ways of counting with.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tocsin.errors import UserError
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import ChannelPlan, ClientPlan, Scenario

#: Seconds in which everybody comes and subscribes, and in which the last results arrive and are reported.
ARRIVAL, REST = 10.0, 3.0


class Account(Struct, frozen=True):
    """By broker. ``fetched`` are results that it got once each, ``delivered`` those times subscribers.

    ``load_in`` and ``load_out`` are I and O as the coordinator knows them at the end, in bytes a second; ``received``
    is what each subscriber's application got.
    """

    fetched: list[int]
    delivered: list[int]
    load_in: list[float]
    load_out: list[float]
    received: list[int]
    events: int


def count(
    at: Sequence[int],
    wishes: Sequence[Sequence[int]],
    rates: Sequence[float],
    sizes: Sequence[int],
    *,
    brokers: int,
    seconds: float,
    seed: int = 1,
) -> Account:
    """Subscriber i is at broker ``at[i]`` with the BE subscriptions ``wishes[i]``; ``rates[k]`` is how often something
    is found for k in a second, ``sizes[k]`` of how many bytes. Nobody is moved.
    """
    if len(at) != len(wishes) or len(rates) != len(sizes):
        raise UserError("at and wishes are of the same length, and so are rates and sizes")
    plans = [
        ChannelPlan(f"K{k}", period=1e9, chance=1.0, size={"x": size}, push=bool(k % 2), retention=1e9)
        for k, size in enumerate(sizes)
    ]
    clients = [ClientPlan([(f"K{k}", "x") for k in row], at=here) for here, row in zip(at, wishes, strict=True)]
    scenario = Scenario(brokers, 0, plans, clients, strategy="", buffer_bytes=1 << 20, heartbeat=10.0)
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
