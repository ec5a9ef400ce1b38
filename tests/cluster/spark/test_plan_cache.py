"""A cached plan filled with other rows gives the result of a query that Spark analyses again."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tocsin.cluster.spark.plan_cache import PlanCache
from tocsin.cluster.spark.session import SparkRuntime

_numbers = count(1)


class Asked:
    """Runs a query over tables, and counts how often Spark had to analyse it."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self.runtime = runtime
        self.plans = PlanCache(runtime)
        self.analysed = 0

    def __call__(self, text: str, **tables: pa.Table | DataFrame) -> list[tuple[Any, ...]]:
        frames = {
            name: table if isinstance(table, DataFrame) else self.runtime.from_arrow(table)
            for name, table in tables.items()
        }
        return sorted(
            tuple(row) for row in self.plans.frame(text, frames, lambda: self.analyse(text, frames)).collect()
        )

    def analyse(self, text: str, frames: dict[str, DataFrame]) -> DataFrame:
        self.analysed += 1
        for name, frame in frames.items():
            view = f"prepared_{name}_{next(_numbers)}"
            frame.createOrReplaceTempView(view)
            text = text.replace(f"{{{name}}}", view)
        return self.runtime.session.sql(text)


@pytest.fixture
def ask(spark_runtime: SparkRuntime) -> Asked:
    return Asked(spark_runtime)


def persons(*names: str) -> pa.Table:
    return pa.table({"name": pa.array(names, pa.string()), "age": pa.array(range(len(names)), pa.int64())})


JOINED = "SELECT a.name, b.age FROM {a} a JOIN {b} b ON a.name = b.name"


def test_the_second_query_has_the_second_rows_and_is_not_analysed(ask: Asked) -> None:
    assert ask(JOINED, a=persons("x"), b=persons("y", "x")) == [("x", 1)]
    assert ask(JOINED, a=persons("x", "z"), b=persons("x", "y", "z")) == [("x", 0), ("z", 2)]
    assert ask.analysed == 1


def test_a_source_that_is_read_twice_is_filled_twice(ask: Asked) -> None:
    text = "SELECT p.name, q.name FROM {a} p JOIN {a} q ON p.age = q.age + 1"
    assert ask(text, a=persons("x", "y")) == [("y", "x")]
    assert ask(text, a=persons("u", "v", "w")) == [("v", "u"), ("w", "v")]
    assert ask.analysed == 1


def test_a_source_in_a_subquery_is_filled(ask: Asked) -> None:
    text = "SELECT name FROM {a} WHERE name IN (SELECT name FROM {b}) AND age < (SELECT max(age) FROM {b})"
    assert ask(text, a=persons("x"), b=persons("y", "x")) == [("x",)]
    assert ask(text, a=persons("u", "x"), b=persons("u", "v", "w")) == [("u",)]
    assert ask.analysed == 1


def test_sources_may_be_without_rows(ask: Asked) -> None:
    assert ask(JOINED, a=persons("x"), b=persons("x")) == [("x", 0)]
    assert ask(JOINED, a=persons(), b=persons()) == []
    assert ask(JOINED, a=persons("z"), b=persons("z")) == [("z", 0)]


def test_a_plan_that_was_made_without_rows_is_filled(ask: Asked) -> None:
    assert ask(JOINED, a=persons(), b=persons()) == []
    assert ask(JOINED, a=persons("x"), b=persons("y", "x")) == [("x", 1)]
    assert ask(JOINED, a=persons(), b=persons("x")) == []
    assert ask(JOINED, a=persons("z"), b=persons("z")) == [("z", 0)]


def test_another_text_is_another_plan(ask: Asked) -> None:
    assert ask("SELECT name FROM {a}", a=persons("x")) == [("x",)]
    assert ask("SELECT age FROM {a}", a=persons("x")) == [(0,)]
    assert ask.analysed == 2


def test_random_numbers_are_drawn_again(ask: Asked) -> None:
    text = "SELECT rand() FROM {a}"
    assert ask(text, a=persons("x")) != ask(text, a=persons("x"))


def test_the_current_time_is_that_of_the_second_query(ask: Asked) -> None:
    text = "SELECT current_timestamp() FROM {a}"
    assert ask(text, a=persons("x")) < ask(text, a=persons("x"))
    assert ask.analysed == 1


def test_queries_over_files_are_analysed_each_time(ask: Asked, tmp_path_factory: pytest.TempPathFactory) -> None:
    session = ask.runtime.session
    folder = (tmp_path_factory.mktemp("rows") / "a").as_uri()
    ask.runtime.from_arrow(persons("x")).write.parquet(folder)
    for _ in range(2):
        assert ask("SELECT name FROM {a}", a=session.read.parquet(folder)) == [("x",)]
    assert ask("SELECT name FROM {a}", a=persons("y")) == [("y",)]
    assert ask.analysed == 3


def test_a_cached_plan_survives_a_query_over_files(ask: Asked, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = (tmp_path_factory.mktemp("rows") / "a").as_uri()
    ask.runtime.from_arrow(persons("f")).write.parquet(folder)
    assert ask("SELECT name FROM {a}", a=persons("x")) == [("x",)]
    assert ask("SELECT name FROM {a}", a=ask.runtime.session.read.parquet(folder)) == [("f",)]
    assert ask("SELECT name FROM {a}", a=persons("y")) == [("y",)]
    assert ask.analysed == 2
