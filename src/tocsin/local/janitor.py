"""Cleans up after a deployment whose own process was killed: ends its processes and removes a temporary home.

Runs as a separate process. Each line on standard input is a process id to watch; when standard input ends without
``done``, the deployment is dead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Seconds that the processes have to end by themselves: they notice too that their parent is gone.
GRACE = 20.0


class Janitor:
    """Starts the janitor and sends it process ids; used by the deployment."""

    def __init__(self, temporary: Path | None) -> None:
        self._process = subprocess.Popen(
            # By its file: importing the package would take a second.
            [sys.executable, "-I", str(Path(__file__)), str(temporary or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        self._write(f"{pid}\n")

    def dismiss(self) -> None:
        """Nothing is left to clean up."""
        self._write("done\n")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the deployment works without a janitor too
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


def main(temporary: str) -> None:
    # A signal to the deployment's process group must not end the process that cleans up after it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: dict[int, int] = {}  # by handle: an id may belong to another process by then
    for line in sys.stdin:
        if line == "done\n":
            return
        with contextlib.suppress(OSError, ValueError):
            watched[os.pidfd_open(int(line))] = int(line)
    end = time.monotonic() + GRACE
    while watched and time.monotonic() < end:
        watched = {handle: pid for handle, pid in watched.items() if _alive(handle)}
        time.sleep(0.05)
    for handle, pid in watched.items():
        if _alive(handle):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
    while any(map(_alive, watched)):
        time.sleep(0.05)
    if temporary:
        shutil.rmtree(temporary, ignore_errors=True)


def _alive(handle: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
