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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import httpx
import psycopg
from small_disk import SmallDisk

from postgres import Server
from served import SOURCE, environment

#: Segments of Victims are damaged, and results of Damaged.
SETUP = """
CREATE ACTIVE DATASET Reports (n bigint NOT NULL, kind string NOT NULL);
CREATE FEED ReportFeed; CONNECT FEED ReportFeed TO DATASET Reports; START FEED ReportFeed;
CREATE ACTIVE DATASET Victims (n bigint NOT NULL);
CREATE FEED VictimFeed; CONNECT FEED VictimFeed TO DATASET Victims; START FEED VictimFeed;
CREATE CONTINUOUS CHANNEL OfKind(kind string) { SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
CREATE CONTINUOUS CHANNEL OfVictims() { SELECT v.n FROM Victims v WHERE is_new(v) };
CREATE CONTINUOUS CHANNEL Damaged(kind string) { SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind };
"""
REPAIR = "REPAIR DATASET Victims WITH LOSS"
#: Megabytes: half an hour of segments, results and logs; a database with little WAL.
CLUSTER_DISK, COORDINATOR_DISK, POSTGRES_DISK = 768, 64, 512
POSTGRES = {"max_wal_size": "64MB", "min_wal_size": "32MB"}


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
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """As systemd does: unless it runs."""
        if not self.running:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._env)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def jvm(self) -> int | None:
        """The process of Spark below this one."""
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, rest = status.read_text().partition("(")[2].rpartition(")")
                if name == "java" and self.process is not None and int(rest.split()[1]) == self.process.pid:
                    return int(status.parent.name)
        return None

    def problem(self) -> str | None:
        """Why it is not healthy."""
        if not self.running:
            return f"{self.name} has ended"
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            return f"{self.name}: {error!r}"
        return None if answer.status_code == 200 else f"{self.name}: {answer.status_code} {answer.text[:300]}"


