"""The metrics of the data cluster, for Prometheus: one registry, and no label per user.

The parts increment the attributes directly. Gauges (lag, pending notifications, Spark) are set by callbacks that run
when the metrics are read, see :meth:`Metrics.on_read`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

log = logging.getLogger(__name__)

# The time at which each series began would double the size of the answer.
disable_created_metrics()  # type: ignore[no-untyped-call]

SPARK_STATES = ("starting", "up", "dead", "stopped")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)


class Metrics:
    """Labels are names of datasets, feeds and channels, or words of a fixed set."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tocsin_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"tocsin_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(f"tocsin_{name}", text, labels, registry=self.registry, buckets=buckets)

        self.records_accepted = counter("records_accepted", "records made durable", "dataset")
        self.records_refused = counter("records_refused", "records that did not fit the dataset", "dataset")
        self.posts_repeated = counter("posts_repeated", "repeated posts, answered by their Idempotency-Key")
        self.commits = counter("commits", "commits of a dataset", "dataset")
        self.commit_records = histogram("commit_records", "records in one commit", buckets=SIZES)
        self.commit_seconds = histogram("commit_seconds", "time to make one commit durable")
        self.compactions = counter("compactions", "merges of segments", "dataset", "outcome")
        self.dataset_rows = gauge("dataset_rows", "rows in the segments of a dataset", "dataset")
        self.dataset_failing = gauge("dataset_failing", "1 while segments of the dataset cannot be read", "dataset")
        self.dataset_segments = gauge("dataset_segments", "segments of a dataset", "dataset")

        self.executions = counter(
            "executions", "runs of a channel; outcome is ok, empty or failed", "channel", "outcome"
        )
        self.execution_seconds = histogram("execution_seconds", "time from start to commit of an execution", "channel")
        self.executions_late = counter("executions_late", "runs that started late", "channel")
        self.result_rows = counter("result_rows", "result rows of executions", "channel")
        self.result_subscriptions = counter(
            "result_subscriptions", "subscriptions that had results, summed over executions", "channel"
        )
        self.result_bytes = counter("result_bytes", "bytes of results written by executions", "channel")
        self.results_damaged = counter(
            "results_damaged", "executions whose results cannot be read, so that subscribers got a gap", "channel"
        )
        self.channel_lag = gauge("channel_lag_ordinals", "commits that the channel has not read yet", "channel")
        self.channel_failing = gauge("channel_failing", "1 while the channel is marked failing", "channel")
        self.subscriptions = gauge("subscriptions", "subscriptions of a channel", "channel")

        self.notifications = counter(
            "notifications", "notifications to brokers; outcome is ok, failed or gone", "outcome"
        )
        self.notifications_pending = gauge("notifications_pending", "notifications that brokers have not confirmed")
        self.pulls = counter("pulls", "pulls of results by brokers", "channel")
        self.pull_bytes = counter("pull_bytes", "bytes of results pulled by brokers", "channel")

        self.queries = counter("queries", "retrospective queries; outcome is ok or failed", "outcome")
        self.statements = counter("statements", "statements run", "kind", "outcome")
        self.spark_state = gauge("spark_state", "1 for the current state of Spark", "state")

        self.http_requests = counter("http_requests", "requests answered", "method", "route", "status")
        self.http_seconds = histogram("http_seconds", "time to answer a request", "method", "route")
        self.http_bytes_in = counter("http_received_bytes", "bytes of request bodies", "route")

        self.clock_jump = gauge(
            "clock_jump_seconds", "how far the clock is ahead of the expected time; 0 unless it has jumped"
        )

        self._readers: list[Callable[[], None]] = []
        self.spark("stopped")

    def spark(self, state: str) -> None:
        """Set the state of Spark."""
        for word in SPARK_STATES:
            self.spark_state.labels(word).set(word == state)

    def on_read(self, callback: Callable[[], None]) -> None:
        """``callback`` sets gauges before the metrics are read; it must not block."""
        self._readers.append(callback)

    def read(self) -> tuple[bytes, str]:
        """The metrics as text, and their content type."""
        for callback in self._readers:
            try:
                callback()
            except Exception:
                log.exception("a gauge could not be set")
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def forget(self, label: str, name: str) -> None:
        """Delete the series of a dropped channel or dataset, so that they do not accumulate."""
        metrics: list[Any] = [item for item in vars(self).values() if isinstance(item, Counter | Gauge | Histogram)]
        for metric in metrics:
            if label in metric._labelnames:
                metric.remove_by_labels({label: name})
