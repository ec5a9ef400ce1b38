"""A town as a program sees it: made by ``with``, gone behind it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, TypeVar

from tocsin import config as settings
from tocsin.demo.city_api import CityApp
from tocsin.demo.loop import DemoLoop
from tocsin.errors import UserError
from tocsin.http.server import address, bind
from tocsin.local import preflight
from tocsin.local.janitor import Janitor
from tocsin.local.options import CLUSTER, Options
from tocsin.local.server import App, Server
from tocsin.local.supervisor import MOST_BROKERS, News, Supervisor

T = TypeVar("T")


class LocalDeployment:
    """All runs in a thread of its own; the methods may be called from any other. ``tell`` is called in that thread."""

    def __init__(self, options: Options, tell: Callable[[News], None] = lambda news: None) -> None:
        if not 1 <= options.brokers <= MOST_BROKERS:
            raise UserError(f"a town has 1 to {MOST_BROKERS} brokers, not {options.brokers}")
        self.options = options
        self.home = Path(options.home).absolute() if options.home else Path()
        self.url = ""
        self._tell = tell
        self._held: IO[str] | None = None
        self._janitor: Janitor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None
        self._supervisor: Supervisor | None = None
        self._life: DemoLoop | None = None

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def __enter__(self) -> LocalDeployment:
        with self._ending_on_error():
            self._check()
            if not self.options.home:
                self.home = Path(tempfile.mkdtemp(prefix="tocsin-town-"))
            self._held = preflight.hold(self.home)
            self._janitor = Janitor(self.home if not self.options.home else None)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="town", daemon=True)
            self._thread.start()
            self.call(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing of it is left afterwards. Ctrl-C meanwhile is taken as impatience."""
        if self._loop is not None and self._thread is not None:
            with self._impatience():
                self.call(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
        if self._held is not None:
            self._held.close()
            self._held = None
        if not self.options.home and self.home != Path():
            shutil.rmtree(self.home, ignore_errors=True)
        if self._janitor is not None:
            self._janitor.dismiss()
            self._janitor = None

    def _check(self) -> None:
        options = self.options
        if options.cluster == CLUSTER:
            preflight.check_java()
            preflight.check_memory(settings.load(options.config).driver_memory, options.brokers)
        if options.port:
            preflight.check_ports(options.host, range(options.port, options.port + options.brokers + 2))

    async def _begin(self) -> None:
        sock = bind("127.0.0.1", 0)
        self.url = address(sock)
        assert self._janitor is not None
        self._supervisor = Supervisor(self.options, self.home, self.url, self._tell, self._janitor.watch)
        if self.options.city is None:
            self._server = Server(App(self._supervisor), sock)
            self._server.begin()
            await self._supervisor.start()
            await self._supervisor.until_spark()
            return
        self._life = DemoLoop(self.options.city, self._supervisor, self._tell)
        loop = asyncio.get_running_loop()
        self._supervisor.place = loop.create_future()
        starting = asyncio.create_task(self._supervisor.start())
        try:
            await self._build(self._life)
            self._supervisor.place.set_result(self._life.station)
            self._server = Server(CityApp(self._life), sock)
            self._server.begin()
            await starting
        finally:
            starting.cancel()
        await self._life.begin()

    async def _build(self, life: DemoLoop) -> None:
        began = time.monotonic()
        await asyncio.to_thread(life.build)
        streets = life.city.streets
        text = f"{len(streets.points):,} crossings, {len(streets.edges):,} streets, {len(streets.districts)} districts"
        self._tell(News("up", "city", text, time.monotonic() - began))

    async def _end(self) -> None:
        if self._life is not None:
            await self._life.end()
        if self._server is not None:
            await self._server.end()
            self._server.sock.close()
        if self._supervisor is not None:
            await self._supervisor.stop()

    @contextlib.contextmanager
    def _ending_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._supervisor is not None:
                # Spark that has just begun to start takes its time to end.
                self._tell(News("ending", "what has begun"))
            self.close()
            raise

    @contextlib.contextmanager
    def _impatience(self) -> Iterator[None]:
        def hurry(number: int, frame: FrameType | None) -> None:
            if self._loop is not None and self._supervisor is not None:
                self._loop.call_soon_threadsafe(self._supervisor.kill_all)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, hurry) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What it returns or raises, done in the town's thread."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    # -- what it is and can do -----------------------------------------------------------------------------------------

    @property
    def parts(self) -> Supervisor:
        if self._supervisor is None:
            raise UserError("this town is not running", hint="use it in a with statement")
        return self._supervisor

    @property
    def cluster(self) -> str:
        return self.parts.cluster

    @property
    def coordinator(self) -> str:
        return self.parts.coordinator

    @property
    def brokers(self) -> dict[str, str]:
        """Addresses by name, of those that run."""
        parts = self.parts
        return {name: parts.url(name) for name in parts.brokers if parts.alive(name)}

    @property
    def addresses(self) -> dict[str, Any]:
        return {
            "page": f"{self.coordinator}/ui/",
            "cluster": self.cluster,
            "coordinator": self.coordinator,
            "brokers": self.brokers,
            "town": self.url,
            "home": str(self.home),
        }

    def add_broker(self) -> str:
        """Starts one more; its name, once it is ready."""
        return self.call(self.parts.add_broker())

    def kill_broker(self, name: str) -> None:
        """Kills it as by a power cut; it is not started again."""
        self.call(self.parts.kill_broker(name))

    # -- where there is a city -----------------------------------------------------------------------------------------

    @property
    def life(self) -> DemoLoop:
        if self._life is None:
            raise UserError("this town has no city", hint="give Options a city")
        return self._life

    def run(self, seconds: float) -> dict[str, Any]:
        """Lets so much time pass on this machine, then says what it has come to."""
        time.sleep(max(0.0, seconds))
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """What has happened since the clock began to run; see ``tocsin demo --json`` in the reference."""
        return self.call(self.life.settled())

    def flood(self, district: str) -> dict[str, Any]:
        """Raises a flood in the middle of a district."""

        async def raise_it() -> dict[str, Any]:
            return self.life.flood(district)

        return self.call(raise_it())
