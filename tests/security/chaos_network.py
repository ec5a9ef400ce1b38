"""A whole network of real processes that can be killed, stopped, filled up and damaged while it works."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from postgres import Server
from served import SOURCE, environment

SETUP = """
CREATE ACTIVE DATASET Reports (n bigint NOT NULL, kind string NOT NULL);
CREATE FEED ReportFeed; CONNECT FEED ReportFeed TO DATASET Reports; START FEED ReportFeed;
CREATE CONTINUOUS CHANNEL OfKind(kind string) { SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
CREATE CONTINUOUS CHANNEL Damaged(kind string) { SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Part:
    """One process. It keeps its port over restarts."""

    def __init__(self, folder: Path, name: str, *words: str, **env: str) -> None:
        self.name, self.home, self.port = name, folder / name, free_port()
        self.home.mkdir(parents=True, exist_ok=True)
        self._command = [sys.executable, "-m", "tocsin.cli", *words, "--json", "--port", str(self.port)]
        self._command += ["--home", str(self.home)]
        self._env = env
        self.log = folder / f"{name}.log"
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._env)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def jvm(self) -> int | None:
        """The process of Spark below this one."""
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, rest = status.read_text().partition("(")[2].rpartition(")")
                if name == "java" and int(rest.split()[1]) == self.process.pid:
                    return int(status.parent.name)
        return None

    def problem(self) -> str | None:
        """Why it is not healthy."""
        if self.process.poll() is not None:
            return f"{self.name} ended with {self.process.returncode}"
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            return f"{self.name}: {error!r}"
        return None if answer.status_code == 200 else f"{self.name}: {answer.status_code} {answer.text[:300]}"


class ChaosNetwork:
    """A data cluster with Spark, a coordinator and three brokers; catalog and store are in PostgreSQL."""

    def __init__(self, folder: Path, postgres: Server) -> None:
        self.folder, self.postgres = folder, postgres
        self._clock = folder / "clock"
        self._clock.write_bytes(struct.pack("d", 0.0))
        paths = os.pathsep.join([str(Path(__file__).parent / "clock"), str(SOURCE)])
        env = environment(PYTHONPATH=paths, TOCSIN_TEST_CLOCK=str(self._clock), TOCSIN_BRIEF="true")
        database = {"TOCSIN_CATALOG": postgres.fresh()}
        self.cluster = Part(folder, "cluster", "cluster", "--master", "local[2]", **env | database)
        database = {"TOCSIN_COORDINATOR_STORE": postgres.fresh()}
        self.coordinator = Part(folder, "coordinator", "coordinator", "--cluster", self.cluster.url, **env | database)
        words = ("broker", "--cluster", self.cluster.url, "--coordinator", self.coordinator.url)
        self.brokers = [Part(folder, name, *words, "--name", name, **env) for name in ("b0", "b1", "b2")]
        self.parts = [self.cluster, self.coordinator, *self.brokers]

    def ready(self, seconds: float) -> None:
        """Returns when every part is healthy; fails with the reasons when that takes longer."""
        end = time.monotonic() + seconds
        while problems := [found for part in self.parts if (found := part.problem())]:
            if time.monotonic() > end:
                logs = {part.name: part.log.read_text()[-1500:] for part in self.parts}
                raise AssertionError(f"not healthy after {seconds:g} s: {problems}\n{json.dumps(logs, indent=1)}")
            time.sleep(0.5)

    def define(self) -> None:
        answer = httpx.post(f"{self.cluster.url}/sql", content=SETUP, timeout=120, trust_env=False)
        assert answer.status_code == 200, answer.text

    def restart_ended(self) -> None:
        """As systemd does."""
        for part in self.parts:
            if part.process.poll() is not None:
                part.start()

    def set_clock(self, ahead: float) -> None:
        # In place: the processes have mapped this file.
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", ahead))

    def damage(self, channel: str) -> bool:
        """Overwrites the middle of the newest result file of a channel; False if it has none."""
        answer = httpx.get(f"{self.cluster.url}/channels/{channel}", timeout=60, trust_env=False)
        pattern = f"**/results/{answer.json()['id']}/**/*"
        own = [path for path in self.cluster.home.glob(pattern) if path.is_file()]
        if not own:
            return False
        newest = max(own, key=lambda path: path.stat().st_mtime_ns)
        with suppress(FileNotFoundError), newest.open("r+b") as file:
            size = newest.stat().st_size
            file.seek(size // 3)
            file.write(b"\xff" * (size // 3))
        return True

    def end(self) -> None:
        for part in self.parts:
            part.signal(signal.SIGCONT)
            part.kill()


def faults(network: ChaosNetwork) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What breaks a part, and what the operator or time does about it some seconds later."""
    found: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    for part in network.parts:
        found[f"kill {part.name}"] = (part.kill, part.start)
        found[f"stop {part.name}"] = (
            lambda part=part: part.signal(signal.SIGSTOP),
            lambda part=part: part.signal(signal.SIGCONT),
        )

    def to_jvm(number: signal.Signals) -> None:
        pid = network.cluster.jvm()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    postgres = network.postgres
    found["kill the JVM"] = (lambda: to_jvm(signal.SIGKILL), lambda: None)
    found["stop the JVM"] = (lambda: to_jvm(signal.SIGSTOP), lambda: to_jvm(signal.SIGCONT))
    found["restart PostgreSQL"] = (postgres.stop, postgres.start)
    found["crash PostgreSQL"] = (lambda: postgres.stop(signal.SIGQUIT), postgres.start)
    found["clocks jump 8 days"] = (lambda: network.set_clock(8 * 86_400.0), lambda: network.set_clock(0.0))
    found["damage a result file"] = (lambda: network.damage("Damaged"), lambda: None)
    return found
