"""A network to be simulated whose brokers balance among themselves: skewed, so that there is something to balance."""

from __future__ import annotations

from random import Random

from msgspec import structs

from tocsin.balancing.brokers.strategies import STRATEGIES
from tocsin.config import BrokerBalancing, CoordinatorBalancing
from tocsin.simulation.scenario import Scenario, another_client, draw


def draw_peers(rng: Random) -> Scenario:
    """In a third of the networks the coordinator ends for good once everybody is placed."""
    found = draw(rng)
    strategy = rng.choice([*STRATEGIES, "rao-one-to-one"])
    balancing = BrokerBalancing(
        "peers",
        strategy,
        {
            "balance_every": rng.choice((1.0, 3.0)),
            "exchange_every": rng.choice((0.5, 2.0)),
            "cool_down": rng.choice((3.0, 10.0)),
            "sessions": rng.choice((1, 2, 4)),
            "choices": rng.choice((1, 2, 3)),
        },
    )
    clients = [*found.clients, *(another_client(rng, found) for _ in range(rng.randint(2, 6)))]
    alone, all_ = rng.random() < 0.33, found.brokers + found.spare
    if rng.random() < 0.7:  # most of them are at the first broker
        clients = [structs.replace(each, at=0, urls=all_) if rng.random() < 0.7 else each for each in clients]
    if alone:
        clients = [structs.replace(each, urls=all_) for each in clients]
    many = structs.replace(
        found.broker.limits,
        connections=found.broker.limits.connections + len(clients),
        connections_per_address=found.broker.limits.connections_per_address + len(clients),
    )
    return structs.replace(
        found,
        clients=clients,
        broker=structs.replace(found.broker, balancing=balancing, limits=many),
        coordinator=structs.replace(found.coordinator, balancing=CoordinatorBalancing("peers")),
        alone=alone,
    )
