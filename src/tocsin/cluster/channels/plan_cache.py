"""Queries that Spark analyses once: to parse and analyse a channel's query takes as long as to run it over a few rows.

What changes from one execution to the next are the rows of its sources. Where these travel inside the plan, the
analysed plan is kept without them and filled with others the next time; the optimiser sees a plan like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from tocsin.cluster.query.plan_inspector import items
from tocsin.cluster.spark.session import SparkRuntime

#: Texts of one channel; they differ in their hints only.
MOST = 8


class PlanCache:
    """The plans of one channel, used by one thread at a time."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self._runtime = runtime
        self._generation = 0
        self._plans: dict[str, _Plan] = {}

    def frame(self, text: str, sources: Mapping[str, DataFrame], analyse: Callable[[], DataFrame]) -> DataFrame:
        """The query ``text`` over the rows of ``sources``, as they are called in it. ``analyse`` makes it of nothing:
        the first time, and whenever rows come from files."""
        if self._generation != self._runtime.generation or len(self._plans) > MOST:
            self._generation, self._plans = self._runtime.generation, {}
        rows = {name: _rows(frame) for name, frame in sources.items()}
        if any(each is None for each in rows.values()):
            return analyse()
        known = self._plans.get(text)
        if known is not None:
            return known.filled(rows)
        frame = analyse()
        plan = _Plan.of(frame, rows)
        if plan is not None:
            self._plans[text] = plan
        return frame


class _Plan:
    """``places``: the empty relations that stand for the rows of a source, with its name."""

    def __init__(self, frame: DataFrame, plan: Any, places: list[tuple[Any, str]]) -> None:
        self.session = frame.sparkSession
        self.plan = plan
        self.places = places

    @staticmethod
    def of(frame: DataFrame, rows: Mapping[str, Any]) -> _Plan | None:
        """None where a plan cannot be used again."""
        plan = frame._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            return None  # the seed of rand() is part of the plan
        jvm: Any = frame.sparkSession.sparkContext._jvm
        names = jvm.java.util.IdentityHashMap()
        for name, data in rows.items():
            names.put(data, name)
        found = _Plan(frame, plan, [])
        emptied = jvm.java.util.IdentityHashMap()
        for part in [plan, *items(plan.subqueriesAll())]:
            for leaf in items(part.collectLeaves()):
                source = names.get(leaf.data()) if leaf.nodeName() == _LOCAL else None
                if source is not None:
                    # One without rows stays itself: Spark leaves a node that equals its successor where it is.
                    empty = leaf if leaf.data().isEmpty() else _with_rows(leaf, jvm.PythonUtils.toSeq([]))
                    emptied.put(leaf, empty)
                    found.places.append((empty, source))
        if {name for _, name in found.places} != set(rows):
            return None  # such as two sources without any rows, which share the same nothing
        found.plan = found._replaced(emptied)
        return found

    def filled(self, rows: Mapping[str, Any]) -> DataFrame:
        jvm: Any = self.session.sparkContext._jvm
        full = jvm.java.util.IdentityHashMap()
        for empty, name in self.places:
            full.put(empty, _with_rows(empty, rows[name]))
        plan = self._replaced(full)
        plan.setAnalyzed()
        made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self.session._jsparkSession, plan)
        return DataFrame(made, self.session)

    def _replaced(self, leaves: Any) -> Any:
        """By identity: Spark holds relations for equal that have the same rows, whatever their columns are called."""
        jvm: Any = self.session.sparkContext._jvm
        return self.plan.transformWithSubqueries(jvm.scala.jdk.javaapi.CollectionConverters.asScala(leaves))


_LOCAL = "LocalRelation"


def _rows(frame: DataFrame) -> Any:
    """The rows of a frame that has nothing but them; None where it has more."""
    leaves = items(frame._jdf.queryExecution().analyzed().collectLeaves())
    return leaves[0].data() if len(leaves) == 1 and leaves[0].nodeName() == _LOCAL else None


def _with_rows(relation: Any, data: Any) -> Any:
    return relation.copy(relation.output(), data, relation.isStreaming(), relation.stream())
