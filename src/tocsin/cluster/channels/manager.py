"""Runs all channels: schedules their executions, handles failures and notifies brokers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.cluster.channels.feed_channels import FeedChannels
from tocsin.cluster.channels.runner import ChannelRunner, Run
from tocsin.cluster.channels.scheduler import Job, Scheduler
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Broker, Channel, Dataset, OutboxEntry
from tocsin.cluster.notify.notifier import Notifier
from tocsin.cluster.ops import kill_points
from tocsin.cluster.query.compiler import CompiledQuery
from tocsin.cluster.spark.errors import message_of
from tocsin.cluster.spark.plan_cache import PlanCache
from tocsin.cluster.storage.results import RecentResults
from tocsin.errors import Damaged, QueryTimeout, StorageError, TocsinError
from tocsin.http.tls import Tls
from tocsin.wire.backoff import ceiling

log = logging.getLogger(__name__)

LONGEST_BACKOFF = 30.0


class ChannelManager:
    def __init__(
        self, context: ClusterContext, feed_channels: FeedChannels, token_for: Callable[[str], str], tls: Tls
    ) -> None:
        self.context = context
        self.feed_channels = feed_channels
        self.runners: dict[int, ChannelRunner] = {}
        self.scheduler = Scheduler(
            context.config.execution_threads,
            time.monotonic,
            lambda: context.runtime.state == "up",
            self._failed,
            compiling=max(1, (os.cpu_count() or 1) // 2),
        )
        self.notifier = Notifier(
            context.catalog,
            self.message,
            gone_after=context.config.broker_gone_after,
            declare_gone=self._declare_gone,
            token_for=token_for,
            tls=tls,
            count=lambda outcome: context.metrics.notifications.labels(outcome).inc(),
        )
        self.recent_results = RecentResults(context.results)
        self.last_runs: dict[int, tuple[float, Run]] = {}
        context.on_append.append(self.scheduler.appended)
        context.on_append.append(self._wake_followers)

    # -- lifecycle ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.scheduler.start()
        self.notifier.start()

    def close(self) -> None:
        self.scheduler.close()
        self.notifier.stop()

    def open(self, channel: Channel, plans: PlanCache | None = None, query: CompiledQuery | None = None) -> None:
        """Schedule the channel, beginning with the commits that it has missed. That of a feed does not run."""
        if channel.kind == "feed":
            return
        runner = ChannelRunner(self.context, channel, plans, query)
        self.runners[channel.id] = runner
        follows = runner.triggers if channel.kind == "continuous" else None
        job = Job(
            channel.name,
            lambda: self._run(runner),
            period=channel.period,
            follows=follows,
            cold=lambda: runner.session != self.context.runtime.generation,
        )
        self.scheduler.add(channel.id, job, due_now=channel.kind == "continuous" and runner.lagging())

    def drop(self, channel: Channel) -> None:
        """Remove the channel; returns when its last execution has ended."""
        self.scheduler.remove(channel.id)
        self.runners.pop(channel.id, None)
        self.last_runs.pop(channel.id, None)

    def check_datasets(self) -> None:
        """Mark the channels that read a failing dataset; try those again whose dataset can be read."""
        for runner in list(self.runners.values()):
            try:
                self._check(runner)
            except Damaged as error:
                if runner.channel.error != error.message:
                    self._mark(runner, "failing", error.message)
            else:
                if runner.channel.state == "failing":
                    self.scheduler.appended(dict.fromkeys(runner.triggers, 0))

    def _check(self, runner: ChannelRunner) -> None:
        for use in runner.query.uses:
            if use.relation.kind == "dataset":
                self.context.stores[self.context.definitions.get(Dataset, use.relation.name).id].check()

    # -- executions --------------------------------------------------------------------------------------------------

    def _run(self, runner: ChannelRunner) -> bool:
        name = runner.channel.name
        metrics = self.context.metrics
        self._check(runner)
        with self.context.runtime.pool(name, "channel", self.context.config.execution_seconds):
            run = runner.run()
        if run.outcome != "skipped":
            self.last_runs[runner.channel.id] = (time.time(), run)
            metrics.executions.labels(name, run.outcome).inc()
            metrics.execution_seconds.labels(name).observe(run.seconds)
        if run.execution is not None:
            metrics.result_rows.labels(name).inc(run.execution.rows)
            metrics.result_subscriptions.labels(name).inc(run.execution.subscriptions)
            metrics.result_bytes.labels(name).inc(run.execution.bytes)
            self.notifier.wake(run.brokers)
            kill_points.hit("execution.notified")
        if runner.channel.state == "failing":
            self._mark(runner, "running", None)
        return runner.channel.kind == "continuous" and runner.lagging()

    def _failed(self, job: Job, error: Exception) -> float:
        runner = next((item for item in self.runners.values() if item.channel.name == job.name), None)
        if runner is None:
            log.error("procedure %s failed: %s", job.name, error)
            return ceiling(job.failures, 1.0, LONGEST_BACKOFF)
        if not self.context.runtime.alive():
            job.failures -= 1  # not a failure of the channel; it continues when Spark is up
            return 0.5
        text = error.message if isinstance(error, TocsinError) else message_of(error)
        log.warning("an execution of %s failed: %s", job.name, text)
        self.context.metrics.executions.labels(job.name, "failed").inc()
        if "maxResultSize" in text:
            runner.large = True
        try:
            runner.resync()
            given_up = isinstance(error, QueryTimeout | Damaged) or job.failures >= self.context.config.retries
            if given_up and runner.channel.error != text:
                self._mark(runner, "failing", text)
        except StorageError as trouble:
            log.warning("the catalog cannot be read or written: %s", trouble)
        return ceiling(job.failures, 0.5, LONGEST_BACKOFF)

    def _mark(self, runner: ChannelRunner, state: Any, error: str | None) -> None:
        runner.channel = msgspec.structs.replace(runner.channel, state=state, error=error)
        self.context.definitions.replace(runner.channel)

    # -- notifications -----------------------------------------------------------------------------------------------

    def message(self, broker: Broker, entry: OutboxEntry) -> bytes | None:
        """The notification of an execution for a broker; None where there is nothing to send.

        An execution that has expired is sent all the same: the broker fails to pull it, and declares the gap.
        """
        channel = self.context.definitions.by_id(entry.channel)
        if channel is None:
            return None
        if channel.kind == "feed":
            return self.feed_channels.message(broker, channel, entry.execution)
        execution = self.context.catalog.execution(entry.channel, entry.execution)
        message: dict[str, Any] = {
            "broker": broker.name,
            "channel": channel.name,
            "epoch": channel.epoch,
            "execution": entry.execution,
        }
        pull = f"/channels/{channel.name}/executions/{entry.execution}/results?broker={broker.name}"
        if execution is None:
            return msgspec.json.encode(message | {"pull": pull})
        message["time"] = execution.time
        if channel.push or broker.matched:
            mine = self.context.tables[entry.channel].of_broker(broker.id)
            ids = self.recent_results.matching(execution, mine)
            if not len(ids):
                return None
            if broker.matched:
                message["subscriptions"] = ids.tolist()
        if channel.push:
            message["results"] = msgspec.Raw(self.recent_results.array(execution, ids))
        else:
            message["pull"] = pull
        return msgspec.json.encode(message)

    def _wake_followers(self, heads: dict[int, int]) -> None:
        brokers = {broker for dataset in heads for broker, _ in self.context.followers(dataset)}
        if brokers:
            self.notifier.wake(brokers)

    def _declare_gone(self, broker: Broker) -> None:
        with self.context.definitions.lock:
            present = self.context.definitions.find(Broker, broker.name)
            if present is not None and present.id == broker.id:
                self.context.definitions.replace(msgspec.structs.replace(present, state="gone"))
