"""``python guard.py PID SECONDS``: ends a process when the one that started the guard has ended.

Spark's JVM ends by itself when its standard input does; one that hangs would stay for ever, with all its memory. The
standard input of the guard ends with its parent too. It imports nothing of Tocsin, so that it stays small.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

#: Seconds that the JVM has to end by itself.
GRACE = 10.0


def start(pid: int, grace: float = GRACE) -> subprocess.Popen[bytes] | None:
    """The guard of a child of this process; closing its standard input ends it. None where there are no pidfds."""
    if not hasattr(os, "pidfd_open"):
        return None
    # Without site and environment it starts in few milliseconds.
    command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(pid), str(grace)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(pid: int, grace: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which may take its time
    try:
        process = os.pidfd_open(pid)  # means this process, also when its number is used again
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process, sys.stdin], [], [])
    if process not in ended and not select.select([process], [], [], grace)[0]:
        signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
