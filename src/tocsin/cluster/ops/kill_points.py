"""Named points at which a test can kill the process: ``TOCSIN_KILL_AT="commit.segment_written:3"``.

The third time it gets to that point, the process sends itself SIGKILL. Without the variable a point costs one
comparison.
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
    "execution.notified",
    "bulk.written",
    "bulk.committed",
    "compaction.written",
    "compaction.swapped",
)


def hit(point: str) -> None:
    global _left
    if point != _name:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
