"""The HTTP interface of the data cluster: one table of operations, one file a noun."""

from __future__ import annotations

from tocsin.cluster.http import (
    brokers,
    channels,
    datasets,
    executions,
    feeds,
    grants,
    health,
    queries,
    statements,
    subscriptions,
)
from tocsin.cluster.http.operation import Answer, Exchange, Operation, Site

OPERATIONS: tuple[Operation, ...] = (
    *feeds.OPERATIONS,
    *statements.OPERATIONS,
    *queries.OPERATIONS,
    *datasets.OPERATIONS,
    *channels.OPERATIONS,
    *subscriptions.OPERATIONS,
    *executions.OPERATIONS,
    *brokers.OPERATIONS,
    *grants.OPERATIONS,
    *health.OPERATIONS,
)

__all__ = ["OPERATIONS", "Answer", "Exchange", "Operation", "Site"]
