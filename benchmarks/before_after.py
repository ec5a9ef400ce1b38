"""``python -m benchmarks.before_after REVISION``: fan-out and commit to last, before and after a change.

Fan-out: the brokers of both trees are servers of one run, which take turns; this tree has the data cluster of both.
Commit to last: each tree runs its own broker, data cluster and benchmark, and the two take turns; every figure is
relative to the C program of the same turn, so that what slows the machine down slows both sides of a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.fanout import __main__ as driver
from benchmarks.fanout import processes
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.cases import CASES, Case
from benchmarks.harness import Table, median

ROOT = Path(__file__).parents[1]

#: Runs in either tree: prints one line of JSON, by case the ratio to the C program.
COMMIT_TO_LAST = """
import json, os
from benchmarks import commit_to_last
from benchmarks.fanout import processes
os.sched_setaffinity(0, {processes.COUNTER_CORE})
processes.allow_files()
out = {}
for size in (100, 10_000):
    rows = commit_to_last.measure(size, 40).rows
    for name, place in (("broker alone", 1), ("push channel", 2), ("pull channel", 3)):
        out[f"{name}, {size:,} subscribers"] = rows[place][2] / rows[0][2]
print(json.dumps(out))
"""


@contextmanager
def tree(revision: str) -> Iterator[Path]:
    """The files of ``revision`` in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="tocsin-before-") as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder)


def fanout(before: Path, cases: Sequence[Case], effort: driver.Effort) -> Table:
    class Before(Tocsin):
        name, source = "before", before / "src"

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processes.COUNTER_CORE})
    try:
        found = driver.measure([Before, Tocsin], cases, effort)
    finally:
        os.sched_setaffinity(0, cores)
    table = Table("Fan-out: thousand deliveries per CPU second", ["case", "before", "after", "after / before"])
    for size in driver.MODES:
        for case, figures in found.items():
            old, new = figures[Before.name].rates[size], figures[Tocsin.name].rates[size]
            change = median(b / a for a, b in zip(old, new, strict=True))
            table.add(f"{case}, {size} at once", median(old), median(new), f"{change:.2f}×")
    table.notes.append(
        f"More is better. Medians of {effort.rounds} rounds of {effort.cpu:g} CPU seconds of the broker, in which both "
        "take turns; the ratio is the median of the ratios of the rounds."
    )
    return table


def measure(folder: Path, script: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": f"{folder}:{folder / 'src'}"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(title: str, script: str, before: Path, turns: int) -> Table:
    ratios: dict[str, dict[Path, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(turns):
        for folder in (before, ROOT) if turn % 2 == 0 else (ROOT, before):
            harness.progress(f"{title}: turn {turn + 1} of {turns}, {'after' if folder == ROOT else 'before'}")
            for case, value in measure(folder, script).items():
                ratios[case][folder].append(value)
    table = Table(title, ["case", "before", "after", "after / before"])
    for case, sides in ratios.items():
        old, new = sides[before], sides[ROOT]
        change = median(b / a for a, b in zip(old, new, strict=True))
        table.add(case, f"{median(old):.2f}×", f"{median(new):.2f}×", f"{change:.2f}×")
    table.notes.append(f"Relative to the C program of the same turn; less is better. Medians of {turns} turns.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("revision", help="what to compare with: a commit, a tag or a branch")
    parser.add_argument("--turns", type=int, default=3, help="of commit to last; fan-out has five rounds for each")
    parser.add_argument("--small", action="store_true", help="only try it: fan-out, few subscribers, nothing is saved")
    options = parser.parse_args()
    with tree(options.revision) as before:
        if options.small:
            few = [Case("100", 100), Case("dense", 200, topics=20, each=5)]
            print(fanout(before, few, driver.Effort(2, 0.1)).markdown())
            return
        title = "From the commit until the last subscriber has it"
        tables = [
            fanout(before, CASES, driver.Effort(5 * options.turns, 0.3)),
            compare(title, COMMIT_TO_LAST, before, options.turns),
        ]
    for table in tables:
        table.notes.append(f"Before: revision {options.revision}.")
        print(table.markdown(), flush=True)
    harness.save("before_after", tables)


if __name__ == "__main__":
    main()
