"""The data cluster, whole: what the server, the command line and tests talk to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
from msgspec import Struct, field

from tocsin.cluster.channels.manager import ChannelManager
from tocsin.cluster.channels.subscription_service import SubscriptionService
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.execute.ddl import DdlExecutor
from tocsin.cluster.execute.dml import DmlExecutor
from tocsin.cluster.execute.procedures import Procedures
from tocsin.cluster.execute.retrospection import Retrospection
from tocsin.cluster.ingest.feeds import Feeds
from tocsin.cluster.ingest.gateway import Gateway, Receipt
from tocsin.cluster.maintenance import Maintenance
from tocsin.cluster.model import Broker, Channel, Dataset, Execution, Feed, Subscription
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.records.formats import counted
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.statements import ast as st
from tocsin.cluster.statements.parser import Parsed, iter_statements
from tocsin.cluster.storage.catalog import open_catalog
from tocsin.cluster.storage.compaction import Compactor
from tocsin.cluster.storage.segments import OURS
from tocsin.config import ClusterConfig
from tocsin.errors import LimitExceeded, NotFound, NotReady, TocsinError, UserError

#: Seconds that a statement waits for a Spark that is starting.
SPARK_SECONDS = 120.0


class Outcome(Struct, frozen=True):
    """What one statement of a script did."""

    statement: int
    kind: str
    message: str
    rows: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    table: Any = None


class Progress(Struct, frozen=True):
    """How far a long statement is: ``done`` from 0 to 1, -1 where nobody knows."""

    statement: int
    done: float
    rows: int
    text: str


class DataCluster:
    """Ingestion works as soon as ``start`` returns; what needs Spark waits until it is up.

    ``runtime``: a Spark session of somebody else's, which is used and left running.
    """

    def __init__(self, config: ClusterConfig, runtime: SparkRuntime | None = None) -> None:
        self.config = config
        self._own_runtime = runtime is None
        self._closed = False
        self._up = threading.Event()
        Path(config.home).mkdir(parents=True, exist_ok=True)
        catalog = open_catalog(config.catalog, config.home)
        try:
            catalog.acquire_lease()
            self.world = ClusterContext(config, catalog, runtime or SparkRuntime(config))
        except BaseException:
            catalog.close()
            raise
        self.gateway = Gateway(self.world)
        self.desk = SubscriptionService(self.world)
        self.retrospection = Retrospection(self.world)
        self.channel_runs = ChannelManager(self.world)
        self.feeds = Feeds(self.world)
        self.compactor = Compactor(catalog, tail_rows=config.tail_rows, tail_segments=config.tail_segments)
        self.writer = DmlExecutor(self.world, self.gateway, self.compactor)
        self.definer = DdlExecutor(self.world, self.gateway, self.channel_runs, self.feeds)
        self.procedures = Procedures(self.world, self.writer, self.retrospection, self.channel_runs)
        self.maintenance = Maintenance(self.world, self.compactor, self._spark_is_up)
        self.world.metrics.on_read(self._read_gauges)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self, *, spark: bool = True) -> None:
        """``spark`` False: ingestion and definitions only, for as long as the process lives."""
        world = self.world
        world.segments.claim(world.catalog.identity())
        for dataset in world.names.all(Dataset):
            world.open_dataset(dataset)
        for channel in world.names.all(Channel):
            world.open_channel(channel)
        lost = world.segments.orphans(world.catalog.all_paths())
        world.segments.delete([path for path in lost if path.startswith(OURS)])
        for channel in world.names.all(Channel):
            self.channel_runs.open(channel)
        for schedule in world.catalog.schedules():
            self.procedures.resume(schedule)
        world.committer.start()
        self.channel_runs.start()
        self.maintenance.start(spark)

    def _spark_is_up(self) -> None:
        # File feeds belong to the session that has just begun.
        for feed in self.world.names.all(Feed):
            if feed.running and feed.options["type"] == "file" and feed.id not in self.feeds.running:
                self.feeds.open(feed)
        self._up.set()
        self.channel_runs.scheduler.wake()

    def close(self) -> None:
        """Stops in order; what was acknowledged is durable already."""
        if self._closed:
            return
        self._closed = True
        self.feeds.close()
        self.channel_runs.close()
        self.maintenance.close()
        self.world.committer.close()
        if self._own_runtime:
            self.world.runtime.stop()
        self.world.catalog.close()

    def __enter__(self) -> DataCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ready(self) -> bool:
        return (
            self._up.is_set() and self.world.runtime.state == "up" and self.world.committer.alive and not self._closed
        )

    def wait_ready(self, timeout: float | None = None) -> None:
        if not self._up.wait(timeout) or self.world.runtime.state != "up":
            runtime = self.world.runtime
            reason = runtime.reason or f"Spark is {runtime.state}"
            raise NotReady(f"not ready: {reason}", hint="wait for /readyz to say yes")

    def status(self) -> dict[str, Any]:
        runtime = self.world.runtime
        return {
            "ready": self.ready,
            "spark": runtime.state,
            "reason": runtime.reason,
            "master": self.config.master,
            "committer": self.world.committer.alive and not self._closed,
            "datasets": len(self.world.stores),
            "channels": len(self.world.tables),
        }

    @property
    def metrics(self) -> Metrics:
        return self.world.metrics

    def _read_gauges(self) -> None:
        metrics, world = self.world.metrics, self.world
        for store in list(world.stores.values()):
            metrics.dataset_rows.labels(store.dataset.name).set(store.base_rows + store.recent_rows)
            metrics.dataset_segments.labels(store.dataset.name).set(len(store.base) + len(store.log))
        for runner in list(self.channel_runs.runners.values()):
            name = runner.channel.name
            metrics.channel_lag.labels(name).set(runner.lag())
            job = self.channel_runs.scheduler.jobs.get(runner.channel.id)
            if job is not None:
                metrics.executions_late.labels(name).inc(job.late - job.late_reported)
                job.late_reported = job.late
            metrics.channel_failing.labels(name).set(runner.channel.state == "failing")
            metrics.subscriptions.labels(name).set(len(world.tables[runner.channel.id]))
        metrics.tells_pending.set(sum(line["pending"] for line in self.channel_runs.notifier.status().values()))

    # -- statements --------------------------------------------------------------------------------------------------

    def run(self, script: str, progress: Callable[[Progress], None] | None = None) -> Iterator[Outcome]:
        """One outcome a statement, as it is done; the first error ends it and says which statement and where."""
        longest = self.config.limits.statement_bytes
        if len(script) > longest:
            raise LimitExceeded(f"the script has {len(script)} characters, at most {longest}", limit=longest)
        for parsed in iter_statements(script):
            try:
                outcome = self._statement(parsed, progress or (lambda _: None))
            except TocsinError as error:
                self.world.metrics.statements.labels(_kind(parsed.statement), "failed").inc()
                error.fields.setdefault("statement", parsed.index)
                error.fields.setdefault("line", parsed.line)
                error.fields.setdefault("column", parsed.column)
                raise
            self.world.metrics.statements.labels(outcome.kind, "ok").inc()
            yield outcome

    def execute(self, script: str) -> list[Outcome]:
        return list(self.run(script))

    def _statement(self, parsed: Parsed, progress: Callable[[Progress], None]) -> Outcome:
        statement, kind = parsed.statement, _kind(parsed.statement)

        def done(message: str, rows: int | None = None, table: Any = None, **data: Any) -> Outcome:
            return Outcome(parsed.index, kind, message, rows, data, table)

        if not isinstance(statement, _WITHOUT_SPARK + _CHECKED):
            self.wait_ready(SPARK_SECONDS)
        match statement:
            case st.Query():
                table = self.query(statement.sql)
                return done(counted(table.num_rows), table.num_rows, table)
            case st.Insert():
                rows = self.writer.insert(statement)
                did = "upserted" if statement.upsert else "inserted"
                return done(f"{counted(rows)} {did} into {statement.dataset}", rows)
            case st.Delete():
                rows = self.writer.delete(statement)
                return done(f"{counted(rows)} deleted from {statement.dataset}", rows)
            case st.LoadDataset():
                loaded = self.writer.load(
                    statement,
                    lambda part, rows: progress(Progress(parsed.index, part, rows, f"loading {statement.dataset}")),
                )
                message = f"{counted(loaded.taken)} loaded into {statement.dataset}"
                if loaded.refused:
                    message += f", {loaded.refused} refused"
                return done(message, loaded.taken, refused=loaded.refused, reasons=loaded.reasons)
            case st.Subscribe():
                (number,) = self.desk.subscribe(statement.channel, statement.broker, [list(statement.args)]).result()
                return done(f"subscription {number}", subscription=number)
            case st.Unsubscribe():
                number = _number(statement.subscription)
                left = self.desk.unsubscribe(statement.channel, [number], statement.broker).result()
                return done(f"subscription {number} given up" if left else f"subscription {number} was not held", left)
            case st.ChangeSubscription():
                number = self.desk.move(
                    statement.channel,
                    _number(statement.subscription),
                    list(statement.args),
                    statement.from_broker,
                    statement.broker,
                ).result()
                return done(f"subscription {number} is on {statement.broker}", subscription=number)
            case st.ExecuteProcedure():
                ran = self.procedures.execute(statement.name, statement.args)
                return done(ran.message, ran.rows, ran.table)
            case _:
                try:
                    with self.world.names.lock:
                        return done(self._define(statement))
                except NotReady:
                    if not isinstance(statement, _CHECKED):
                        raise
                # Spark has not seen its query yet. The others shall not wait for the names meanwhile.
                self.wait_ready(SPARK_SECONDS)
                with self.world.names.lock:
                    return done(self._define(statement))

    def _define(self, statement: Any) -> str:
        names = self.world.names
        match statement:
            case st.CreateDataset():
                return _created("dataset", statement.name, self.definer.dataset(statement))
            case st.CreateFeed():
                return _created("feed", statement.name, self.definer.feed(statement))
            case st.CreateFunction():
                return _created("function", statement.name, self.definer.function(statement))
            case st.CreateChannel():
                return _created("channel", statement.name, self.definer.channel(statement))
            case st.CreateBroker():
                return _created("broker", statement.name, self.definer.broker(statement))
            case st.CreateProcedure():
                return _created("procedure", statement.name, self.definer.procedure(statement))
            case st.Drop():
                dropped = self.definer.drop(statement)
                return f"{statement.kind} {statement.name} {'dropped' if dropped else 'was not there'}"
            case st.ConnectFeed():
                self.feeds.connect(names.get(Feed, statement.feed), names.get(Dataset, statement.dataset))
                return f"feed {statement.feed} connected to dataset {statement.dataset}"
            case st.DisconnectFeed():
                self.feeds.disconnect(names.get(Feed, statement.feed))
                return f"feed {statement.feed} disconnected"
            case st.StartFeed():
                self.feeds.start(names.get(Feed, statement.feed))
                return f"feed {statement.feed} started"
            case st.StopFeed():
                self.feeds.stop(names.get(Feed, statement.feed))
                return f"feed {statement.feed} stopped"
        raise AssertionError(f"no handler for {type(statement).__name__}")

    def query(self, sql: str) -> pa.Table:
        self.wait_ready(0.0)
        try:
            table = self.retrospection.query(sql)
        except TocsinError:
            self.world.metrics.queries.labels("failed").inc()
            raise
        self.world.metrics.queries.labels("ok").inc()
        return table

    # -- publishers --------------------------------------------------------------------------------------------------

    def publish(
        self,
        feed: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        encoding: str = "",
        idempotency_key: str | None = None,
        atomic: bool = False,
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> Future[Receipt]:
        return self.gateway.publish(
            feed,
            body,
            content_type=content_type,
            encoding=encoding,
            idempotency_key=idempotency_key,
            atomic=atomic,
            unknown=unknown,
        )

    # -- brokers and their subscriptions -----------------------------------------------------------------------------

    def register_broker(self, name: str, url: str) -> dict[str, Any]:
        """Creates the broker or changes its address; one that was declared gone is back."""
        with self.world.names.lock:
            found = self.world.names.find(Broker, name)
            returned = found is not None and found.state == "gone"
            if found is None:
                self.definer.broker(st.CreateBroker(name, url))
            elif (found.url, found.state) != (self.definer.check_url(url), "up"):
                self.world.names.replace(msgspec.structs.replace(found, url=url, state="up"))
            broker = self.world.names.get(Broker, name)
        self.channel_runs.notifier.wake([broker.id], returned=True)
        return self._broker(broker) | {"returned": returned}

    def brokers(self) -> list[dict[str, Any]]:
        return [self._broker(broker) for broker in self.world.names.all(Broker)]

    def _broker(self, broker: Broker) -> dict[str, Any]:
        line = self.channel_runs.notifier.status().get(broker.id, {})
        subscriptions = sum(len(table.of_broker(broker.id)) for table in self.world.tables.values())
        return {
            "name": broker.name,
            "url": broker.url,
            "state": broker.state,
            "subscriptions": subscriptions,
            "pending": line.get("pending", 0),
            "failures": line.get("failures", 0),
            "last_error": line.get("last_error"),
        }

    def subscribe(
        self, channel: str, broker: str, args: Sequence[Sequence[Any] | Mapping[str, Any]]
    ) -> Future[list[int]]:
        return self.desk.subscribe(channel, broker, args)

    def unsubscribe(self, channel: str, ids: Sequence[int], broker: str | None = None) -> Future[int]:
        return self.desk.unsubscribe(channel, ids, broker)

    def move(self, channel: str, id: int, args: Any, source: str | None, target: str) -> Future[int]:
        return self.desk.move(channel, id, args, source, target)

    def subscriptions(self, channel: str, broker: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        table = self.world.tables[self.world.names.get(Channel, channel).id]
        ids = table.ids() if broker is None else table.of_broker(self.world.names.get(Broker, broker).id)
        names = self._broker_names()
        return [_subscription(table.get(number), names) for number in ids[ids > after][:limit].tolist()]

    def subscription(self, channel: str, id: int) -> dict[str, Any]:
        table = self.world.tables[self.world.names.get(Channel, channel).id]
        return _subscription(table.get(id), self._broker_names()) | {"begins_after": table.begins_after(id)}

    def _broker_names(self) -> dict[int, str]:
        return {item.id: item.name for item in self.world.names.all(Broker)}

    # -- channels and results ----------------------------------------------------------------------------------------

    def channels(self) -> list[dict[str, Any]]:
        return [self._channel(channel) for channel in self.world.names.all(Channel)]

    def channel(self, name: str) -> dict[str, Any]:
        return self._channel(self.world.names.get(Channel, name))

    def _channel(self, channel: Channel) -> dict[str, Any]:
        runner = self.channel_runs.runners.get(channel.id)
        job = self.channel_runs.scheduler.jobs.get(channel.id)
        at, run = self.channel_runs.last_runs.get(channel.id, (None, None))
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
            "state": channel.state,
            "error": channel.error,
            "columns": [{"name": item.name, "type": item.type} for item in channel.columns],
            "subscriptions": len(self.world.tables[channel.id]),
            "last_execution": runner.number if runner is not None else 0,
            "first_execution": self.world.catalog.first_execution(channel.id),
            "lag": runner.lag() if runner is not None else 0,
            "runs": job.runs if job is not None else 0,
            "late": job.late if job is not None else 0,
            "last_run": at,
            "last_seconds": run.seconds if run is not None else None,
        }

    def epoch(self, channel: str) -> int:
        return self.world.names.get(Channel, channel).epoch

    def position(self, channel: str) -> int:
        """The newest execution. A broker is told of every later one that concerns a subscription it has by now."""
        found = self.world.names.get(Channel, channel)
        runner = self.channel_runs.runners.get(found.id)
        return runner.number if runner is not None else self.world.catalog.last_execution(found.id)

    def executions(self, channel: str, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        found = self.world.names.get(Channel, channel)
        return [_execution(item) for item in self.world.catalog.executions(found.id, after, limit)]

    def wait_execution(self, channel: str, after: int, timeout: float) -> int:
        """The newest execution's number, as soon as it is above ``after`` or the time is over."""
        found = self.world.names.get(Channel, channel)
        end = time.monotonic() + timeout
        with self.world.executed:
            while True:
                runner = self.channel_runs.runners.get(found.id)
                if runner is None:
                    raise NotFound("channel", channel)
                left = end - time.monotonic()
                if runner.number > after or left <= 0 or self._closed:
                    return runner.number
                self.world.executed.wait(min(left, 1.0))

    def pull(self, channel: str, number: int, broker: str) -> Iterator[bytes]:
        """The results of one execution for one broker: a line of JSON a subscription."""
        found = self.world.names.get(Channel, channel)
        wanting = self.world.names.get(Broker, broker)
        execution = self.world.catalog.execution(found.id, number)
        if execution is None:
            raise self._no_execution(found, number)
        ids = self.world.tables[found.id].of_broker(wanting.id)
        self.world.metrics.pulls.labels(found.name).inc()
        return self._counted(found.name, self.world.results.pull(execution, ids))

    def results(
        self, channel: str, subscription: int, after: int = 0, limit: int = 100, strict: bool = False
    ) -> Iterator[bytes]:
        """getresults: what one subscription got in the executions after ``after``, in order.

        0 means from the oldest that is kept; ``strict`` takes it for the number that it is.
        """
        found = self.world.names.get(Channel, channel)
        first = self.world.catalog.first_execution(found.id)
        if after < first - 1 and (after or strict):
            raise self._no_execution(found, after + 1)
        return self._counted(found.name, self._of_subscription(found, subscription, after, limit))

    def _of_subscription(self, channel: Channel, subscription: int, after: int, limit: int) -> Iterator[bytes]:
        """``limit`` counts the executions that hold something for the subscription."""
        found = 0
        while found < limit:
            executions = self.world.catalog.executions(channel.id, after, 1000)
            for execution in executions:
                after = execution.number
                for line in self.world.results.of_subscription([execution], subscription):
                    found += 1
                    yield line
                if found >= limit:
                    return
            if len(executions) < 1000:
                return

    def _counted(self, channel: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.world.metrics.pull_bytes.labels(channel).inc(len(chunk))
            yield chunk

    def _no_execution(self, channel: Channel, number: int) -> TocsinError:
        first, last = self.world.catalog.first_execution(channel.id), self.world.catalog.last_execution(channel.id)
        error = NotFound("execution", f"{channel.name}/{number}", hint=f"kept are {first} to {last}")
        error.fields.update(first=first, last=last)
        return error


_WITHOUT_SPARK = (
    st.CreateDataset,
    st.CreateFeed,
    st.ConnectFeed,
    st.DisconnectFeed,
    st.StartFeed,
    st.StopFeed,
    st.CreateBroker,
    st.Subscribe,
    st.Unsubscribe,
    st.ChangeSubscription,
    st.Drop,
)
#: Need Spark where their query is new to it.
_CHECKED = (st.CreateFunction, st.CreateChannel, st.CreateProcedure)


def _kind(statement: Any) -> str:
    """``CreateDataset`` -> ``create_dataset``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(statement).__name__).lstrip(
        "_"
    )


def _created(kind: str, name: str, made: Any) -> str:
    return f"{kind} {name} created" if made is not None else f"{kind} {name} was there already"


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UserError(f"a subscription's id is a number, not {text[:40]!r}", hint="SUBSCRIBE answers with it")
    return int(text)


def _subscription(item: Subscription, brokers: dict[int, str]) -> dict[str, Any]:
    names = sorted(brokers[number] for number in item.brokers)
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
