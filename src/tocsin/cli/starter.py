"""Ends a process together with the one that started it."""

from __future__ import annotations

import os
import signal
import threading

#: Set by the starting process, which keeps the other end of standard input open for as long as it lives.
STARTED = "TOCSIN_STARTED"


def end_with_starter() -> None:
    """Ends this process when its starter has ended, in whatever way: the name, the port and the folder must be free
    for a replacement."""
    if os.environ.pop(STARTED, None) is None:
        return

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="starter", daemon=True).start()
