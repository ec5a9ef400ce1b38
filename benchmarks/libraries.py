"""Hand-made parts beside the library that does the same, where it is a dependency anyway: CPU time, in turns."""

from __future__ import annotations

import io
import math
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
from sqlglot.optimizer.qualify import qualify

from benchmarks.harness import Table, main
from benchmarks.records_decode import COLUMNS, lines, report
from tocsin.cluster.model import Function
from tocsin.cluster.query import spark_dialect
from tocsin.cluster.query.relations import Relation
from tocsin.cluster.query.resolver import Resolver, parameter_map
from tocsin.cluster.query.set_rewrite import parameter_column
from tocsin.cluster.records.record_decoder import RecordDecoder
from tocsin.cluster.statements.ast import CreateDataset, CreateFunction
from tocsin.cluster.statements.lexer import split
from tocsin.cluster.statements.parser import iter_statements
from tocsin.config import Limits
from tocsin.sql.dialect import TocsinSpark
from tocsin.sql.script import Script

EXAMPLE = Path(__file__).parent.parent / "examples" / "emergency.sql"
ROUNDS = 40


def cpu_times(*works: Callable[[], object]) -> list[float]:
    """CPU seconds of one call of each, the best of many rounds in turns: a busy machine only ever adds."""
    best = [math.inf] * len(works)
    times = 1
    for number in range(ROUNDS):
        for i, work in enumerate(works):
            started = time.process_time()
            for _ in range(times):
                work()
            best[i] = min(best[i], (time.process_time() - started) / times)
        if not number:
            times = max(1, int(0.01 / min(best)))
    return best


class Example:
    """The names of the emergency application, as the resolver asks for them."""

    def __init__(self, script: str) -> None:
        statements = [each.statement for each in iter_statements(script)]
        datasets = [each for each in statements if isinstance(each, CreateDataset)]
        self.functions = [each for each in statements if isinstance(each, CreateFunction)]
        self.schema = {each.name: {column.name: column.type for column in each.columns} for each in datasets}
        self._relations = {
            each.name.lower(): Relation("dataset", each.name, each.columns, each.active, each.key) for each in datasets
        }

    def relation(self, name: str) -> Relation | None:
        return self._relations.get(name.lower())

    def function(self, name: str, arity: int) -> Function | None:
        return None

    def known(self) -> list[str]:
        return list(self._relations)

    def ours(self) -> None:
        for each in self.functions:
            parameters = parameter_map(each.parameters, parameter_column)
            Resolver(self, parameters, channel=True).resolve(spark_dialect.parse(each.body))

    def library(self) -> None:
        for each in self.functions:
            # It takes parameters for columns that do not exist, so it must not check them.
            options: dict[str, Any] = {"validate_qualify_columns": False, "quote_identifiers": False}
            qualify(spark_dialect.parse(each.body), schema=self.schema, dialect=TocsinSpark, **options)


def run(full: bool) -> list[Table]:
    table = Table("Hand-made beside a library, on one core", ["what", "library", "µs ours", "µs library", "ratio"])

    def add(what: str, library: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        mine, other = cpu_times(ours, theirs)
        table.add(what, library, mine * 1e6, other * 1e6, other / mine)

    script = EXAMPLE.read_text()
    example = Example(script)
    add("tokens of a script", "sqlglot", lambda: list(split(Script(script))), lambda: TocsinSpark().tokenize(script))
    add(f"{len(example.functions)} bodies read, names resolved", "sqlglot qualify", example.ours, example.library)
    decoder = RecordDecoder(COLUMNS, key=("id",), limits=Limits())
    rng = random.Random(1)
    for size in (1, 100, 1000):
        body = lines([report(i, rng) for i in range(size)])
        add(
            f"lines of JSON, {size}", "pyarrow.json", partial(decoder.decode, body), partial(read, body, decoder.schema)
        )
    table.notes.append("The libraries do less of what is needed: docs/explanation/dependencies.md says what.")
    return [table]


def read(body: bytes, schema: pa.Schema) -> pa.Table:
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pa.json.read_json(io.BytesIO(body), pa.json.ReadOptions(use_threads=False, block_size=1 << 24), options)


if __name__ == "__main__":
    main("libraries", run)
