"""The HTTP interface of the data cluster: one table of operations, one file a noun."""

from __future__ import annotations

from tocsin.cluster.routes import brokers, channels, executions, feeds, operations, queries, statements, subscriptions
from tocsin.cluster.routes.operation import Answer, Exchange, Operation, Site

OPERATIONS: tuple[Operation, ...] = (
    *feeds.OPERATIONS,
    *statements.OPERATIONS,
    *queries.OPERATIONS,
    *channels.OPERATIONS,
    *subscriptions.OPERATIONS,
    *executions.OPERATIONS,
    *brokers.OPERATIONS,
    *operations.OPERATIONS,
)

__all__ = ["OPERATIONS", "Answer", "Exchange", "Operation", "Site"]
