"""Named points where a test may kill the process for real: ``TOCSIN_KILL_AT="commit.segment_written:3"``.

The third time the point is reached the process sends itself SIGKILL, as a power cut would. Without the variable a
point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading

_name, _, _count = os.environ.get("TOCSIN_KILL_AT", "").partition(":")
_left = int(_count or 1)
_lock = threading.Lock()

POINTS = (
    "commit.begin",
    "commit.segment_written",
    "commit.committed",
    "commit.applied",
    "execution.begin",
    "execution.queried",
    "execution.result_written",
    "execution.recorded",
    "execution.told",
    "compaction.written",
    "compaction.swapped",
)


def reach(point: str) -> None:
    global _left
    if point != _name:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
