"""Starts the parts, starts those again that end by themselves, adds brokers, kills them, ends all."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from msgspec import Struct

from tocsin.config import variables
from tocsin.errors import Conflict, LimitExceeded, NotFound, SystemTrouble, TocsinError
from tocsin.local.options import Options
from tocsin.local.process import PATIENCE, PartProcess

CLUSTER, COORDINATOR = "data cluster", "coordinator"
MOST_BROKERS = 64
#: Seconds until Spark has to be up.
START_SECONDS = 300.0
#: Seconds that the data cluster has to end: the first time, Spark's JVM writes down what the next start needs.
END_SECONDS = 60.0
#: Seconds before a part that ended is started again, growing up to the last one.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Seconds after which a part that runs is forgiven its earlier ends.
FORGIVEN = 60.0
TOCSIN = (sys.executable, "-m", "tocsin.cli")


class News(Struct, frozen=True):
    """``kind``: starting, up, ended, again, killed, added, failed, note, ending. ``seconds``: how long it took."""

    kind: str
    part: str
    text: str = ""
    seconds: float = 0.0


class Supervisor:
    """``brokers`` are names by number, those that were killed included: a number stays its broker's."""

    def __init__(
        self, options: Options, home: Path, town: str, tell: Callable[[News], None], watch: Callable[[int], None]
    ) -> None:
        self.options = options
        self.home = home
        self.brokers: list[str] = []
        self.killed: set[str] = set()
        self.parts: dict[str, PartProcess] = {}
        self.changed = asyncio.Event()
        self._town = town
        #: Latitude and longitude of a broker, by its number from 1; where they are is known a little later.
        self.place: asyncio.Future[Callable[[int], tuple[float, float]]] | None = None
        self._tell, self._watch = tell, watch
        self._stopping = False
        self._spark: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        (home / "logs").mkdir(parents=True, exist_ok=True)

    @property
    def cluster(self) -> str:
        return self.parts[CLUSTER].url

    @property
    def coordinator(self) -> str:
        return self.parts[COORDINATOR].url

    def url(self, broker: str) -> str:
        return self.parts[broker].url

    def alive(self, broker: str) -> bool:
        return broker in self.parts and self.parts[broker].running

    # -- the beginning -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when every broker is known to the data cluster and to the coordinator; Spark may take longer."""
        began = time.monotonic()
        cluster = self._part(CLUSTER, self._cluster_words(), self._cluster_env())
        self._tell(News("starting", "Spark"))
        await cluster.begin()
        self._watch(cluster.pid)
        await self._listens(cluster)
        self._spark = asyncio.create_task(self._starts(cluster, began))
        self._tasks.add(self._spark)
        coordinator = self._part(COORDINATOR, self._coordinator_words(), variables(self.options.settings))
        await self._begin(coordinator)
        names = [f"broker-{n}" for n in range(1, self.options.brokers + 1)]
        parts = [await self._broker_part(name) for name in names]
        self.brokers += names
        await asyncio.gather(*(self._begin(part) for part in parts))
        await asyncio.gather(*(part.said("ready") for part in parts))
        await self._forget_strangers()

    async def _begin(self, part: PartProcess) -> None:
        began = time.monotonic()
        await part.begin()
        self._watch(part.pid)
        await self._listens(part)
        self._tell(News("up", part.name, part.url, time.monotonic() - began))

    async def _listens(self, part: PartProcess) -> None:
        """From now on it has its port, also after a restart."""
        await part.said("listening")
        part.words[part.words.index("--port") + 1] = str(urlsplit(part.url).port)

    async def until_spark(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        """Returns when queries can run and ``work`` is done, which ends with an error if Spark does not start."""
        assert self._spark is not None
        tasks = [self._spark, *([asyncio.create_task(work)] if work is not None else [])]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks[1:]:
                task.cancel()

    async def _starts(self, cluster: PartProcess, began: float) -> None:
        """A data cluster tries for ever to start Spark; here the first failure is told."""
        ready = asyncio.create_task(cluster.said("ready"))
        try:
            async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(trust_env=False) as client:
                while not ready.done():
                    await asyncio.wait([ready], timeout=0.5)
                    if not ready.done() and cluster.running:
                        trouble = (await client.get(cluster.url + "/readyz")).json().get("error", {})
                        if trouble.get("spark") == "dead":
                            log = self.home / "cluster" / "logs" / "spark.log"
                            said = str(trouble["message"]).removeprefix("Spark is dead: ")
                            raise SystemTrouble(said, hint=f"its log is {log}")
            await ready
        except TimeoutError:
            hint = f"its log is {cluster.log}"
            raise SystemTrouble(f"Spark did not start within {START_SECONDS:g} s", hint=hint) from None
        except httpx.HTTPError:
            await ready  # it ended, and says why
        finally:
            ready.cancel()
        self._tell(News("up", "Spark", "queries and channels run", time.monotonic() - began))

    async def _forget_strangers(self) -> None:
        """Brokers of an earlier life that are not started again would be shown as gone for ever."""
        token = os.environ.get("TOCSIN_COORDINATOR_ADMIN_TOKEN", "")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(base_url=self.coordinator, headers=headers, trust_env=False) as client:
            try:
                found = (await client.get("/topology")).json()["brokers"]
                for name in [each["name"] for each in found if each["name"] not in self.brokers]:
                    await client.delete(f"/brokers/{quote(name, safe='')}")
            except (httpx.HTTPError, KeyError, ValueError):
                return  # it only looks untidy

    # -- the parts -----------------------------------------------------------------------------------------------------

    async def begin_helper(self, name: str, words: list[str], env: dict[str, str]) -> PartProcess:
        """A process of the town that is none of Tocsin's parts; when it ends it stays so."""
        part = self._part(name, words, env)
        self.killed.add(name)
        await part.begin()
        self._watch(part.pid)
        return part

    def _part(self, name: str, words: list[str], env: dict[str, str] | None = None) -> PartProcess:
        log = self.home / "logs" / f"{name.replace(' ', '-')}.log"
        patience = END_SECONDS if name == CLUSTER else PATIENCE
        self.parts[name] = PartProcess(name, words, log, env or {}, self._ended, patience)
        return self.parts[name]

    def _port(self, place: int) -> str:
        return str(self.options.port + place if self.options.port else 0)

    def _cluster_words(self) -> list[str]:
        where = ["--home", str(self.home / "cluster"), "--host", self.options.host, "--port", self._port(0)]
        config = [] if self.options.config is None else ["--config", self.options.config]
        return [*self.options.cluster, *config, *where, "--json"]

    def _cluster_env(self) -> dict[str, str]:
        """What Spark writes for a while lies in the home: a JVM that is killed leaves it, and here it is found."""
        scratch = self.home / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        options = f'"-Djava.io.tmpdir={scratch}" {os.environ.get("SPARK_SUBMIT_OPTS", "")}'.rstrip()
        env = {"SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", str(scratch)), "SPARK_SUBMIT_OPTS": options}
        return env | ({"TOCSIN_BRIEF": "true"} if self.options.brief else {})

    def _coordinator_words(self) -> list[str]:
        words = [*TOCSIN, "coordinator", "--home", str(self.home / "coordinator"), "--host", self.options.host]
        for name, value in (("--placement", self.options.placement), ("--strategy", self.options.strategy)):
            words += [name, value] if value is not None else []
        words += ["--cluster", self.cluster, "--town", self._town]
        return [*words, "--port", self._port(2), "--json"]

    async def _broker_part(self, name: str) -> PartProcess:
        number = int(name.rpartition("-")[2])
        words = [*TOCSIN, "broker", "--name", name, "--home", str(self.home / "brokers" / name)]
        words += ["--host", self.options.host, "--port", self._port(1 if number == 1 else number + 1)]
        words += ["--cluster", self.cluster, "--coordinator", self.coordinator, "--json"]
        env = {}
        if self.place is not None:
            lat, lon = (await self.place)(number)
            env = {"TOCSIN_BROKER_LATITUDE": str(lat), "TOCSIN_BROKER_LONGITUDE": str(lon)}
        return self._part(name, words, env)

    # -- what can be done ----------------------------------------------------------------------------------------------

    async def add_broker(self) -> str:
        """Its name, once it is ready."""
        if len(self.brokers) >= MOST_BROKERS:
            raise LimitExceeded(f"a town has at most {MOST_BROKERS} brokers", limit=MOST_BROKERS)
        name = f"broker-{len(self.brokers) + 1}"
        self.brokers.append(name)
        part = await self._broker_part(name)
        try:
            await self._begin(part)
            await part.said("ready")
        except TocsinError:
            self.killed.add(name)
            await part.end()
            raise
        self._tell(News("added", name, part.url))
        self.changed.set()
        return name

    async def kill_broker(self, name: str) -> None:
        """At once and for good, as by a power cut."""
        if name not in self.brokers:
            raise NotFound("broker", name, hint=f"there are: {', '.join(self.brokers)}")
        if name in self.killed or not self.parts[name].running:
            raise Conflict(f"{name} is not running")
        self.killed.add(name)
        self.parts[name].kill()
        await self.parts[name].end()
        self._tell(News("killed", name))
        self.changed.set()

    # -- what happens --------------------------------------------------------------------------------------------------

    def _ended(self, part: PartProcess, code: int) -> None:
        if self._stopping or part.name in self.killed or "listening" not in part.heard:
            return
        self._tell(News("ended", part.name, f"code {code}, see {part.log}"))
        self._spawn(self._again(part))

    async def _again(self, part: PartProcess) -> None:
        ran = time.monotonic() - part.began
        failures = self._failures[part.name] = 0 if ran > FORGIVEN else self._failures.get(part.name, -1) + 1
        await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
        if self._stopping or part.name in self.killed:
            return
        began = time.monotonic()
        await part.begin()
        self._watch(part.pid)
        try:
            await part.said("listening")
        except TocsinError as error:
            self._tell(News("failed", part.name, error.message))
            if not self._stopping:
                self._spawn(self._again(part))
        else:
            self._tell(News("again", part.name, part.url, time.monotonic() - began))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Brokers first, so that they can take their leave; all are gone when this returns."""
        self._stopping = True
        if self._spark is not None and not self._spark.done():
            # A JVM that is starting cannot be asked to end; and what was posted is durable, whatever comes.
            self.parts[CLUSTER].kill()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        brokers = [part for name, part in self.parts.items() if name in self.brokers]
        await asyncio.gather(*(part.end() for part in brokers))
        await asyncio.gather(*(part.end() for part in self.parts.values() if part not in brokers))

    def kill_all(self) -> None:
        self._stopping = True
        for part in self.parts.values():
            part.kill()
