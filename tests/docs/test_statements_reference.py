"""The reference of statements: its examples, run in their order, and the tables of the catalog, which are generated.

``python tests/docs/test_statements_reference.py`` updates the generated part.
"""

from __future__ import annotations

import re

import msgspec
import pytest
from pages import DOCS, blocks, check

from tocsin.cluster.service import DataCluster
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.statements.lexer import split
from tocsin.cluster.statements.parser import _StatementParser
from tocsin.cluster.storage.catalog import TABLES
from tocsin.config import ClusterConfig
from tocsin.errors import TocsinError
from tocsin.sql.script import Script

PAGE, GRANTS = (DOCS / "reference" / name for name in ("statements.md", "grants.md"))
_GENERATED = re.compile(r"(<!-- catalog: .*? -->\n).*?(<!-- /catalog -->)", re.DOTALL)


def tables() -> str:
    lines = ["", "| table | columns |", "|---|---|"]
    for name, columns in TABLES.items():
        lines.append(f"| `catalog.{name}` | {', '.join(f'`{column.name} {column.type}`' for column in columns)} |")
    return "\n".join([*lines, "", ""])


def current(text: str) -> str:
    return _GENERATED.sub(lambda found: found[1] + tables() + found[2], text)


def printed(cluster: DataCluster, script: str) -> str:
    """A line for each statement and each row, and the error that ends the script."""
    lines: list[str] = []
    try:
        for outcome in cluster.run(script):
            if outcome.table is None:
                lines.append(outcome.message)
            else:
                lines += [msgspec.json.encode(row).decode() for row in outcome.table.to_pylist()]
    except TocsinError as error:
        lines.append(f"{error.code}: {error.message}")
    return "\n".join(lines)


def test_the_tables_of_the_catalog_match_the_code() -> None:
    text = PAGE.read_text()
    assert _GENERATED.search(text) and current(text) == text


def test_every_example_does_what_the_page_says(config: ClusterConfig, spark_runtime: SparkRuntime) -> None:
    with DataCluster(config, spark_runtime) as cluster:
        cluster.wait_ready(300)
        for page, block in [(each, block) for each in (PAGE, GRANTS) for block in blocks(each)]:
            if block.wait is not None:
                assert cluster.wait_execution(block.wait[0], block.wait[1] - 1, 120.0) >= block.wait[1]
            said = printed(cluster, block.text)
            check(page, block, said)
            assert block.expected is not None, f"line {block.line} shows nothing and says {said}"


def test_every_statement_has_a_section() -> None:
    script = Script("SELECT 1")
    ((_, tokens),) = split(script)
    words = _StatementParser(script, tokens, 1)._leading
    headings = " ".join(re.findall(r"^#+ (.*)$", PAGE.read_text(), re.MULTILINE))
    assert [word for word in words if not re.search(rf"\b{word}\b", headings)] == []


@pytest.mark.parametrize("name", ["is_new", "current_channel_time", "previous_channel_time", "within", "distance"])
def test_every_function_of_tocsin_is_described(name: str) -> None:
    assert re.search(rf"^\| `{name}\(", PAGE.read_text(), re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
