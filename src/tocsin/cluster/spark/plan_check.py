"""Checks Spark's analysed plan of a query: the second check, after that of the syntax tree (``query/safety.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.cluster.query.allow_list import CLASSES, LEAVES, STEPS
from tocsin.cluster.query.safety import refused
from tocsin.cluster.spark.plan_inspector import PlanInspector
from tocsin.cluster.spark.plan_text import PlanText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_plan(df: DataFrame, *, private_api: bool = True) -> None:
    """It reads only known relations and runs only functions of Spark. Without the private API, only the relations and
    steps are checked again: the text of a plan does not show which class a function has."""
    kinds = PlanInspector(df) if private_api else PlanText.of(df)
    for kind, relation in kinds.leaves:
        if kind not in LEAVES:
            raise refused(f"the query reads a {kind}, which is not a dataset")
        if relation and relation != "HadoopFsRelation":
            raise refused(f"the query reads a {relation}, which is not a dataset")
    for kind in kinds.operators - STEPS:
        raise refused(f"the query has a step that is not allowed ({kind})")
    for kind in kinds.expressions & CLASSES:
        raise refused(f"the query calls a function that is not allowed ({kind})")
