"""The data cluster: the interface that the HTTP server, the command line and tests use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tocsin.cluster.channels.feed_channels import FeedChannels
from tocsin.cluster.channels.manager import ChannelManager
from tocsin.cluster.channels.subscription_service import SubscriptionService
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.execute.ddl import DdlExecutor
from tocsin.cluster.execute.dml import DmlExecutor
from tocsin.cluster.execute.procedures import Procedures
from tocsin.cluster.execute.retrospection import Retrospection
from tocsin.cluster.execute.script import Outcome, Progress, ScriptExecutor
from tocsin.cluster.ingest.feeds import FeedManager
from tocsin.cluster.ingest.gateway import Gateway
from tocsin.cluster.maintenance import Maintenance
from tocsin.cluster.model import Broker, Channel, Column, Dataset, Execution, Feed, Post, Receipt, Subscription
from tocsin.cluster.ops.admin_token import admin_token
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.statements.ast import CreateBroker
from tocsin.cluster.storage.catalog import digest, open_catalog
from tocsin.cluster.storage.compaction import Compactor
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import OURS
from tocsin.config import ClusterConfig
from tocsin.errors import Conflict, NotFound, NotReady, StorageError, TocsinError
from tocsin.http.requests import Headers
from tocsin.http.tls import Tls
from tocsin.identity.grants import OPERATOR, GrantTable, Policy, Principal
from tocsin.identity.part_keys import Part, PartGate, PartKey
from tocsin.wire.join import Join, Joined

#: Seconds without a registration after which a broker's key may be forgotten; it registers every 5 seconds.
SILENT_SECONDS = 20.0
#: What brokers call this part when they join it.
DATA_CLUSTER = "data cluster"
#: Seconds between two checks whether there is room on the disk.
ROOM_SECONDS = 2.0
#: Damaged executions that ``/brokers`` shows of one broker.
SHOWN = 10


class DataCluster:
    """Ingestion works as soon as ``start`` returns; operations that need Spark wait until it is up. All methods may
    be called from any thread; the futures end when the change is durable.

    ``runtime``: an existing Spark session, which stays open after ``close``.
    """

    def __init__(self, config: ClusterConfig, runtime: SparkRuntime | None = None) -> None:
        self.config = config
        self._own_runtime = runtime is None
        self._closed = False
        self._up = threading.Event()
        self._started = time.monotonic()
        self._room_lock, self._room_checked, self._room_problem = threading.Lock(), -ROOM_SECONDS, ""
        #: When each broker registered last, by its id.
        self._registered: dict[int, float] = {}
        self._parts: dict[str, str] = {}  # keys of parts that are not brokers, by name
        Path(config.home).mkdir(parents=True, exist_ok=True)
        self.admin_token = config.admin_token or admin_token(Path(config.home))
        catalog = open_catalog(config.catalog, config.home)
        try:
            catalog.acquire_lease()
            self.context = ClusterContext(config, catalog, runtime or SparkRuntime(config))
        except BaseException:
            catalog.close()
            raise
        self.gateway = Gateway(self.context)
        self.feed_channels = FeedChannels(self.context)
        self.subscription_service = SubscriptionService(self.context, self.feed_channels)
        self.retrospection = Retrospection(self.context)
        self.tls = Tls.of(config)
        self.key = PartKey.load(Path(config.home) / "part.key", DATA_CLUSTER)
        self.gate = PartGate(DATA_CLUSTER, self.key, config.join_secret)
        self.channel_manager = ChannelManager(self.context, self.feed_channels, self.token_for, self.tls)
        self.feeds = FeedManager(self.context, self.feed_channels)
        self.compactor = Compactor(
            catalog,
            tail_rows=config.tail_rows,
            tail_segments=config.tail_segments,
            bulk_bytes=config.bulk_bytes,
        )
        self.dml = DmlExecutor(self.context, self.gateway, self.compactor)
        self.ddl = DdlExecutor(self.context, self.gateway, self.channel_manager, self.feeds)
        self.procedures = Procedures(self.context, self.dml, self.retrospection, self.channel_manager)
        self.scripts = ScriptExecutor(
            self.context,
            ddl=self.ddl,
            dml=self.dml,
            procedures=self.procedures,
            feeds=self.feeds,
            subscriptions=self.subscription_service,
            query=self.query,
            wait_ready=lambda seconds: self.wait_ready(seconds),
        )
        self.maintenance = Maintenance(
            self.context, self.compactor, self._spark_is_up, self.channel_manager.check_datasets
        )
        self.context.on_damage.append(self.channel_manager.check_datasets)
        self.context.metrics.on_read(self._read_gauges)

    # -- lifecycle ---------------------------------------------------------------------------------------------------

    def start(self, *, spark: bool = True) -> None:
        """Without ``spark``, only ingestion and definitions work."""
        context = self.context
        context.segments.claim(context.catalog.identity())
        for dataset in context.definitions.all(Dataset):
            context.open_dataset(dataset)
        for channel in context.definitions.all(Channel):
            context.open_channel(channel)
        orphans = context.segments.orphans(context.catalog.all_paths())
        context.segments.delete([path for path in orphans if path.startswith(OURS)])
        for channel in context.definitions.all(Channel):
            self.channel_manager.open(channel)
        for schedule in context.catalog.schedules():
            self.procedures.resume(schedule)
        context.committer.start()
        self.channel_manager.check_datasets()
        self.channel_manager.start()
        self.maintenance.start(spark)

    def _spark_is_up(self) -> None:
        # A file feed runs in the Spark session that has just started.
        for feed in self.context.definitions.all(Feed):
            if feed.running and feed.options["type"] == "file" and feed.id not in self.feeds.running:
                self.feeds.open(feed)
        self._up.set()
        self.channel_manager.scheduler.wake()

    def close(self) -> None:
        """Stop all parts in order; everything that was acknowledged is durable already."""
        if self._closed:
            return
        self._closed = True
        self.feeds.close()
        self.channel_manager.close()
        self.maintenance.close()
        self.context.committer.close()
        if self._own_runtime:
            self.context.runtime.stop()
        self.context.catalog.close()

    def __enter__(self) -> DataCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def storage_problem(self) -> str:
        """Why nothing can be stored; tried again after some seconds."""
        with self._room_lock:
            if time.monotonic() >= self._room_checked + ROOM_SECONDS:
                try:
                    self.context.segments.check_room()
                    self.context.catalog.keep_time(self.context.clock.expiry())
                    self._room_problem = ""
                except StorageError as error:
                    self._room_problem = str(error)
                self._room_checked = time.monotonic()
            return self._room_problem

    @property
    def ready(self) -> bool:
        return (
            self._up.is_set()
            and not self.storage_problem
            and self.context.runtime.state == "up"
            and self.context.runtime.answers
            and self.context.committer.alive
            and not self._closed
        )

    def wait_ready(self, timeout: float | None = None) -> None:
        if not self._up.wait(timeout) or self.context.runtime.state != "up":
            runtime = self.context.runtime
            reason = runtime.reason or f"Spark is {runtime.state}"
            raise NotReady(f"not ready: {reason}", hint="wait until /readyz answers 200")

    def status(self) -> dict[str, Any]:
        runtime = self.context.runtime
        return {
            "ready": self.ready,
            "spark": runtime.state if runtime.answers else "silent",
            "reason": self.storage_problem or runtime.reason,
            "master": self.config.master,
            "committer": self.context.committer.alive and not self._closed,
            "datasets": len(self.context.stores),
            "channels": len(self.context.tables),
            "clock": self.context.clock.problem,
        }

    @property
    def metrics(self) -> Metrics:
        return self.context.metrics

    def _read_gauges(self) -> None:
        metrics, context = self.context.metrics, self.context
        for store in list(context.stores.values()):
            metrics.dataset_rows.labels(store.dataset.name).set(store.stored_rows)
            metrics.dataset_failing.labels(store.dataset.name).set(bool(store.damaged))
            metrics.dataset_segments.labels(store.dataset.name).set(len(store.files) + len(store.log))
        for runner in list(self.channel_manager.runners.values()):
            name = runner.channel.name
            metrics.channel_lag.labels(name).set(runner.lag())
            job = self.channel_manager.scheduler.jobs.get(runner.channel.id)
            if job is not None:
                metrics.executions_late.labels(name).inc(job.late - job.late_reported)
                job.late_reported = job.late
            metrics.channel_failing.labels(name).set(runner.channel.state == "failing")
            metrics.subscriptions.labels(name).set(len(context.tables[runner.channel.id]))
        metrics.clock_jump.set(context.clock.jump)
        metrics.notifications_pending.set(
            sum(line["pending"] for line in self.channel_manager.notifier.status().values())
        )

    # -- statements --------------------------------------------------------------------------------------------------

    def run(
        self, script: str, progress: Callable[[Progress], None] | None = None, principal: Principal = OPERATOR
    ) -> Iterator[Outcome]:
        """Yield one outcome for each statement; the first error ends the script."""
        return self.scripts.run(script, progress, principal)

    def execute(self, script: str) -> list[Outcome]:
        return list(self.run(script))

    def query(self, sql: str, principal: Principal = OPERATOR) -> pa.Table:
        self.wait_ready(0.0)
        try:
            table = self.retrospection.query(sql, principal=principal)
        except TocsinError:
            self.context.metrics.queries.labels("failed").inc()
            raise
        self.context.metrics.queries.labels("ok").inc()
        return table

    @property
    def grants(self) -> GrantTable:
        return self.context.grants.table

    @property
    def policy(self) -> Policy:
        return self.context.grants.policy

    # -- publishers --------------------------------------------------------------------------------------------------

    def publish(self, post: Post) -> Future[Receipt]:
        return self.gateway.publish(post)

    # -- brokers and their subscriptions -----------------------------------------------------------------------------

    def register_broker(self, name: str, url: str, matched: bool = False, join: Join | None = None) -> dict[str, Any]:
        """Create the broker or change its address; a broker that was declared gone is up again.

        ``matched``: its notifications list the subscriptions that have results. ``join`` has the broker's key: no
        broker with another one gets the name until an operator forgets the key.
        """
        self.ddl.broker_addresses.check(url)
        joined, key = self.gate.admit(name, url, join, self.key_of(name)), "" if join is None else join.key
        with self.context.definitions.lock:
            known = self.context.definitions.find(Broker, name)
            if known is not None and known.key and known.key != key:
                raise Conflict(
                    f"another broker has the name {known.name!r}, at {known.url}",
                    hint="choose another --name; if that broker is gone for good, or has lost its home: tocsin forget "
                    + known.name,
                )
            returned = known is not None and known.state == "gone"
            if known is None:
                known = self.ddl.broker(CreateBroker(name, url))
            broker = msgspec.structs.replace(known, url=url, state="up", matched=matched, key=key)
            if broker != known:
                self.context.definitions.replace(broker)
            self._registered[broker.id] = time.monotonic()
        self.channel_manager.notifier.wake([broker.id], returned=True)
        return self._broker(broker) | {"returned": returned, "joined": joined}

    def key_of(self, name: str) -> str:
        """The public key of a broker or another part; '' if it has none or does not exist."""
        if name in self._parts:
            return self._parts[name]
        known = self.context.definitions.find(Broker, name)
        return known.key if known is not None else ""

    def join(self, name: str, join: Join) -> Joined | None:
        """A part that is not a broker. It is known until this process ends, and then joins again."""
        joined = self.gate.admit(name, "", join, self._parts.get(name, ""))
        self._parts[name] = join.key
        return joined

    def sender(self, headers: Headers) -> Part | None:
        """The broker or other part whose key signed the request."""
        return self.gate.sender(headers, self.key_of)

    def token_for(self, broker: str) -> str:
        """For notifications to this broker; '' if it has no key that a token could be meant for."""
        key = self.key_of(broker)
        return self.key.token(key) if key else ""

    def forget_broker_key(self, name: str) -> dict[str, Any]:
        """Another broker may have the name, with its subscriptions. Refused while the owner of the key registers."""
        with self.context.definitions.lock:
            known = self.context.definitions.get(Broker, name)
            silent = time.monotonic() - self._registered.get(known.id, self._started)
            if known.key and known.state == "up" and silent < SILENT_SECONDS:
                raise Conflict(
                    f"{known.name} registered {silent:.0f} s ago, from {known.url}",
                    hint=f"stop it first, and try again {SILENT_SECONDS:g} s later",
                )
            if known.key:
                self.context.definitions.replace(msgspec.structs.replace(known, key=""))
        return self._broker(known)

    def brokers(self) -> list[dict[str, Any]]:
        return [self._broker(broker) for broker in self.context.definitions.all(Broker)]

    def _broker(self, broker: Broker) -> dict[str, Any]:
        line = self.channel_manager.notifier.status().get(broker.id, {})
        subscriptions = sum(len(table.of_broker(broker.id)) for table in self.context.tables.values())
        return {
            "name": broker.name,
            "url": broker.url,
            "state": broker.state,
            "subscriptions": subscriptions,
            "pending": line.get("pending", 0),
            "failures": line.get("failures", 0),
            "last_error": line.get("last_error"),
            "damaged": self._damaged_for(broker.id),
        }

    def _damaged_for(self, broker: int) -> list[str]:
        """Of the executions whose results are lost, the newest in channels that the broker has subscriptions to."""
        tables = self.context.tables
        mine = {id for id, table in tables.items() if len(table.of_broker(broker))}
        return [text for (channel, _), text in self.context.damaged.items() if channel in mine][-SHOWN:]

    def subscribe(
        self, channel: str, broker: str, args: Sequence[Sequence[Any] | Mapping[str, Any]]
    ) -> Future[list[int]]:
        return self.subscription_service.subscribe(channel, broker, args)

    def unsubscribe(self, channel: str, ids: Sequence[int], broker: str | None = None) -> Future[int]:
        return self.subscription_service.unsubscribe(channel, ids, broker)

    def migrate(self, channel: str, id: int, args: Any, source: str | None, target: str) -> Future[int]:
        return self.subscription_service.migrate(channel, id, args, source, target)

    def subscriptions(self, channel: str, broker: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        table = self.context.tables[self.context.definitions.get(Channel, channel).id]
        ids = table.ids() if broker is None else table.of_broker(self.context.definitions.get(Broker, broker).id)
        names = self._broker_names()
        return [_subscription(table.get(id), names) for id in ids[ids > after][:limit].tolist()]

    def subscription(self, channel: str, id: int) -> dict[str, Any]:
        table = self.context.tables[self.context.definitions.get(Channel, channel).id]
        return _subscription(table.get(id), self._broker_names()) | {"begins_after": table.begins_after(id)}

    def _broker_names(self) -> dict[int, str]:
        return {item.id: item.name for item in self.context.definitions.all(Broker)}

    # -- datasets ----------------------------------------------------------------------------------------------------

    def datasets(self) -> list[dict[str, Any]]:
        return [self._dataset(store) for store in list(self.context.stores.values())]

    def dataset(self, name: str) -> dict[str, Any]:
        return self._dataset(self.context.stores[self.context.definitions.get(Dataset, name).id])

    def _dataset(self, store: DatasetStore) -> dict[str, Any]:
        errors = {path: error.message for path, error in store.damaged.items()}
        return {
            "name": store.dataset.name,
            "active": store.dataset.active,
            "key": list(store.dataset.key),
            "columns": [{"name": item.name, "type": item.type} for item in store.dataset.columns],
            "rows": sum(segment.rows for segment in (*store.files, *store.log)),
            "segments": len(store.files) + len(store.log),
            "commits": store.head,
            "state": "failing" if errors else "ready",
            "error": next(iter(errors.values()), None),
            "damaged": sorted(errors),
        }

    # -- channels and results ----------------------------------------------------------------------------------------

    def feeds_described(self) -> list[dict[str, Any]]:
        """All feeds; ``columns`` are those of a live one, or of its dataset."""
        names = self.context.definitions
        found = []
        for feed in names.all(Feed):
            dataset = None if feed.dataset is None else names.find(Dataset, feed.dataset)
            columns = feed.options["columns"] if feed.live else [] if dataset is None else dataset.columns
            kind = feed.options.get("type", "http")
            found.append(
                {"name": feed.name, "type": kind, "dataset": feed.dataset, "running": feed.running, "columns": columns}
            )
        return found

    def channels(self) -> list[dict[str, Any]]:
        return [self._channel(channel) for channel in self.context.definitions.all(Channel)]

    def channel(self, name: str) -> dict[str, Any]:
        return self._channel(self.context.definitions.get(Channel, name))

    def _channel(self, channel: Channel) -> dict[str, Any]:
        runner = self.channel_manager.runners.get(channel.id)
        job = self.channel_manager.scheduler.jobs.get(channel.id)
        at, run = self.channel_manager.last_runs.get(channel.id, (None, None))
        stalled = ""
        if job is not None and channel.state == "running":
            stalled = self.channel_manager.scheduler.stalled(job)
        return {
            "name": channel.name,
            "epoch": channel.epoch,
            "kind": channel.kind,
            "push": channel.push,
            "parameters": [{"name": item.name, "type": item.type} for item in channel.parameters],
            "period": channel.period,
            "retention": channel.retention if channel.retention is not None else self.config.retention,
            "function": channel.function,
            "body": channel.body,
            "state": "stalled" if stalled else channel.state,
            "error": stalled or channel.error,
            "columns": channel.columns,
            "subscriptions": len(self.context.tables[channel.id]),
            "last_execution": self._position(channel),
            "first_execution": self.context.catalog.first_execution(channel.id),
            "lag": runner.lag() if runner is not None else 0,
            "runs": job.runs if job is not None else 0,
            "late": job.late if job is not None else 0,
            "last_run": at,
            "last_seconds": run.seconds if run is not None else None,
        }

    def epoch(self, channel: str) -> int:
        return self.feed_channels.get(channel).epoch

    def feed_columns(self, channel: str) -> list[Column] | None:
        """Those of a feed's records; None for any other channel."""
        definition = self.context.definitions.get(Channel, channel)
        return list(definition.columns) if definition.kind == "feed" else None

    def position(self, channel: str) -> int:
        """The newest execution. A broker is notified of every later one that has results for its subscriptions."""
        return self._position(self.context.definitions.get(Channel, channel))

    def _position(self, channel: Channel) -> int:
        if channel.kind == "feed":
            return self.feed_channels.store(channel).head
        runner = self.channel_manager.runners.get(channel.id)
        return runner.number if runner is not None else self.context.catalog.last_execution(channel.id)

    def executions(self, channel: str, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        id = self.context.definitions.get(Channel, channel).id
        return [_execution(item) for item in self.context.catalog.executions(id, after, limit)]

    def wait_execution(self, channel: str, after: int, timeout: float) -> int:
        """The number of the newest execution, as soon as it is above ``after`` or the time is over."""
        id = self.context.definitions.get(Channel, channel).id
        end = time.monotonic() + timeout
        with self.context.executed:
            while True:
                runner = self.channel_manager.runners.get(id)
                if runner is None:
                    raise NotFound("channel", channel)
                left = end - time.monotonic()
                if runner.number > after or left <= 0 or self._closed:
                    return runner.number
                self.context.executed.wait(min(left, 1.0))

    def pull(self, channel: str, number: int, broker: str) -> Iterator[bytes]:
        """The results of one execution for one broker: a line of JSON for each subscription."""
        definition = self.context.definitions.get(Channel, channel)
        subscriber = self.context.definitions.get(Broker, broker)
        if definition.kind == "feed":
            raise self.feed_channels.no_commit(definition, number)
        execution = self.context.catalog.execution(definition.id, number)
        if execution is None:
            raise self._no_execution(definition, number)
        ids = self.context.tables[definition.id].of_broker(subscriber.id)
        self.context.metrics.pulls.labels(definition.name).inc()
        return self._counted(definition.name, self.context.results.pull(execution, ids))

    def results(
        self,
        channel: str,
        subscription: int,
        after: int = 0,
        limit: int = 100,
        strict: bool = False,
        same_as: int | None = None,
    ) -> Iterator[bytes]:
        """getresults: the results of one subscription in the executions after ``after``, in order.

        0 means from the oldest stored execution, unless ``strict``. ``same_as``: only if the subscription has, or had
        before it ended, the arguments of this one: an id alone proves nothing.
        """
        definition = self.context.definitions.get(Channel, channel)
        if same_as is not None and same_as != subscription:
            known = self._digest(definition, subscription)
            if known is None or known != self._digest(definition, same_as):
                raise self.context.tables[definition.id].missing(subscription)
        if definition.kind == "feed":
            return self._counted(definition.name, self.feed_channels.lines(definition, subscription, after, limit))
        first = self.context.catalog.first_execution(definition.id)
        if after < first - 1 and (after or strict):
            raise self._no_execution(definition, after + 1)
        return self._counted(definition.name, self._of_subscription(definition, subscription, after, limit))

    def _digest(self, channel: Channel, id: int) -> bytes | None:
        """Of the arguments; None if they are not known any more."""
        args = self.context.tables[channel.id].text(id)
        return self.context.catalog.ended(channel.id, id) if args is None else digest(args)

    def _of_subscription(self, channel: Channel, subscription: int, after: int, limit: int) -> Iterator[bytes]:
        """``limit`` counts the executions that have results for the subscription."""
        count = 0
        while count < limit:
            executions = self.context.catalog.executions(channel.id, after, 1000)
            for execution in executions:
                after = execution.number
                for line in self.context.results.pull(execution, np.array([subscription], np.int64)):
                    count += 1
                    yield line
                if count >= limit:
                    return
            if len(executions) < 1000:
                return

    def _counted(self, channel: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.context.metrics.pull_bytes.labels(channel).inc(len(chunk))
            yield chunk

    def _no_execution(self, channel: Channel, number: int) -> TocsinError:
        first, last = self.context.catalog.first_execution(channel.id), self.context.catalog.last_execution(channel.id)
        error = NotFound("execution", f"{channel.name}/{number}", hint=f"executions {first} to {last} are stored")
        error.fields.update(first=first, last=last)
        return error


def _subscription(item: Subscription, brokers: dict[int, str]) -> dict[str, Any]:
    names = sorted(brokers[id] for id in item.brokers)
    return {"subscription": item.id, "args": list(item.args), "brokers": names}


def _execution(item: Execution) -> dict[str, Any]:
    return {
        "execution": item.number,
        "time": item.time,
        "finished": item.finished,
        "rows": item.rows,
        "subscriptions": item.subscriptions,
        "bytes": item.bytes,
    }
