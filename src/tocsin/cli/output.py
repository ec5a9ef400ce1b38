"""Output of the commands: tables, lines of JSON, errors with their position, progress bars."""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tocsin.errors import TocsinError, UserError

Url = Annotated[str, typer.Option("--url", envvar="TOCSIN_URL", help="Address of the data cluster.")]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="TOCSIN_TOKEN",
        help="Token of an operator or a user; @FILE reads it from a file, such as @tocsin-data/admin.token.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
URL = "http://127.0.0.1:8480"

#: Width of a table that does not go to a terminal.
WIDE = 100_000
TAB = "    "

encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


def out() -> Console:
    """Created on each call: standard output may have been replaced since the import."""
    stream = sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDE)


def err() -> Console:
    stream = sys.stderr
    return Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else WIDE)


def print_json(value: Any) -> None:
    sys.stdout.write(encoder.encode(value).decode() + "\n")
    sys.stdout.flush()


def write_json(file: Path, value: Any) -> None:
    """Writes the file atomically: a script that waits for it may read it at once."""
    part = file.with_name(file.name + ".part")
    try:
        part.write_bytes(encoder.encode(value))
        part.replace(file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def print_line(text: str) -> None:
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def clean(text: str, keep: str = "\n\t") -> str:
    """Escapes control characters: records come from publishers, and must not control the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return clean(value, "").replace("\n", "\\n")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dict | list | tuple):
        return clean(encoder.encode(value).decode(), "")
    return str(value)


def print_table(names: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[bool] = ()) -> None:
    """Numbers are aligned to the right; cells are folded on a terminal only."""
    console = out()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(names):
        right = place < len(numbers) and numbers[place]
        table.add_column(Text(clean(name, "")), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def report(error: TocsinError, *, json: bool = False, script: str | None = None, name: str = "") -> None:
    """Prints the error, its position in the script, and the hint to standard error."""
    problem = error.to_dict()
    if json:
        sys.stderr.write(encoder.encode({"error": problem}).decode() + "\n")
        return
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), clean(error.message)))
    for line in place(problem, script, name):
        console.print(Text(line))
    if error.hint:
        console.print(Text.assemble(("hint: ", "bold"), clean(error.hint)))


def place(problem: dict[str, Any], script: str | None, name: str) -> Iterator[str]:
    """The line of the script with a ^ under the column that the error names."""
    line, column = problem.get("line"), problem.get("column")
    if script is None or not isinstance(line, int) or not isinstance(column, int):
        return
    lines = script.split("\n")
    if not 1 <= line <= len(lines):
        return
    text = clean(lines[line - 1].rstrip("\r")).replace("\t", TAB)
    before = clean(lines[line - 1][: max(0, column - 1)]).replace("\t", TAB)
    gutter = len(str(line))
    # Wide characters count twice, so that the caret is below the right one.
    pad = " " * cell_len(before)
    if name:
        yield f"{' ' * gutter}--> {name}:{line}:{column}"
    yield f" {line} | {text}"
    yield f" {' ' * gutter} | {pad}^"


@contextlib.contextmanager
def progress(*columns: Any) -> Iterator[Progress | None]:
    """A progress bar on standard error, if it is a terminal."""
    console = err()
    if not console.is_terminal:
        yield None
        return
    shape = columns or (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*shape, console=console, transient=True) as bar:
        yield bar
