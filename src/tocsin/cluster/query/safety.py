"""Refuses unsafe queries: those that read files, call the JVM or Python, write, or read other relations."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tocsin.cluster.query.allow_list import ALLOWED, REFUSED
from tocsin.cluster.query.spark_dialect import RESERVED, function_name
from tocsin.errors import BodyRefused

_FORBIDDEN_NODES: dict[type[exp.Expr], str] = {
    exp.QueryTransform: "runs a script (TRANSFORM … USING)",
    exp.Into: "writes (INTO)",
    exp.DML: "writes",
    exp.DDL: "changes definitions",
    exp.Command: "is a command",
    exp.Placeholder: "has a parameter marker",
    exp.Parameter: "has a parameter marker",
    exp.SessionParameter: "reads a session setting",
    exp.Lock: "locks rows",
}
_FILE_FORMATS = frozenset(
    ["parquet", "json", "csv", "orc", "text", "avro", "binaryfile", "xml", "delta", "iceberg", "hudi", "jdbc", "hive"]
)


def check_tree(root: exp.Expr) -> None:
    """Check the syntax tree, node by node."""
    for node in root.walk():
        if isinstance(node, exp.Query) and not isinstance(
            node, exp.Select | exp.SetOperation | exp.Subquery | exp.Table
        ):
            raise refused(f"the query contains a {type(node).__name__.upper()}")
        for kind, reason in _FORBIDDEN_NODES.items():
            if isinstance(node, kind) and not isinstance(node, exp.Query):
                raise refused(f"the query {reason}")
        if isinstance(node, exp.Identifier):
            _check_identifier(node)
        elif isinstance(node, exp.Func):
            name = function_name(node)
            if name in REFUSED:
                raise refused(f"the function {name} {REFUSED[name]}", name=name)
            if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
                raise refused(f"the function {name} is called with a qualified name", name=name)
        elif isinstance(node, exp.Table):
            check_table_name(node)


def check_functions(resolved: exp.Expr) -> None:
    """Check that a query, in which the functions of users have been inlined, calls only allowed functions."""
    for node in resolved.find_all(exp.Func):
        name = function_name(node)
        if name not in ALLOWED:
            message = f"there is no function {name!r} that a query may call"
            raise refused(
                message,
                hint="CREATE FUNCTION first; docs/reference/functions.md lists the others",
                name=name,
            )


def check_table_name(node: exp.Table) -> None:
    """Refuse a table name that Spark would read as a path, a format or another database."""
    parts = [str(part.name) for part in node.parts]
    shown = ".".join(parts)
    if (len(parts) > 1 and parts[0].lower() in _FILE_FORMATS) or "/" in shown or "\\" in shown:
        raise refused(f"the query reads files ({shown})", hint="load the data into a dataset first")
    if len(parts) > 2 or (len(parts) == 2 and parts[0].lower() != "catalog"):
        raise refused(f"the query reads {shown}, which is not a dataset", hint="the name of a dataset has no dot")


def duplicate_column(name: str) -> BodyRefused:
    return refused(f"the result has two columns named {name!r}", hint="rename one of them with AS", name=name)


def _check_identifier(node: exp.Identifier) -> None:
    name = str(node.name)
    if name.lower().startswith(RESERVED):
        raise refused(f"the name {name!r} is reserved", hint=f"names must not start with {RESERVED}", name=name)
    if "${" in name or "\x00" in name:
        raise refused(f"the name {name!r} contains a variable", name=name)


def refused(message: str, *, hint: str = "", **fields: Any) -> BodyRefused:
    return BodyRefused(message, hint=hint, **fields)
