"""Makes plans in a process of its own: with a million subscribers a plan takes seconds, and reports go on.

The process starts with the first large request, takes one request at a time over its pipes, and ends with its parent.
Small plans are made here, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
from typing import IO, Any

from tocsin.balancing.central_host import plan_for
from tocsin.balancing.decisions import Plan
from tocsin.balancing.plan_request import PlanRequest
from tocsin.errors import SystemFailure

#: Up to this many subscriptions a plan takes some milliseconds.
SMALL = 5_000
#: Seconds after which planning is aborted.
TIMEOUT = 300.0
#: Priority of the planning process, lower than that of serving.
NICE = 10


class Planner:
    def __init__(self, small: int = SMALL, timeout: float = TIMEOUT) -> None:
        self.small, self.timeout = small, timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._one = asyncio.Lock()

    async def plan(self, request: PlanRequest) -> Plan:
        if request.load.rows.total <= self.small:
            return plan_for(request)
        async with self._one:
            try:
                exchanged = asyncio.to_thread(exchange, self._started(), request)
                found = await asyncio.wait_for(exchanged, self.timeout)
            except TimeoutError:
                self.close()
                raise SystemFailure(f"planning took more than {self.timeout:g} s") from None
            except Exception as error:
                self.close()
                raise SystemFailure(f"the planning process failed: {str(error) or type(error).__name__}") from error
        if isinstance(found, Plan):
            return found
        raise SystemFailure(f"the strategy failed: {found}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # The process has to find the same strategy packages as this one.
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": paths},
            )
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def exchange(process: subprocess.Popen[bytes], request: PlanRequest) -> Any:
    assert process.stdin is not None and process.stdout is not None
    pickle.dump(request, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
    return pickle.load(process.stdout)


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Make plans until the input ends."""
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        found: Any
        try:
            found = plan_for(request)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        del request  # frees a copy of the whole network
        pickle.dump(found, replies, protocol=pickle.HIGHEST_PROTOCOL)
        replies.flush()


def main() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the parent, and this ends with it
    os.nice(NICE)
    # What a strategy prints goes to the log.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