class ChaosNetwork:
    """A data cluster with Spark, a coordinator and three brokers. The catalog is in PostgreSQL; ``sqlite``: the
    coordinator's store is not. Data cluster, coordinator and PostgreSQL have small disks."""

    def __init__(self, folder: Path, postgres: Server, disks: dict[str, SmallDisk], *, sqlite: bool) -> None:
        self.folder, self.postgres, self.disks = folder, postgres, disks
        self._clock = folder / "clock"
        self._clock.write_bytes(struct.pack("d", 0.0))
        paths = os.pathsep.join([str(Path(__file__).parent / "clock"), str(SOURCE)])
        env = environment(PYTHONPATH=paths, TOCSIN_TEST_CLOCK=str(self._clock), TOCSIN_BRIEF="true")
        self._catalog = postgres.fresh()
        database = {"TOCSIN_CATALOG": self._catalog}
        self.cluster = Part(folder, "cluster", "cluster", "--master", "local[2]", **env | database)
        database = {} if sqlite else {"TOCSIN_COORDINATOR_STORE": postgres.fresh()}
        self.coordinator = Part(folder, "coordinator", "coordinator", "--cluster", self.cluster.url, **env | database)
        words = ("broker", "--cluster", self.cluster.url, "--coordinator", self.coordinator.url)
        self.brokers = [Part(folder, name, *words, "--name", name, **env) for name in ("b0", "b1", "b2")]
        self.parts = [self.cluster, self.coordinator, *self.brokers]

    def ready(self, seconds: float) -> float:
        """Returns after how many seconds every part was healthy; fails with the reasons when it takes longer."""
        begin = time.monotonic()
        while problems := [found for part in self.parts if (found := part.problem())]:
            if time.monotonic() > begin + seconds:
                logs = {part.name: part.log.read_text()[-1500:] for part in self.parts}
                raise AssertionError(f"not healthy after {seconds:g} s: {problems}\n{json.dumps(logs, indent=1)}")
            time.sleep(0.5)
        return time.monotonic() - begin

    def run(self, script: str) -> httpx.Response:
        return httpx.post(f"{self.cluster.url}/sql", content=script, timeout=120, trust_env=False)

    def define(self) -> None:
        answer = self.run(SETUP)
        assert answer.status_code == 200, answer.text
        with psycopg.connect(self._catalog) as catalog:
            self._ids = dict(catalog.execute("SELECT lower(name), id FROM tocsin.definitions").fetchall())

    def restart_ended(self) -> None:
        self.start_postgres()
        for part in self.parts:
            part.start()

    def start_postgres(self) -> None:
        """Unless its disk is full: then the next time."""
        if not self.postgres.running:
            with suppress(RuntimeError):
                self.postgres.start()

    def set_clock(self, ahead: float) -> None:
        # In place: the processes have mapped this file.
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", ahead))

    def damage(self, kind: str, name: str) -> None:
        """Overwrites the middle of the newest file of a dataset (``datasets``) or channel (``results``)."""
        folder = self.cluster.home / "segments" / kind / str(self._ids[name.lower()])
        files = [path for path in folder.rglob("*") if path.is_file()]
        with suppress(FileNotFoundError, ValueError):  # it was compacted, or there is none yet
            newest = max(files, key=lambda path: path.stat().st_mtime_ns)
            size = newest.stat().st_size
            with newest.open("r+b") as file:
                file.seek(size // 3)
                file.write(b"\xff" * (size // 3))

    def repair(self) -> None:
        """What an operator does; if the data cluster is not there now, the next time."""
        with suppress(httpx.HTTPError):
            self.run(REPAIR)

    def end(self) -> None:
        for part in self.parts:
            part.kill()


@contextmanager
def chaos_network(folder: Path, *, sqlite: bool) -> Iterator[ChaosNetwork]:
    with (
        SmallDisk(folder / "cluster", CLUSTER_DISK) as cluster,
        SmallDisk(folder / "coordinator", COORDINATOR_DISK) as coordinator,
        # PostgreSQL has an account of its own, which cannot see the folder of a test.
        SmallDisk(Path(mkdtemp(prefix="tocsin-pg-")), POSTGRES_DISK) as database,
        Server(POSTGRES, database.folder) as postgres,
    ):
        disks = {"data cluster": cluster, "coordinator": coordinator, "PostgreSQL": database}
        network = ChaosNetwork(folder, postgres, disks, sqlite=sqlite)
        try:
            yield network
        finally:
            network.end()


class Fault(NamedTuple):
    """What breaks a part, and what an operator or time does about it some seconds later."""

    begin: Callable[[], Any]
    end: Callable[[], Any]


def faults(network: ChaosNetwork) -> dict[str, Fault]:
    found: dict[str, Fault] = {}

    def nothing() -> None:
        pass

    for part in network.parts:
        found[f"kill {part.name}"] = Fault(part.kill, part.start)
        found[f"stop {part.name}"] = Fault(
            lambda part=part: part.signal(signal.SIGSTOP),
            lambda part=part: part.signal(signal.SIGCONT),
        )

    stopped: list[int] = []

    def to_jvm(number: signal.Signals) -> None:
        pid = network.cluster.jvm()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                stopped.append(pid)

    def continue_jvms() -> None:
        """Also one whose data cluster was killed meanwhile: it ends by itself as soon as it runs."""
        while stopped:
            with suppress(ProcessLookupError):
                os.kill(stopped.pop(), signal.SIGCONT)

    def empty(disk: SmallDisk) -> None:
        disk.free()
        network.start_postgres()  # it ends when it cannot write

    postgres = network.postgres
    found["kill everything"] = Fault(network.end, network.restart_ended)
    found["kill the JVM"] = Fault(lambda: to_jvm(signal.SIGKILL), nothing)
    found["stop the JVM"] = Fault(lambda: to_jvm(signal.SIGSTOP), continue_jvms)
    found["restart PostgreSQL"] = Fault(postgres.stop, network.start_postgres)
    found["crash PostgreSQL"] = Fault(lambda: postgres.stop(signal.SIGQUIT), network.start_postgres)
    found["clocks jump 8 days"] = Fault(lambda: network.set_clock(8 * 86_400.0), lambda: network.set_clock(0.0))
    found["damage a result file"] = Fault(lambda: network.damage("results", "Damaged"), nothing)
    found["damage a segment"] = Fault(lambda: network.damage("datasets", "Victims"), network.repair)
    for name, disk in network.disks.items():
        if disk.real:
            found[f"fill the disk of {name}"] = Fault(disk.fill, lambda disk=disk: empty(disk))
        else:
            print(f"the disk of {name} is not filled: only root can mount a small one", flush=True)
    return found
