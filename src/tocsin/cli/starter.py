"""For a process that another one starts and that must not outlive it."""

from __future__ import annotations

import os
import signal
import threading

#: Set by whoever holds the other end of standard input for as long as it lives.
STARTED = "TOCSIN_STARTED"


def end_with_starter() -> None:
    """Ends this process when its starter is gone, however that ended: another that is started in its place must not
    find this one under the same name, on the same port or in the same folder."""
    if os.environ.pop(STARTED, None) is None:
        return

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="starter", daemon=True).start()
