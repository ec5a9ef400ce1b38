"""``python -m benchmarks.before_after REVISION``: fan-out and commit to last, before and after a change.

Each tree runs its own broker, data cluster and benchmark, and the two take turns. Every figure is relative to the C
program of the same turn, so that what slows the machine down slows both sides of a ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import Table, median

ROOT = Path(__file__).parents[1]

#: Runs in either tree: prints one line of JSON, by case the ratios to the C program.
FANOUT = """
import json, os
from benchmarks.fanout import __main__ as fanout, cases, processes, servers
os.sched_setaffinity(0, {processes.COUNTER_CORE})
kinds = [servers.Limit, servers.CoalescedLimit, servers.Tocsin]
found = fanout.measure(kinds, cases.CASES, fanout.Effort(3, 0.3))
def ratio(figures, size):
    own, best = figures["Tocsin"].rates[size], figures[fanout.MODES[size].name].rates[size]
    return fanout.median(a / b for a, b in zip(own, best))
cells = [(case, figures, size) for size in fanout.MODES for case, figures in found.items()]
print(json.dumps({f"{case}, {size} at once": ratio(figures, size) for case, figures, size in cells}))
"""
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


def measure(folder: Path, script: str) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": f"{folder}:{folder / 'src'}"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(title: str, script: str, before: Path, turns: int, *, higher_is_better: bool) -> Table:
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
    better = "more is better" if higher_is_better else "less is better"
    table.notes.append(f"Relative to the C program of the same turn; {better}. Medians of {turns} turns.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("revision", help="what to compare with: a commit, a tag or a branch")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tree(options.revision) as before:
        tables = [
            compare("Fan-out: deliveries per CPU second", FANOUT, before, options.turns, higher_is_better=True),
            compare(
                "From the commit until the last subscriber has it",
                COMMIT_TO_LAST,
                before,
                options.turns,
                higher_is_better=False,
            ),
        ]
    for table in tables:
        table.notes.append(f"Before: revision {options.revision}.")
        print(table.markdown(), flush=True)
    harness.save("before_after", tables)


if __name__ == "__main__":
    main()
