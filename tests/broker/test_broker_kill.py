"""Kill -9 of brokers, data cluster and subscribers while notifications flow: no subscriber loses or repeats one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from broker_lab import Broker
from delivery_log import read

from served import environment

HERE = Path(__file__).parent
KINDS = [f"kind{n}" for n in range(10)]


class Cluster:
    """A data cluster in a process; an execution is recorded once even if the process is restarted."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, 0
        self.last = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(HERE.parent / "sparkless.py"), str(self.home), str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        self.url = str(self._answer()["url"])
        self.port = int(self.url.rpartition(":")[2])

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BrokenPipeError
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, **command: Any) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()
        return int(self._answer()["execution"])

    def execute(self) -> None:
        """The next execution; its result is its own number, for every kind."""
        number = self.last + 1
        found = [[[kind], [{"n": number}]] for kind in KINDS]
        try:
            self.ask(execute="OfKind", found=found)
        except BrokenPipeError:
            self.process.wait()
            self.start()
            if self.ask(last="OfKind") < number:
                self.execute()
                return
        self.last = number

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Subscriber:
    """A process that is killed and restarted; ``has`` is its last logged execution of each kind."""

    def __init__(self, file: Path, urls: list[str]) -> None:
        self.file, self.urls = file, urls
        self.has: dict[str, int] = {}
        self.queue = threading.Condition()
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(HERE / "delivery_log.py"), str(self.file), "OfKind", ",".join(KINDS), *self.urls]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        self.is_ready = threading.Event()
        threading.Thread(target=self._listen, args=(self.process, self.is_ready), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line == b"ready\n":
                ready.set()
                continue
            kind, execution = line.decode().split()
            with self.queue:
                self.has[kind] = max(int(execution), self.has.get(kind, 0))
                self.queue.notify_all()

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.start()

    def wait_for(self, last: int) -> None:
        """Waits until it has this execution of every kind; the test checks the rest."""
        with self.queue:
            self.queue.wait_for(lambda: self.has == dict.fromkeys(KINDS, last), 300)


def read_only(file: Path) -> dict[str, list[tuple[int, list[int]]]]:
    """Reads a file that a subscriber still writes to."""
    copy = file.with_suffix(".copy")
    copy.write_bytes(file.read_bytes() if file.exists() else b"")
    return read(copy)


def start_broker(home: Path, cluster: str, name: str, port: int = 0) -> Broker:
    return Broker(home, cluster, name, "--port", str(port))


# Times two subscribers with ten subscriptions each: 10,000 notifications of 500 executions.
@pytest.mark.parametrize("executions", [160, pytest.param(500, marks=pytest.mark.slow)])
def test_subscribers_receive_exactly_their_notifications_despite_kills(tmp_path, executions):
    rng = random.Random(1)
    cluster = Cluster(tmp_path / "cluster")
    brokers = [start_broker(tmp_path / f"b{n}", cluster.url, f"b{n}") for n in range(2)]
    for each in brokers:
        each.event("ready")
    urls, ports = [each.url for each in brokers], [each.port for each in brokers]
    subscribers = [Subscriber(tmp_path / "one", urls), Subscriber(tmp_path / "two", urls[::-1])]
    killed: list[str] = []
    try:
        for each in subscribers:
            assert each.is_ready.wait(120)
        victims = ["broker 0", "broker 1", "cluster", "subscriber 0", "subscriber 1", "broker 0 and cluster"]
        victims += ["both brokers", "everything"]
        rng.shuffle(victims)
        at = set(range(20, executions - 20, (executions - 40) // len(victims)))
        for number in range(1, executions + 1):
            if number in at and victims:
                victim = victims.pop()
                killed.append(f"{victim} at {number}")
                whole = victim == "everything"
                if "cluster" in victim or whole:
                    cluster.kill()
                for place in range(2):
                    if f"broker {place}" in victim or victim == "both brokers" or whole:
                        brokers[place].kill()
                        brokers[place] = start_broker(tmp_path / f"b{place}", cluster.url, f"b{place}", ports[place])
                    if f"subscriber {place}" in victim or whole:
                        subscribers[place].restart()
            cluster.execute()
        # Subscribers that still lag catch up by themselves.
        for each in subscribers:
            each.wait_for(executions)
        for each in subscribers:
            found = read_only(each.file)
            for kind in KINDS:
                (start, _), *rest = found[kind]
                assert rest == [(n, [n]) for n in range(start + 1, executions + 1)], (kind, killed)
                assert start == 0
    finally:
        for each in subscribers:
            each.process.kill()
            each.process.wait()
        for broker in brokers:
            broker.kill()
        cluster.end()
