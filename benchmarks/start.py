"""The demo's start: from the command to its first notification, the first time and every later time on a machine.

Beside it, in the same rounds, what Spark itself needs in a program of three lines: a session and one row.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import Table

PEOPLE, SECONDS = 400, 20
SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
print("session", flush=True)
spark.sql("SELECT 1").collect()
print("row", flush=True)
"""
#: What begins the line that says so.
STEPS = {"Spark": "✓ Spark", "application": "✓ application", "page": "The page:", "notified": "First notification"}


def moments(command: list[str], steps: dict[str, str], cache: Path) -> dict[str, float]:
    """Seconds from the start of the command to the first line that begins with each of these."""
    began = time.monotonic()
    found: dict[str, float] = {}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "200"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            for step, words in steps.items():
                if line.strip().startswith(words):
                    found.setdefault(step, time.monotonic() - began)
    missing = steps.keys() - found.keys()
    if process.returncode or missing:
        raise RuntimeError(f"{command[:4]} ended with {process.returncode}; not said: {sorted(missing)}")
    return found


def demo(cache: Path) -> dict[str, float]:
    words = ["demo", "--subscribers", str(PEOPLE), "--seconds", str(SECONDS), "--port", "0"]
    return moments([sys.executable, "-m", "tocsin.cli", *words], STEPS, cache)


def run(full: bool) -> list[Table]:
    rounds = 5 if full else 3
    plain: list[dict[str, float]] = []
    first: list[dict[str, float]] = []
    later: list[dict[str, float]] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
            harness.progress(f"round {number + 1} of {rounds}: Spark alone, then the first start, then the second")
            command = [sys.executable, "-c", SPARK]
            plain.append(moments(command, {"Spark": "session", "row": "row"}, Path(folder)))
            first.append(demo(Path(folder)))
            later.append(demo(Path(folder)))
    row = harness.median(each["row"] for each in plain)
    table = Table(
        f"`tocsin demo` with {PEOPLE} people and five brokers, seconds from the command, median of {rounds} rounds",
        [
            "",
            "Spark is up",
            "application made",
            "all runs",
            "after Spark",
            "first notification",
            "over Spark's first row",
        ],
        notes=[
            "Spark alone is a program of three lines: import, session, `SELECT 1`; its first row stands under first "
            "notification. The first start has an empty cache: no archive of classes, no query that Spark has seen.",
            "After Spark: from the moment that Spark is up to the one that people are there, channels are made and the "
            "clock runs. The first person subscribes 3.5 s after people begin to come, at this speed of 5.",
        ],
    )
    table.add("Spark alone", harness.median(each["Spark"] for each in plain), None, None, None, row, 1.0)
    for name, each in (("first start", first), ("every later start", later)):
        steps = {step: harness.median(some[step] for some in each) for step in STEPS}
        after = harness.median(some["page"] - some["Spark"] for some in each)
        notified = steps["notified"]
        table.add(name, steps["Spark"], steps["application"], steps["page"], after, notified, notified / row)
    return [table]


if __name__ == "__main__":
    harness.main("start", run)
