"""Starts the processes, restarts those that end by themselves, adds and kills brokers, stops all."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from msgspec import Struct

from tocsin.config import load, variables
from tocsin.errors import Conflict, LimitExceeded, NotFound, StorageError, SystemFailure, TocsinError
from tocsin.identity.service import KEYS_FILE
from tocsin.local.options import Options
from tocsin.local.process import GRACE, ChildProcess

CLUSTER, COORDINATOR = "data cluster", "coordinator"
MAX_BROKERS = 64
#: Seconds until Spark has to be up.
START_SECONDS = 300.0
#: Seconds that the data cluster has to end: the first time, Spark's JVM writes the archive that the next start needs.
END_SECONDS = 60.0
#: Seconds before a process that ended is started again, growing up to the last one.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Seconds of running after which earlier failures of a process no longer count.
STABLE = 60.0
TOCSIN = (sys.executable, "-m", "tocsin.cli")


class Status(Struct, frozen=True):
    """``kind``: starting, up, ended, again, killed, added, failed, note, stopping. ``seconds``: how long it took."""

    kind: str
    subject: str
    text: str = ""
    seconds: float = 0.0


Notify = Callable[[Status], None]
#: Latitude and longitude of a broker, by its number from 1.
Location = Callable[[int], Awaitable[tuple[float, float]]]


class Supervisor:
    """``brokers`` are names by number; killed ones stay in the list, so that a number always means the same broker."""

    def __init__(
        self,
        options: Options,
        home: Path,
        notify: Notify,
        watch: Callable[[int], None],
        location: Location | None = None,
    ) -> None:
        self.options = options
        self.home = home
        self.brokers: list[str] = []
        self._inside: dict[str, int] = {}
        self.killed: set[str] = set()
        self.processes: dict[str, ChildProcess] = {}
        self._notify, self._watch, self._location = notify, watch, location
        self._stopping = False
        self._spark: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        # Its own parts exchange keys with this secret, so that no other process can act as one of them.
        secret = options.settings.join_secret or os.environ.get("TOCSIN_JOIN_SECRET") or _join_secret(home)
        parts = ("TOCSIN_", "TOCSIN_BROKER_", "TOCSIN_COORDINATOR_")
        self._secrets = {f"{part}JOIN_SECRET": secret for part in parts}
        (home / "logs").mkdir(parents=True, exist_ok=True)

    @property
    def cluster(self) -> str:
        return self.processes[CLUSTER].url

    @property
    def coordinator(self) -> str:
        return self.processes[COORDINATOR].url

    @property
    def admin_token(self) -> str:
        """The coordinator's, from the same place where that process finds it."""
        return self.options.settings.admin_token or os.environ.get("TOCSIN_COORDINATOR_ADMIN_TOKEN", "")

    @property
    def cluster_token(self) -> str:
        """The operators' token of the data cluster, from the same place where that process finds it."""
        return load(self.options.config).admin_token or (self.home / "cluster" / "admin.token").read_text().strip()

    def url(self, broker: str) -> str:
        return self.processes[broker].url

    def alive(self, broker: str) -> bool:
        return broker in self.processes and self.processes[broker].running

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when every broker has registered with the data cluster and the coordinator; Spark may take longer."""
        began = time.monotonic()
        cluster = self._process(CLUSTER, self._cluster_command(), self._cluster_env())
        self._notify(Status("starting", "Spark"))
        await cluster.start()
        self._watch(cluster.pid)
        await self._until_listening(cluster)
        self._spark = asyncio.create_task(self._start_spark(cluster, began))
        self._tasks.add(self._spark)
        env = variables(self.options.settings) | self._secrets
        await self._start(self._process(COORDINATOR, self._coordinator_command(), env))
        names = [f"broker-{n}" for n in range(1, self.options.brokers + 1)]
        brokers = [await self._broker(name) for name in names]
        self.brokers += names
        await asyncio.gather(*(self._start(broker) for broker in brokers))
        await asyncio.gather(*(broker.wait_for("ready") for broker in brokers))
        await self._forget_old_brokers()

    async def _start(self, process: ChildProcess, kind: str = "up") -> None:
        began = time.monotonic()
        await process.start()
        self._watch(process.pid)
        await self._until_listening(process)
        self._notify(Status(kind, process.name, process.url, time.monotonic() - began))

    async def _until_listening(self, process: ChildProcess) -> None:
        """From now on it keeps its port, also after a restart."""
        await process.wait_for("listening")
        process.command[process.command.index("--port") + 1] = str(urlsplit(process.url).port)

    async def until_spark(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        """Returns when queries can run and ``work`` is done. Spark's failure to start ends both with its error."""
        assert self._spark is not None
        tasks = [self._spark, *([asyncio.create_task(work)] if work is not None else [])]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks[1:]:
                task.cancel()

    async def _start_spark(self, cluster: ChildProcess, began: float) -> None:
        """A data cluster tries forever to start Spark; here the first failure is an error."""
        ready = asyncio.create_task(cluster.wait_for("ready"))
        try:
            async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
                while not ready.done():
                    await asyncio.wait([ready], timeout=0.5)
                    if not ready.done() and cluster.running:
                        error = (await client.get(cluster.url + "/readyz")).json().get("error", {})
                        if error.get("spark") == "dead":
                            log = self.home / "cluster" / "logs" / "spark.log"
                            message = str(error["message"]).removeprefix("Spark is dead: ")
                            raise SystemFailure(message, hint=f"its log is {log}")
            await ready
        except TimeoutError:
            hint = f"its log is {cluster.log}"
            raise SystemFailure(f"Spark did not start within {START_SECONDS:g} s", hint=hint) from None
        except httpx.HTTPError:
            await ready  # the process ended: raises its error
        finally:
            ready.cancel()
        self._notify(Status("up", "Spark", "queries and channels run", time.monotonic() - began))

    async def _forget_old_brokers(self) -> None:
        """Brokers of an earlier run that are not started again would be shown as gone forever."""
        headers = {"authorization": f"Bearer {self.admin_token}"} if self.admin_token else {}
        async with httpx.AsyncClient(base_url=self.coordinator, headers=headers, trust_env=False) as client:
            try:
                known = (await client.get("/topology")).json()["brokers"]
                for name in [each["name"] for each in known if each["name"] not in self.brokers]:
                    await client.delete(f"/brokers/{quote(name, safe='')}")
            except (httpx.HTTPError, KeyError, ValueError):
                return  # only untidy

    # -- processes -----------------------------------------------------------------------------------------------------

    async def start_helper(self, name: str, command: list[str], env: dict[str, str]) -> ChildProcess:
        """A process that is not a part of Tocsin; when it ends, it is not started again."""
        process = self._process(name, command, env)
        self.killed.add(name)
        await process.start()
        self._watch(process.pid)
        return process

    def _process(self, name: str, command: list[str], env: dict[str, str] | None = None) -> ChildProcess:
        log = self.home / "logs" / f"{name.replace(' ', '-')}.log"
        grace = END_SECONDS if name == CLUSTER else GRACE
        self.processes[name] = ChildProcess(name, command, log, env or {}, self._ended, grace)
        return self.processes[name]

    def _port(self, offset: int) -> str:
        return str(self.options.port + offset if self.options.port else 0)

    def _cluster_command(self) -> list[str]:
        where = ["--home", str(self.home / "cluster"), "--host", self.options.host, "--port", self._port(0)]
        config = [] if self.options.config is None else ["--config", self.options.config]
        return [*self.options.cluster, *config, *where, *self._anonymous(), "--json"]

    def _anonymous(self) -> list[str]:
        return ["--anonymous", self.options.anonymous] if self.options.anonymous else []

    def _cluster_env(self) -> dict[str, str]:
        """Spark's temporary files are in the home; the next start removes those of a killed JVM."""
        scratch = self.home / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        options = f'"-Djava.io.tmpdir={scratch}" {os.environ.get("SPARK_SUBMIT_OPTS", "")}'.rstrip()
        env = {"SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", str(scratch)), "SPARK_SUBMIT_OPTS": options}
        if "TOCSIN_TOKEN_KEYS" not in os.environ:
            # A file, because the coordinator starts later, maybe on any free port.
            env["TOCSIN_TOKEN_KEYS"] = str(self.home / "coordinator" / KEYS_FILE)
        return env | self._secrets | ({"TOCSIN_BRIEF": "true"} if self.options.brief else {})

    def _coordinator_command(self) -> list[str]:
        command = [*TOCSIN, "coordinator", "--home", str(self.home / "coordinator"), "--host", self.options.host]
        for name, value in (("--placement", self.options.placement), ("--strategy", self.options.strategy)):
            command += [name, value] if value is not None else []
        return [*command, "--cluster", self.cluster, "--port", self._port(2), "--json"]

    async def _broker(self, name: str) -> ChildProcess:
        number = int(name.rpartition("-")[2])
        command = [*TOCSIN, "broker", "--name", name, "--home", str(self.home / "brokers" / name)]
        command += ["--host", self.options.host, "--port", self._port(1 if number == 1 else number + 2)]
        command += ["--cluster", self.cluster, "--coordinator", self.coordinator, *self._anonymous(), "--json"]
        if self.options.overlay:
            # Known before it starts, and the same when it starts again.
            port = self._inside.setdefault(name, free_port())
            command += ["--inside-port", str(port)]
            first = self._inside["broker-1"]
            command += ["--neighbours", f"http://127.0.0.1:{first}"] if number > 1 else []
        env = self._secrets
        if self._location is not None:
            latitude, longitude = await self._location(number)
            env = env | {"TOCSIN_BROKER_LATITUDE": str(latitude), "TOCSIN_BROKER_LONGITUDE": str(longitude)}
        return self._process(name, command, env)

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def add_broker(self) -> str:
        """Returns its name once it is ready."""
        if len(self.brokers) >= MAX_BROKERS:
            raise LimitExceeded(f"a local deployment has at most {MAX_BROKERS} brokers", limit=MAX_BROKERS)
        name = f"broker-{len(self.brokers) + 1}"
        self.brokers.append(name)
        broker = await self._broker(name)
        try:
            await self._start(broker)
            await broker.wait_for("ready")
        except TocsinError:
            self.killed.add(name)
            await broker.stop()
            raise
        self._notify(Status("added", name, broker.url))
        return name

    async def kill_broker(self, name: str) -> None:
        """At once and for good, as by a power cut."""
        if name not in self.brokers:
            raise NotFound("broker", name, hint=f"there are: {', '.join(self.brokers)}")
        if name in self.killed or not self.processes[name].running:
            raise Conflict(f"{name} is not running")
        self.killed.add(name)
        self.processes[name].kill()
        await self.processes[name].stop()
        self._notify(Status("killed", name))

    # -- restart -------------------------------------------------------------------------------------------------------

    def _ended(self, process: ChildProcess, code: int) -> None:
        if self._stopping or process.name in self.killed or "listening" not in process.events:
            return
        self._notify(Status("ended", process.name, f"code {code}, see {process.log}"))
        self._spawn(self._restart(process))

    async def _restart(self, process: ChildProcess) -> None:
        ran = time.monotonic() - process.started
        failures = self._failures[process.name] = 0 if ran > STABLE else self._failures.get(process.name, -1) + 1
        await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
        if self._stopping or process.name in self.killed:
            return
        try:
            await self._start(process, "again")
        except TocsinError as error:
            self._notify(Status("failed", process.name, error.message))
            if not self._stopping:
                self._spawn(self._restart(process))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Brokers first, so that they can sign off; all processes are gone when this returns."""
        self._stopping = True
        if self._spark is not None and not self._spark.done():
            # A JVM that is starting does not react to a request to end; what was posted is durable in any case.
            self.processes[CLUSTER].kill()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        brokers = [process for name, process in self.processes.items() if name in self.brokers]
        await asyncio.gather(*(process.stop() for process in brokers))
        await asyncio.gather(*(process.stop() for process in self.processes.values() if process not in brokers))

    def kill_all(self) -> None:
        self._stopping = True
        for process in self.processes.values():
            process.kill()


def _join_secret(home: Path) -> str:
    """Kept in the home and readable by its owner only, who may add a broker by hand."""
    file = home / "join.secret"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as opened:
            found = opened.read().strip()
            if not found:
                found = secrets.token_urlsafe(32)
                opened.write(found + "\n")
        return found
    except OSError as error:
        raise StorageError(f"cannot keep the join secret in {file}: {error}", hint="choose another --home") from error


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
