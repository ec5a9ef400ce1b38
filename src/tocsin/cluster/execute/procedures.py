"""Procedures: an INSERT, DELETE or query with parameters, run once or periodically until dropped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tocsin.cluster.channels.manager import ChannelManager
from tocsin.cluster.channels.scheduler import Job
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.execute.dml import DmlExecutor
from tocsin.cluster.execute.retrospection import Retrospection
from tocsin.cluster.model import Procedure, Schedule
from tocsin.cluster.records import type_ddl
from tocsin.cluster.records.formats import counted
from tocsin.cluster.statements import ast as st
from tocsin.cluster.statements.parser import parse_one
from tocsin.errors import TypeMismatch


class ProcedureRun(Struct, frozen=True):
    """The outcome of a run: the number of changed rows, or the rows of a query."""

    message: str
    rows: int
    table: Any = None


class Procedures:
    def __init__(
        self, context: ClusterContext, dml: DmlExecutor, retrospection: Retrospection, channels: ChannelManager
    ) -> None:
        self.context = context
        self.dml = dml
        self.retrospection = retrospection
        self.channels = channels

    def execute(self, name: str, args: Sequence[Any]) -> ProcedureRun:
        """Run it now; a periodic procedure then repeats with these arguments, also after a restart."""
        procedure = self.context.definitions.get(Procedure, name)
        values = self._values(procedure, args)
        done = self._run(procedure, values)
        if procedure.period is None:
            return done
        running = [
            item for item in self.context.catalog.schedules() if item.procedure.lower() == procedure.name.lower()
        ]
        if not any(list(item.args) == list(args) for item in running):
            schedule = Schedule(self.context.catalog.new_id(), procedure.name, tuple(args), time.time())
            self.context.catalog.add_schedule(schedule)
            self.resume(schedule)
        return ProcedureRun(f"{done.message}; repeats every {procedure.period:g} s", done.rows, done.table)

    def resume(self, schedule: Schedule) -> None:
        procedure = self.context.definitions.get(Procedure, schedule.procedure)
        values = self._values(procedure, schedule.args)

        def run() -> bool:
            self._run(procedure, values)
            return False

        job = Job(procedure.name, run, period=procedure.period, follows=None)
        self.channels.scheduler.add((procedure.id, schedule.id), job)

    @staticmethod
    def _values(procedure: Procedure, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(procedure.parameters):
            signature = ", ".join(f"{item.name} {item.type}" for item in procedure.parameters)
            raise TypeMismatch(
                f"{procedure.name}({signature}) takes {len(procedure.parameters)} arguments, not {len(args)}"
            )
        return [type_ddl.coerce(value, item.type) for value, item in zip(args, procedure.parameters, strict=True)]

    def _run(self, procedure: Procedure, values: list[Any]) -> ProcedureRun:
        statement = parse_one(procedure.body)
        if isinstance(statement, st.Insert):
            rows = self.dml.insert(statement, procedure.parameters, values)
            return ProcedureRun(f"{counted(rows)} {'upserted' if statement.upsert else 'inserted'}", rows)
        if isinstance(statement, st.Delete):
            rows = self.dml.delete(statement, procedure.parameters, values)
            return ProcedureRun(f"{counted(rows)} deleted", rows)
        assert isinstance(statement, st.Query)
        table = self.retrospection.query(statement.sql, procedure.parameters, values)
        return ProcedureRun(counted(table.num_rows), table.num_rows, table)
