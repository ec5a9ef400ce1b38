"""Lists the parts of a Spark plan from the text of EXPLAIN, which is public: the fallback of ``plan_inspector``."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from tocsin.cluster.query.allow_list import LEAVES
from tocsin.cluster.query.safety import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ANALYSED = "== Analyzed Logical Plan ==\n"
_NEXT = "\n== Optimized Logical Plan ==\n"
#: A further node of a tree: the lines of its ancestors, a branch, and the name of its class.
_NODE = re.compile(r"^[ :]*[+:]- '?([A-Za-z]+)(.*)$")
#: How the rows of a cached table came about. No step of a query has such a name, wherever a string may put a line.
_CACHED = frozenset(["AdaptiveSparkPlan", "ColumnarToRow", "FileScan"])
_RELATION = re.compile(r"\] (\w+)[^\]]*$")
_views = count(1)


class PlanText(Struct, frozen=True):
    """As ``PlanInspector``, without expressions."""

    operators: frozenset[str]
    leaves: frozenset[tuple[str, str]]
    expressions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, df: DataFrame) -> PlanText:
        return cls.parse(explain(df, "EXTENDED"))

    @classmethod
    def parse(cls, text: str) -> PlanText:
        """The nodes of the analysed plan. A heading of EXPLAIN within a string of the query could hide nodes;
        any other line of a string can only add some."""
        if text.count(_ANALYSED) != 1 or text.count(_NEXT) != 1:
            raise refused("the plan of the query cannot be read", hint="leave out strings that look like a plan")
        operators, leaves = set(), set()
        for line in text.split(_ANALYSED)[1].split(_NEXT)[0].splitlines():
            node = _NODE.match(line)
            if node is None:
                continue  # the columns, the node of the view, or a further line of a string
            kind = "LogicalRelation" if node[1] == "Relation" else node[1]
            if kind in _CACHED:
                continue
            operators.add(kind)
            if kind in LEAVES:
                leaves.add((kind, _relation(node[2]) if kind == "LogicalRelation" else ""))
        return cls(frozenset(operators), frozenset(leaves))


def explain(df: DataFrame, mode: str = "") -> str:
    """The answer of EXPLAIN for a query that is a DataFrame."""
    session, name = df.sparkSession, f"explained{next(_views)}"
    df.createOrReplaceTempView(name)
    try:
        # An error comes as one row for each line.
        return "\n".join(str(row[0]) for row in session.sql(f"EXPLAIN {mode} SELECT * FROM {name}").collect())
    finally:
        session.catalog.dropTempView(name)


def _relation(rest: str) -> str:
    """Files are shown by their format, other sources by the name of their class."""
    found = _RELATION.search(rest)
    name = found[1] if found else "relation"
    return "HadoopFsRelation" if name == "parquet" else name
