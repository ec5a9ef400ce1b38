"""What must hold of brokers that balance among themselves, beside what every network promises."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.simulation.nodes.broker import BrokerNode
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.violation import Violation

#: Seconds after the deadline of a session in which the broker's tick ends it.
LATE = 3.0


def agreements(world: Deployment) -> Iterator[Violation]:
    for complaint in world.peers.complaints:
        yield Violation("both sides agree", complaint)
    for harm in world.peers.harm:
        yield Violation("swaps do no harm", harm)


def unsettled_peers(world: Deployment) -> Iterator[Violation]:
    """Every session ends, and balancing comes to an end."""
    brokers = [each for each in world.brokers.values() if each.up]
    for broker in brokers:
        yield from _sessions(broker, world.clock.now)
    quiet = 2.5 * world.scenario.broker.balancing.settings.get("balance_every", 0.0)
    if brokers and world.clock.now - world.peers.last_migration < quiet:
        yield Violation("it settles", f"brokers agreed on a migration at {world.peers.last_migration:.1f}")


def _sessions(broker: BrokerNode, now: float) -> Iterator[Violation]:
    balancing = broker.state.balancing
    if balancing is None:
        return
    for session in balancing.host.sessions:
        if now > session.deadline + LATE:
            yield Violation("every session ends", f"{broker.name} has {session.number} in {session.state.value}")
        else:
            yield Violation("it settles", f"{broker.name} has the session {session.number}")
    if balancing.departures or balancing.load.arriving:
        yield Violation("it settles", f"{broker.name} has subscribers on their way")
