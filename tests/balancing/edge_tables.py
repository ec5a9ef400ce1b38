"""Broker b1 of the paper after its burst, for tests of heads and edges."""

from __future__ import annotations

from tocsin.balancing.strategies.tao2013.metrics import LoadTable, Origin, Resources, Role, TopicUse

B0, B1 = Resources(6.5e6, 6.5e6, 800), Resources(8e6, 8e6, 1500)


def use(topic: str, rate: float, clients: int, size: float, waiting: float = 0.0, allowed: float = 1.0) -> TopicUse:
    names = tuple(f"{topic}/{number}" for number in range(clients))
    return TopicUse(topic, names, rate, size, float(clients), waiting, allowed)


def of_origin(topic: str, origin: Origin, allowed: float = 1.0) -> TopicUse:
    return TopicUse(topic, (f"{topic}/0",), 10.0, 100.0, 1.0, 0.0, allowed, origin)


def overloaded(waiting: float = 700.0) -> LoadTable:
    """Topics 1, 3, 8 and 14; 8 and 14 publish twice as much as before."""
    uses = [
        use("1", 50, 8, 200, allowed=1.5),
        use("3", 250, 1, 1000, allowed=1.3),
        use("8", 200, 7, 400, waiting, 0.8),
        use("14", 200, 3, 300, allowed=49.7),
    ]
    return LoadTable.of(B1, Role.EDGE, uses)


def filled(resources: Resources, megabits: float) -> LoadTable:
    """An edge with one topic that uses so much of its uplink."""
    return LoadTable.of(resources, Role.EDGE, [use("99", megabits * 1e6 / 8 / 1000, 1, 1000)])
