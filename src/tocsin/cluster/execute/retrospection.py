"""Retrospective queries: SELECT over datasets, results, subscriptions and the catalog."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Broker, Channel, Column, Parameter
from tocsin.cluster.query.compiler import CompiledQuery, Relation, compile_query
from tocsin.cluster.records import type_ddl
from tocsin.cluster.spark.errors import explained
from tocsin.cluster.spark.plan_check import check_plan
from tocsin.cluster.storage.definition_index import RESULT_COLUMNS
from tocsin.cluster.storage.grant_index import VisibleDefinitions
from tocsin.errors import LimitExceeded
from tocsin.identity.grants import OPERATOR, Principal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Retrospection:
    def __init__(self, context: ClusterContext) -> None:
        self.context = context
        context.frames = self.frame

    def query(
        self,
        sql: str,
        parameters: Sequence[Parameter] = (),
        values: Sequence[Any] | None = None,
        principal: Principal = OPERATOR,
    ) -> pa.Table:
        """At most ``limits.query_rows`` rows; a larger result is an error. The principal needs SELECT on each dataset,
        and ADMIN for all other relations, which show what others subscribe to."""
        limit = self.context.config.limits.query_rows
        visible = VisibleDefinitions(self.context.definitions, self.context.grants.policy, principal)
        compiled = compile_query(sql, visible, parameters, values=values)
        table = self.collect(compiled, limit + 1)
        if table.num_rows > limit:
            raise LimitExceeded(
                f"the query returns more than {limit} rows", hint="add a LIMIT or a condition", limit=limit
            )
        return table

    def collect(self, compiled: CompiledQuery, limit: int | None = None) -> pa.Table:
        now = time.time()
        runtime = self.context.runtime
        with self.context.reading(compiled.uses) as reading, explained(), runtime.query():
            text = compiled.render(reading.view, rows=reading.rows, now=now, previous=now)
            # The limit is part of the text, because a further step of a DataFrame costs a second analysis.
            frame = runtime.session.sql(text if limit is None else f"SELECT * FROM ({text}) LIMIT {limit}")
            check_plan(frame, private_api=self.context.runtime.private_api)
            return runtime.to_arrow(frame)

    # -- relations that are not datasets -----------------------------------------------------------------------------

    def frame(self, relation: Relation) -> DataFrame:
        if relation.kind == "catalog":
            return self._catalog(relation)
        channel = self.context.definitions.get(Channel, relation.name)
        return self._subscriptions(channel) if relation.kind == "subscriptions" else self._results(channel)

    def _catalog(self, relation: Relation) -> DataFrame:
        columns, rows = self.context.catalog.rows(relation.name)
        schema = type_ddl.arrow_schema(columns)
        arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
        return self.context.runtime.from_arrow(pa.Table.from_arrays(arrays, schema=schema))

    def _subscriptions(self, channel: Channel) -> DataFrame:
        table = self.context.tables[channel.id].arrow()
        names = {broker.id: broker.name for broker in self.context.definitions.all(Broker)}
        brokers = pa.array(
            [[names[item] for item in row] for row in table["brokers"].to_pylist()], pa.list_(pa.string())
        )
        columns = {"subscription_id": table["subscription_id"], "brokers": brokers}
        for at, parameter in enumerate(channel.parameters):
            columns[parameter.name] = table[f"p_{at}"]
        return self.context.runtime.from_arrow(pa.table(columns))

    def _results(self, channel: Channel) -> DataFrame:
        """One row for each result: execution, time, subscription and the typed record."""
        from pyspark.sql import functions as f

        executions = self.context.catalog.executions(channel.id, limit=1 << 31)
        paths = self.context.results.result_paths(executions)
        record = f"struct<{','.join(f'{type_ddl.quoted(column.name)}:{column.type}' for column in channel.columns)}>"
        session = self.context.runtime.session
        if not paths:
            schema = type_ddl.arrow_schema([*RESULT_COLUMNS, Column("result", record)])
            return self.context.runtime.from_arrow(schema.empty_table())
        index = pa.table(
            {
                "_file": [path.rpartition("/")[2] for path, _, _ in paths],
                "execution": pa.array([number for _, number, _ in paths], pa.int64()),
                "execution_time": pa.array([int(at * 1e6) for _, _, at in paths], pa.timestamp("us", "UTC")),
            }
        )
        files = session.read.schema("subscription_id bigint, count int, payload string").parquet(
            *[self.context.segments.uri(path) for path, _, _ in paths]
        )
        rows = files.select("subscription_id", "payload", f.col("_metadata.file_name").alias("_file"))
        numbered = rows.join(self.context.runtime.from_arrow(index).hint("broadcast"), "_file")
        return numbered.select(
            "execution",
            "execution_time",
            "subscription_id",
            f.explode(f.from_json("payload", f"array<{record}>")).alias("result"),
        )
