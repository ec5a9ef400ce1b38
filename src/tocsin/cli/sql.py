"""``tocsin sql``: runs a script of statements."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import Progress, TaskID

from tocsin.cli.http import Client, Remote
from tocsin.cli.output import URL, Json, Token, Url, clean, print_json, print_line, print_table, progress, report
from tocsin.errors import TocsinError, UserError


def sql(
    file: Annotated[str | None, typer.Argument(help="A file of statements; - is standard input.")] = None,
    execute: Annotated[str | None, typer.Option("--execute", "-e", help="The statements themselves.")] = None,
    url: Url = URL,
    token: Token = "",
    json: Json = False,
) -> None:
    """Run statements: CREATE, LOAD, INSERT, SUBSCRIBE, SELECT, ...

    A script stops at the first error; the statements before it stay in effect. Prints a line for each statement, and
    a table for each query.

    \b
    Example:
      tocsin sql -e 'CREATE ACTIVE DATASET Reports (id string, kind string) PRIMARY KEY id'
    """
    if (file is None) == (execute is None):
        raise typer.BadParameter("give either a file (- for standard input) or -e with the statements")
    script, name = (execute, "") if execute is not None else (read(str(file)), "" if file == "-" else str(file))
    assert script is not None
    try:
        with Client(url, token) as client:
            run(client, script, json)
    except TocsinError as error:
        report(error, json=json, script=script, name=name)
        raise typer.Exit(1) from error


def read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from error


def events(client: Client, script: str) -> Iterator[dict[str, Any]]:
    """Runs the statements one after the other: ``progress`` and the ``outcome`` of each. Raises the first error."""
    headers = {"accept": "application/x-ndjson", "content-type": "text/plain; charset=utf-8"}
    with client.stream("POST", "/sql", content=script.encode(), headers=headers) as response:
        for line in response.iter_lines():
            event = msgspec.json.decode(line)
            if "error" in event:
                raise Remote(response.status_code, event["error"])
            yield event


def run(client: Client, script: str, json: bool) -> None:
    with progress() as bar:
        steps = Steps(bar)
        for event in events(client, script):
            if "progress" in event:
                steps.show(event["progress"])
            else:
                steps.end(event["outcome"]["statement"])
                show(event["outcome"], json)


class Steps:
    """A progress bar for each statement that reports progress."""

    def __init__(self, bar: Progress | None) -> None:
        self.bar = bar
        self.tasks: dict[int, TaskID] = {}

    def show(self, step: dict[str, Any]) -> None:
        if self.bar is None:
            return
        number, done = step["statement"], step["done"]
        if number not in self.tasks:
            self.tasks[number] = self.bar.add_task("")
        text = f"{clean(step['text'])}: {step['rows']:,} rows"
        total = None if done < 0 else 1.0
        self.bar.update(self.tasks[number], total=total, completed=max(0.0, done), description=text)

    def end(self, number: int) -> None:
        if self.bar is not None and number in self.tasks:
            self.bar.remove_task(self.tasks.pop(number))


def show(outcome: dict[str, Any], json: bool) -> None:
    if json:
        print_json(outcome)
        return
    if "result" in outcome:
        names = [column["name"] for column in outcome["columns"]]
        numbers = [is_number(column["type"]) for column in outcome["columns"]]
        print_table(names, ([row[name] for name in names] for row in outcome["result"]), numbers)
    print_line(outcome["message"])


def is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "float", "double", "half", "decimal"))
