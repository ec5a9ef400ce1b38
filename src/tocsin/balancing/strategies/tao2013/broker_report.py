"""What a broker reports of itself: all of its metrics, and the resources that a client's influence follows from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tocsin.balancing.host.actions import Peer
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.messages import Pull, Push, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.metrics import (
    BYTE,
    DOWNLINK,
    METRICS,
    QUEUE,
    UPLINK,
    LoadTable,
    Resources,
    Role,
    TopicUse,
)
from tocsin.balancing.strategies.tao2013.topic_load import table_of

UPLINK_BANDWIDTH, DOWNLINK_BANDWIDTH, MEGAHERTZ = "uplink bandwidth", "downlink bandwidth", "megahertz"
INPUT_RATE, CLIENTS = "input rate", "clients"
RESOURCES = (UPLINK_BANDWIDTH, DOWNLINK_BANDWIDTH, MEGAHERTZ, INPUT_RATE, CLIENTS)
#: The name that a broker's whole load has where its topics are not known.
ALL_TOPICS = "*"


def report(peer: Peer, table: LoadTable) -> tuple[LoadInformation, ...]:
    resources = table.resources
    values = {
        **table.metrics,
        UPLINK_BANDWIDTH: resources.uplink,
        DOWNLINK_BANDWIDTH: resources.downlink,
        MEGAHERTZ: resources.megahertz,
        INPUT_RATE: table.input_rate,
        CLIENTS: float(sum(len(use.clients) for use in table)),
    }
    return tuple(LoadInformation(peer, name, value) for name, value in values.items())


def values_of(information: Iterable[LoadInformation]) -> dict[Peer, dict[str, float]]:
    """By broker; what is not a number of 0 or more was not measured."""
    found: dict[Peer, dict[str, float]] = {}
    for each in information:
        if 0.0 <= each.load < math.inf:
            found.setdefault(each.peer, {})[each.criterion] = each.load
    return found


def reported_table(values: dict[str, float]) -> LoadTable | None:
    """A broker as one topic with its whole load; None if its report is not complete."""
    role = Role.EDGE if QUEUE in values else Role.HEAD
    if not all(name in values for name in (*METRICS[role], *RESOURCES)):
        return None
    resources = Resources(values[UPLINK_BANDWIDTH], values[DOWNLINK_BANDWIDTH], values[MEGAHERTZ])
    if not (resources.uplink > 0.0 and resources.downlink > 0.0 and (role is Role.HEAD or resources.megahertz > 0.0)):
        return None
    rate, bits_in = values[INPUT_RATE], values[DOWNLINK] * resources.downlink
    if rate <= 0.0 or bits_in <= 0.0:
        return LoadTable(resources, role)
    clients = tuple(f"{ALL_TOPICS}/{number}" for number in range(int(min(values[CLIENTS], 1_000_000))))
    copies = values[UPLINK] * resources.uplink / bits_in
    use = TopicUse(ALL_TOPICS, clients, rate, bits_in / rate / BYTE, copies, values.get(QUEUE, 0.0))
    return LoadTable.of(resources, role, [use])


def candidate_tables(information: Iterable[LoadInformation], limits: Thresholds) -> dict[Peer, LoadTable]:
    """Of the brokers that report status LOW."""
    found = {}
    for peer, values in values_of(information).items():
        table = reported_table(values)
        if table is not None and limits.is_low(table.metrics, table.role):
            found[peer] = table
    return found


@dataclass
class ToHead:
    """Edges push their report to their head, which asks others on their behalf; a pull is answered with all metrics."""

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """The head, the first neighbour of an edge."""
        return scope.neighbours[:1]

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        own = report(scope.peer, table_of(scope).table)
        return ((each, Push(own)) for each in recipients)

    def reported(self, scope: Scope, own: Sequence[LoadInformation]) -> Sequence[LoadInformation]:
        return report(scope.peer, table_of(scope).table)


@dataclass
class ToCluster(ToHead):
    """Brokers push their report to all of their cluster, as PEER's do."""

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """The head and the other edges."""
        return scope.neighbours
