"""``tocsin query``: one query over datasets, results and the catalog."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import httpx
import typer

from tocsin.cli.http import Client
from tocsin.cli.output import URL, Json, Token, Url, print_table, report
from tocsin.cli.sql import is_number, read
from tocsin.errors import TocsinError, UserError


class Format(StrEnum):
    table = "table"
    json = "json"
    ndjson = "ndjson"
    csv = "csv"
    arrow = "arrow"


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT; - reads it from standard input.")],
    format: Annotated[Format | None, typer.Option("--format", "-f", help="Output format (default: table).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    url: Url = URL,
    token: Token = "",
    json: Json = False,
) -> None:
    """Query datasets, results and the catalog.

    Besides datasets, there are tables such as catalog.datasets, catalog.channels and catalog.executions, and for each
    channel ChannelSubscriptions and ChannelResults.

    \b
    Example:
      tocsin query 'SELECT kind, count(*) AS n FROM Reports GROUP BY kind' --format csv
    """
    if json and format not in (None, Format.json):
        raise typer.BadParameter("give --json or --format, not both")
    wanted = Format.json if json else format or Format.table
    text = read("-") if sql == "-" else sql
    try:
        with Client(url, token) as client:
            fetch(client, text, wanted, output)
    except TocsinError as error:
        report(error, json=json, script=text)
        raise typer.Exit(1) from error


def fetch(client: Client, sql: str, wanted: Format, output: Path | None) -> None:
    asked = "arrow" if wanted is Format.table else wanted.value
    if wanted is Format.table and output is not None:
        raise typer.BadParameter("a table is for the terminal; choose --format json, ndjson, csv or arrow for a file")
    if wanted is Format.arrow and output is None and sys.stdout.isatty():
        raise typer.BadParameter("Arrow is binary; give -o FILE or a pipe")
    request: dict[str, Any] = {
        "params": {"format": asked},
        "content": sql.encode(),
        "headers": {"content-type": "text/plain; charset=utf-8"},
    }
    with client.stream("POST", "/query", **request) as response:
        if wanted is Format.table:
            show(response.read())
        elif output is not None:
            save(response, output)
        else:
            copy(response, sys.stdout.buffer)
            if wanted is Format.json:
                sys.stdout.buffer.write(b"\n")
            sys.stdout.buffer.flush()


def show(data: bytes) -> None:
    import pyarrow as pa  # takes a tenth of a second; only tables need it

    table = pa.ipc.open_stream(data).read_all()
    numbers = [is_number(str(field.type)) for field in table.schema]
    columns = [column.to_pylist() for column in table.columns]
    print_table(table.column_names, zip(*columns, strict=True), numbers)
    sys.stdout.write(f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}\n")


def copy(response: httpx.Response, target: BinaryIO) -> None:
    for chunk in response.iter_bytes():
        target.write(chunk)


def save(response: httpx.Response, output: Path) -> None:
    """Replaces an existing file only once the new one is complete."""
    part = output.with_name(output.name + ".part")
    try:
        try:
            with part.open("wb") as file:
                copy(response, file)
            part.replace(output)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error
