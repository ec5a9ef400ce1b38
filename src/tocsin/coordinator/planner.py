"""Plans are worked out in a process of their own: with a million subscribers one takes seconds, and reports go on.

The process is started when the first large question comes, is asked one question at a time over its pipes, and ends
with its parent. What is small is answered at once, here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
from typing import IO, Any

from tocsin.balancing.balancer import answer
from tocsin.balancing.decisions import Plan
from tocsin.balancing.plan_request import PlanRequest
from tocsin.errors import SystemTrouble

#: Subscriptions held below which a plan takes some milliseconds.
SMALL = 5_000
#: Seconds after which a plan is given up: whoever wrote the strategy did not think of so many.
PATIENCE = 300.0
#: So much less important than serving.
NICE = 10


class Planner:
    def __init__(self, small: int = SMALL, patience: float = PATIENCE) -> None:
        self.small, self.patience = small, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._one = asyncio.Lock()

    async def answer(self, question: PlanRequest) -> Plan:
        if question.load.rows.total <= self.small:
            return answer(question)
        async with self._one:
            try:
                asking = asyncio.to_thread(exchange, self._started(), question)
                found = await asyncio.wait_for(asking, self.patience)
            except TimeoutError:
                self.close()
                raise SystemTrouble(f"it took more than {self.patience:g} s and was given up") from None
            except Exception as error:
                self.close()
                raise SystemTrouble(f"the planning process broke off: {str(error) or type(error).__name__}") from error
        if isinstance(found, Plan):
            return found
        raise SystemTrouble(f"the strategy failed: {found}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            # Where this process finds a strategy of somebody else's, the other one has to find it too.
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


def exchange(process: subprocess.Popen[bytes], question: PlanRequest) -> Any:
    assert process.stdin is not None and process.stdout is not None
    pickle.dump(question, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
    return pickle.load(process.stdout)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answers until nobody asks any more."""
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        found: Any
        try:
            found = answer(question)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        del question  # as large as the network; not kept until the next one
        pickle.dump(found, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def main() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end is the end of this
    os.nice(NICE)
    # Whatever a strategy prints belongs into the log.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
