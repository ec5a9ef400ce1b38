"""Scripts: runs the statements of a script one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

from tocsin.cluster.channels.subscription_service import SubscriptionService
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.execute.ddl import DdlExecutor
from tocsin.cluster.execute.dml import DmlExecutor
from tocsin.cluster.execute.grants import GrantExecutor
from tocsin.cluster.execute.procedures import Procedures
from tocsin.cluster.ingest.feeds import FeedManager
from tocsin.cluster.model import Broker, Dataset, Feed
from tocsin.cluster.records.formats import counted
from tocsin.cluster.statements import ast as st
from tocsin.cluster.statements.parser import Parsed, iter_statements
from tocsin.errors import Conflict, LimitExceeded, NotReady, TocsinError, UserError
from tocsin.identity.grants import OPERATOR, Principal
from tocsin.wire.feed_name import ALL, channel_of

#: Seconds that a statement waits for Spark to start.
SPARK_SECONDS = 120.0


class Outcome(Struct, frozen=True):
    """What one statement did. ``table`` holds the rows of a query."""

    statement: int
    kind: str
    message: str
    rows: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    table: pa.Table | None = None


class Progress(Struct, frozen=True):
    """The progress of a long statement: ``done`` goes from 0 to 1, and is -1 if it is unknown."""

    statement: int
    done: float
    rows: int
    text: str


class ScriptExecutor:
    """``query`` runs a SELECT; ``wait_ready`` raises NotReady if Spark is not up within that many seconds."""

    def __init__(
        self,
        context: ClusterContext,
        *,
        ddl: DdlExecutor,
        dml: DmlExecutor,
        procedures: Procedures,
        feeds: FeedManager,
        subscriptions: SubscriptionService,
        query: Callable[[str, Principal], pa.Table],
        wait_ready: Callable[[float], None],
    ) -> None:
        self.context = context
        self.ddl = ddl
        self.dml = dml
        self.procedures = procedures
        self.grants = GrantExecutor(context)
        self.feeds = feeds
        self.subscriptions = subscriptions
        self.query = query
        self.wait_ready = wait_ready

    def run(
        self, script: str, progress: Callable[[Progress], None] | None = None, principal: Principal = OPERATOR
    ) -> Iterator[Outcome]:
        """Yield one outcome for each statement; the first error ends the script and says which statement and where.
        Every statement but a query needs the privilege ADMIN."""
        limit = self.context.config.limits.statement_bytes
        if len(script) > limit:
            raise LimitExceeded(f"the script has {len(script)} characters, at most {limit} are allowed", limit=limit)
        for parsed in iter_statements(script):
            try:
                if not isinstance(parsed.statement, st.Query):
                    self.context.grants.policy.check(principal, "admin")
                outcome = self._execute(parsed, progress or (lambda _: None), principal)
            except TocsinError as error:
                self.context.metrics.statements.labels(_kind(parsed.statement), "failed").inc()
                error.fields.setdefault("statement", parsed.index)
                error.fields.setdefault("line", parsed.line)
                error.fields.setdefault("column", parsed.column)
                raise
            self.context.metrics.statements.labels(outcome.kind, "ok").inc()
            yield outcome

    def _execute(self, parsed: Parsed, progress: Callable[[Progress], None], principal: Principal) -> Outcome:
        statement, kind = parsed.statement, _kind(parsed.statement)

        def done(message: str, rows: int | None = None, table: pa.Table | None = None, **data: Any) -> Outcome:
            return Outcome(parsed.index, kind, message, rows, data, table)

        if isinstance(statement, _WITH_SPARK):
            self.wait_ready(SPARK_SECONDS)
        match statement:
            case st.Query():
                table = self.query(statement.sql, principal)
                return done(counted(table.num_rows), table.num_rows, table)
            case st.Insert():
                rows = self.dml.insert(statement)
                verb = "upserted" if statement.upsert else "inserted"
                return done(f"{counted(rows)} {verb} into {statement.dataset}", rows)
            case st.Delete():
                rows = self.dml.delete(statement)
                return done(f"{counted(rows)} deleted from {statement.dataset}", rows)
            case st.LoadDataset():
                loaded = self.dml.load(
                    statement,
                    lambda part, rows: progress(Progress(parsed.index, part, rows, f"loading {statement.dataset}")),
                )
                message = f"{counted(loaded.accepted)} loaded into {statement.dataset}"
                if loaded.refused:
                    message += f", {loaded.refused} refused"
                return done(message, loaded.accepted, refused=loaded.refused, reasons=list(loaded.reasons))
            case st.Subscribe():
                args = [list(statement.args)]
                (id,) = self.subscriptions.subscribe(statement.channel, statement.broker, args).result()
                return done(f"subscription {id}", subscription=id)
            case st.SubscribeFeed():
                id, warnings = self._subscribe_feed(statement)
                message = "; ".join([f"subscription {id}", *warnings])
                return done(message, subscription=id, warnings=warnings)
            case st.Unsubscribe():
                id = _subscription_id(statement.subscription)
                count = self.subscriptions.unsubscribe(statement.channel, [id], statement.broker).result()
                return done(f"subscription {id} {'ended' if count else 'did not exist'}", count)
            case st.ChangeSubscription():
                id = self.subscriptions.migrate(
                    statement.channel,
                    _subscription_id(statement.subscription),
                    list(statement.args),
                    statement.from_broker,
                    statement.broker,
                ).result()
                return done(f"subscription {id} is on {statement.broker}", subscription=id)
            case st.ExecuteProcedure():
                ran = self.procedures.execute(statement.name, statement.args)
                return done(ran.message, ran.rows, ran.table)
            case st.ShowGrants() | st.ShowRoles():
                with self.context.definitions.lock:
                    table = self.grants.show(statement)
                return done(counted(table.num_rows), table.num_rows, table)
            case _:
                try:
                    return done(self._define(statement))
                except NotReady:
                    if not isinstance(statement, _ANALYSED):
                        raise
                # Spark must analyse the query. Other statements can use the definitions while this one waits.
                self.wait_ready(SPARK_SECONDS)
                return done(self._define(statement))

    def _subscribe_feed(self, statement: st.SubscribeFeed) -> tuple[int, list[str]]:
        """The id, and warnings about the condition."""
        broker, channel = statement.broker, channel_of(statement.feed)
        if broker is None:
            known = [each.name for each in self.context.definitions.all(Broker)]
            if len(known) != 1:
                hint = f"name one of them: ON {' or ON '.join(known[:10])}" if known else "CREATE BROKER b AT …"
                raise Conflict(f"there are {len(known)} brokers, so that the statement has to name one", hint=hint)
            (broker,) = known
        try:
            (id,) = self.subscriptions.subscribe(channel, broker, [[statement.where or ALL]]).result()
        except TocsinError as error:
            if "line" in error.fields and statement.where is not None:  # counted from the begin of the condition
                error.fields["column"] += statement.column - 1 if error.fields["line"] == 1 else 0
                error.fields["line"] += statement.line - 1
            raise
        return id, list(self.subscriptions.feed_channels.warnings(channel, id))

    def _define(self, statement: Any) -> str:
        with self.context.definitions.lock:
            try:
                return self._change(statement)
            finally:
                if isinstance(statement, _GRANTED):
                    self.context.grants.refresh()

    def _change(self, statement: Any) -> str:
        definitions = self.context.definitions
        match statement:
            case st.Create():
                return self.ddl.create(statement)
            case st.Revoke():
                return self.grants.revoke(statement)
            case st.Grant():
                return self.grants.grant(statement)
            case st.Drop():
                dropped = self.ddl.drop(statement)
                return f"{statement.kind} {statement.name} {'dropped' if dropped else 'did not exist'}"
            case st.RepairDataset():
                lost = self.ddl.repair(definitions.get(Dataset, statement.dataset), statement.with_loss)
                return f"dataset {statement.dataset} can be read" + (f", without {lost} lost segments" if lost else "")
            case st.ConnectFeed():
                self.feeds.connect(definitions.get(Feed, statement.feed), definitions.get(Dataset, statement.dataset))
                return f"feed {statement.feed} connected to dataset {statement.dataset}"
            case st.DisconnectFeed():
                self.feeds.disconnect(definitions.get(Feed, statement.feed))
                return f"feed {statement.feed} disconnected"
            case st.StartFeed():
                self.feeds.start(definitions.get(Feed, statement.feed))
                return f"feed {statement.feed} started"
            case st.StopFeed():
                self.feeds.stop(definitions.get(Feed, statement.feed))
                return f"feed {statement.feed} stopped"
        raise AssertionError(f"no handler for {type(statement).__name__}")


_WITH_SPARK = (st.Query, st.Insert, st.Delete, st.LoadDataset, st.ExecuteProcedure)
#: Need Spark only if their query is not in the analysis cache.
_ANALYSED = (st.CreateFunction, st.CreateChannel, st.CreateProcedure)
#: Change grants, or what grants are about.
_GRANTED = (st.Grant, st.Drop, st.CreateChannel)


def _kind(statement: Any) -> str:
    """``CreateDataset`` -> ``create_dataset``."""
    name = type(statement).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _subscription_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UserError(
            f"the id of a subscription is a number, not {text[:40]!r}", hint="use the id that SUBSCRIBE returned"
        )
    return int(text)
