"""A cache of analysed plans: parsing and analysing a channel's query takes as long as running it over a few rows.

From one execution to the next only the rows of its sources change. If they are part of the plan, the analysed plan is
cached without rows and filled with new rows for each execution; Spark still optimises it every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from tocsin.cluster.spark.plan_inspector import items
from tocsin.cluster.spark.session import SparkRuntime

#: Cached texts of one channel; they differ only in their hints.
MOST = 8


class PlanCache:
    """The plans of one channel, used by one thread at a time."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self._runtime = runtime
        self._generation = 0
        self._plans: dict[str, _Plan] = {}

    def frame(self, text: str, sources: Mapping[str, DataFrame], analyse: Callable[[], DataFrame]) -> DataFrame:
        """The query ``text`` over ``sources``, by their names in the text. ``analyse`` makes the DataFrame without the
        cache: the first time, whenever rows come from files, and without the private API."""
        if not self._runtime.private_api:
            return analyse()
        if self._generation != self._runtime.generation or len(self._plans) > MOST:
            self._generation, self._plans = self._runtime.generation, {}
        rows = {name: _rows(frame) for name, frame in sources.items()}
        if any(each is None for each in rows.values()):
            return analyse()
        cached = self._plans.get(text)
        if cached is not None:
            return cached.filled(rows)
        frame = analyse()
        plan = _Plan.of(frame, rows)
        if plan is not None:
            self._plans[text] = plan
        return frame


class _Plan:
    """``places``: the empty relations in the plan, each with the name of its source."""

    def __init__(self, frame: DataFrame, plan: Any, places: list[tuple[Any, str]]) -> None:
        self.session = frame.sparkSession
        self.plan = plan
        self.places = places

    @staticmethod
    def of(frame: DataFrame, rows: Mapping[str, Any]) -> _Plan | None:
        """None if the plan cannot be reused."""
        plan = frame._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            return None  # the seed of rand() is part of the plan
        jvm: Any = frame.sparkSession.sparkContext._jvm
        names = jvm.java.util.IdentityHashMap()
        for name, data in rows.items():
            names.put(data, name)
        template = _Plan(frame, plan, [])
        emptied = jvm.java.util.IdentityHashMap()
        for part in [plan, *items(plan.subqueriesAll())]:
            for leaf in items(part.collectLeaves()):
                source = names.get(leaf.data()) if leaf.nodeName() == _LOCAL else None
                if source is not None:
                    # A relation without rows is not replaced: Spark does not replace a node by an equal one.
                    empty = leaf if leaf.data().isEmpty() else _with_rows(leaf, jvm.PythonUtils.toSeq([]))
                    emptied.put(leaf, empty)
                    template.places.append((empty, source))
        if {name for _, name in template.places} != set(rows):
            return None  # for example two sources without rows, which share one empty list
        template.plan = template._replaced(emptied)
        return template

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
        """Replace by identity: for Spark two relations with the same rows are equal, whatever their columns are."""
        jvm: Any = self.session.sparkContext._jvm
        return self.plan.transformWithSubqueries(jvm.scala.jdk.javaapi.CollectionConverters.asScala(leaves))


_LOCAL = "LocalRelation"


def _rows(frame: DataFrame) -> Any:
    """The rows of a frame that is a plain list of rows; None for any other frame."""
    leaves = items(frame._jdf.queryExecution().analyzed().collectLeaves())
    return leaves[0].data() if len(leaves) == 1 and leaves[0].nodeName() == _LOCAL else None


def _with_rows(relation: Any, data: Any) -> Any:
    return relation.copy(relation.output(), data, relation.isStreaming(), relation.stream())
