"""Cleans up behind a town whose own process was killed: ends what is left of it and removes a temporary home.

Run as a process of its own. Each line on standard input is a process to watch over; when standard input ends and the
town has not said ``done``, it is dead.
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

#: Seconds that the town's processes have to end by themselves: they notice too that the town is gone.
PATIENCE = 20.0


class Janitor:
    """The town's end of it."""

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
        """All is clean."""
        self._write("done\n")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # without a janitor the town works all the same
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


def main(temporary: str) -> None:
    # Who ends the town with all its group does not mean this process.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: dict[int, int] = {}  # by handles, as a number may be another process's by then
    for line in sys.stdin:
        if line == "done\n":
            return
        with contextlib.suppress(OSError, ValueError):
            watched[os.pidfd_open(int(line))] = int(line)
    end = time.monotonic() + PATIENCE
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
