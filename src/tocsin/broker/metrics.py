"""The broker's metrics, read off the state machine on request. No label names a user or a subscription."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tocsin.broker.core.state import BrokerState

PREFIX = "tocsin_broker_"


class BrokerMetrics(Collector):
    def __init__(self, state: BrokerState, clock: Callable[[], float]) -> None:
        self.state = state
        self.clock = clock
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        state = self.state
        counters, cache = state.counters, state.cache
        report = state.load_reports.report(self.clock())
        for name, value, meaning in (
            ("received_bytes", counters.bytes_in, "results from the data cluster, in bytes"),
            ("sent_bytes", counters.bytes_out, "to subscribers, in bytes"),
            ("deliveries", counters.deliveries, "notifications times the subscribers that got them"),
            ("notifications", counters.notifications, "notifications, each counted once"),
            ("requests", counters.requests, "messages from subscribers"),
            ("refusals", counters.refusals, "requests answered with an error"),
            ("published_records", counters.published, "records of subscribers that were committed"),
            ("lagged", counters.lagged, "times that a subscriber became slow"),
            ("gaps", counters.gaps, "times that a gap was announced to a subscriber"),
            ("cache_hits", cache.hits, "catch-ups answered from recent results"),
            ("cache_misses", cache.misses, "catch-ups that needed the data cluster"),
        ):
            yield CounterMetricFamily(PREFIX + name, meaning, value=value)
        closes = CounterMetricFamily(PREFIX + "closes", "connections closed by the broker", labels=["code"])
        for code, count in counters.closes.items():
            closes.add_metric([str(code)], count)
        yield closes
        for name, number, meaning in (
            ("connections", report.connections, "connections that are open"),
            ("subscribers_lagging", report.lagging, "subscribers that read too slowly"),
            ("subscribers_catching_up", report.catching_up, "subscriptions that get what they missed"),
            ("executions_waiting", report.notified, "executions notified and not delivered yet"),
            ("fetches", report.fetches, "catch-ups asked of the data cluster, or queued"),
            ("be_subscriptions", len(report.subscriptions), "BE subscriptions"),
            ("fe_subscriptions", sum(each.subscribers for each in report.subscriptions), "FE subscriptions"),
            ("cache_bytes", cache.bytes, "recent results kept, in bytes"),
            ("publish_waiting_bytes", state.publications.waiting_bytes, "records that wait for the data cluster"),
            ("lag_executions", state.load_reports.largest_lag(), "executions that the slowest subscriber lags"),
        ):
            yield GaugeMetricFamily(PREFIX + name, meaning, value=number)
        rate = GaugeMetricFamily(PREFIX + "lambda", "notifications a second, moving average", labels=["channel"])
        totals: dict[str, float] = {}
        for each in report.subscriptions:
            totals[each.channel] = totals.get(each.channel, 0.0) + each.lam
        for channel, total in totals.items():
            rate.add_metric([channel], total)
        yield rate
