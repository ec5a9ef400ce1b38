"""Runs every benchmark, or the named ones, each in a process of its own so that none warms up another."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: Files of the folder that only help the others.
SHARED = {
    "__init__",
    "__main__",
    "before_after",
    "content_servers",
    "harness",
    "holder",
    "interests",
    "load",
    "nats_cluster",
    "ours",
    "peers",
    "subscribers",
}


def names() -> list[str]:
    """Every file of the folder that is a benchmark, and every package."""
    packages = [path.parent.name for path in HERE.glob("*/__main__.py")]
    return sorted([*packages, *(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all of them by default")
    parser.add_argument("--full", action="store_true", help="the largest sizes too; takes long")
    parser.add_argument("--list", action="store_true", help="only print their names")
    options = parser.parse_args()
    if options.list:
        print("\n".join(names()))
        return 0
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(names())}")
    failed = []
    for name in options.names or names():
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--full"] if options.full else [])]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
