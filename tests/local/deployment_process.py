"""A local deployment without Spark, in this process or in its own process that can be killed.

As a script it prints each status, then its addresses, as lines of JSON, and waits.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tocsin.local import LocalDeployment, Options, Status

QUIET = (sys.executable, str(Path(__file__).with_name("quiet_cluster.py")))


def options(home: Path | None = None, **more: Any) -> Options:
    return Options(home=str(home or ""), cluster=QUIET, **{"brokers": 1, **more})


def descendants(parent: int) -> set[int]:
    """All descendants of this process."""
    found: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = status.read_text().rpartition(")")[2].split()
            found.setdefault(int(fields[1]), []).append(int(status.parent.name))
    out, todo = set(), [parent]
    while todo:
        children = found.get(todo.pop(), [])
        out.update(children)
        todo += children
    return out


def wait_for_end(pids: set[int]) -> None:
    """Returns when none of them runs."""
    for pid in pids:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            select.select([handle], [], [])
            os.close(handle)


class DeploymentProcess:
    """A local deployment in its own process."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
            start_new_session=True,
        )

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


def main() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)

    def show(status: Status) -> None:
        print(json.dumps({"kind": status.kind, "subject": status.subject}), flush=True)

    with suppress(KeyboardInterrupt), LocalDeployment(options(), show) as deployment:
        print(json.dumps(deployment.addresses), flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
