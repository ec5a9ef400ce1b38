"""Views over small tables for the tests of queries, and the comparison that most of these tests make."""

from __future__ import annotations

import math

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tocsin.cluster.model import Column, Function, Parameter
from tocsin.cluster.query.compiler import CompiledQuery, Relation, Use, compile_query
from tocsin.cluster.query.geo.geodesy import RADIUS

PARAMETERS = (
    Parameter("t", "string"),
    Parameter("n", "bigint"),
    Parameter("plat", "double"),
    Parameter("plon", "double"),
)
SUBSCRIPTIONS = (
    (10, "fire", 2, 1.0, 1.0),
    (11, "flood", 1, 2.0, 2.0),
    (12, "none", 5, 3.0, 3.0),
    (13, "fire", 2, None, 0.0),
)
TABLES = {
    "Reports": pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
            "etype": ["fire", "flood", "fire", "quake", None],
            "lat": [1.0, 2.0, 3.0, 4.0, None],
            "lon": [1.0, 2.0, 3.0, 4.0, 0.0],
            "sev": pa.array([1, 2, 3, 4, None], pa.int64()),
            "xs": [[1, 2], [3], [], [4, 5], None],
            "loc": [{"city": "a", "etype": "z"}] * 5,
        }
    ),
    "Shelters": pa.table({"name": ["s1", "s2", "s3", None], "lat": [1.0, 2.0, 3.0, None], "lon": [1.0, 2.0, 3.5, 1.0]}),
}


class QueryViews:
    """Views ``<table>_all``, ``_new`` (ids from 3 on) and ``_marked`` of each table, and the names over them."""

    def __init__(
        self,
        spark: SparkSession,
        tables: dict[str, pa.Table] = TABLES,
        keys: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.spark = spark
        self.functions: dict[tuple[str, int], Function] = {}
        self.relations: dict[str, Relation] = {}
        for name, table in tables.items():
            frame = spark.createDataFrame(table)
            frame.createOrReplaceTempView(f"{name}_all")
            key = frame.columns[0]
            if key == "id":
                spark.sql(f"SELECT * FROM {name}_all WHERE id >= 3").createOrReplaceTempView(f"{name}_new")
                spark.sql(f"SELECT *, id >= 3 AS _is_new FROM {name}_all").createOrReplaceTempView(f"{name}_marked")
            columns = tuple(Column(item.name, item.dataType.simpleString()) for item in frame.schema.fields)
            self.relations[name.lower()] = Relation("dataset", name, columns, key == "id", (keys or {}).get(name, ()))
        self._frames: dict[str, DataFrame] = {}
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        schema = "subscription_id bigint, p_0 string, p_1 bigint, p_2 double, p_3 double"
        spark.createDataFrame(list(SUBSCRIPTIONS), schema).createOrReplaceTempView("body_subscriptions")

    def relation(self, name: str) -> Relation | None:
        return self.relations.get(name.lower())

    def function(self, name: str, arity: int) -> Function | None:
        return self.functions.get((name.lower(), arity))

    def known(self) -> list[str]:
        return [item.name for item in self.relations.values()]

    def define(self, name: str, parameters: tuple[Parameter, ...], body: str) -> None:
        self.functions[(name.lower(), len(parameters))] = Function(1, name, parameters, body)

    def view(self, use: Use) -> str:
        return f"{use.relation.name}_{use.mode}"

    def channel(self, body: str) -> CompiledQuery:
        return compile_query(body, self, PARAMETERS, channel=True)

    def frame(self, query: str) -> DataFrame:
        """Analysed once for all tests that ask for its rows or its plan, because analysis takes most of the time."""
        if query not in self._frames:
            self._frames[query] = self.spark.sql(query)
        return self._frames[query]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        if query not in self._rows:
            self._rows[query] = [tuple(row) for row in self.frame(query).collect()]
        return self._rows[query]

    def together(self, body: str) -> list[tuple[object, ...]]:
        """(subscription, payload[, rank]) of the one statement for all."""
        statement = self.channel(body).render_channel(self.view, "body_subscriptions", now=2.0, previous=1.0)
        return sorted(self.rows(statement), key=repr)

    def one_by_one(self, body: str) -> list[tuple[object, ...]]:
        """The same from one query for each subscription, with its values as literals."""
        found: list[tuple[object, ...]] = []
        for number, *values in SUBSCRIPTIONS:
            query = compile_query(body, self, PARAMETERS, values=values, channel=True)
            text = query.render(self.view, now=2.0, previous=1.0)
            options = "map('ignoreNullFields', 'false')"
            rows = self.rows(f"SELECT to_json(struct(q.*), {options}) FROM ({text}) q")
            found += [(number, row[0], *([at + 1] if query.ordered else [])) for at, row in enumerate(rows)]
        return sorted(found, key=repr)

    def plan(self, statement: str) -> str:
        return str(self.frame(statement)._jdf.queryExecution().executedPlan().toString())

    def channel_plan(self, body: str) -> str:
        return self.plan(self.channel(body).render_channel(self.view, "body_subscriptions", now=2.0, previous=1.0))


def distance_m(lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None) -> float | None:
    """Haversine in Python, in metres; None for what is not a place."""
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    if not (abs(lat1) <= 90 and abs(lat2) <= 90 and abs(lon1) <= 360 and abs(lon2) <= 360):
        return None
    p1, p2 = math.radians(lat1), math.radians(lat2)
    h = math.sin((p2 - p1) / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * RADIUS * math.asin(min(1.0, math.sqrt(h)))
