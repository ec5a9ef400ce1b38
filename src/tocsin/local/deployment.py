"""All parts on one machine, as a context manager."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeVar

from tocsin import config as settings
from tocsin.coordinator.admin import Admin
from tocsin.errors import UserError
from tocsin.http.server import address, bind
from tocsin.local import preflight
from tocsin.local.janitor import Janitor
from tocsin.local.options import CLUSTER, Options
from tocsin.local.server import LocalApp, Server
from tocsin.local.supervisor import MAX_BROKERS, Location, Notify, Status, Supervisor

#: The page's port, counted from the first one.
PAGE = 3

T = TypeVar("T")


class LocalDeployment:
    """Runs in a separate thread, which calls ``notify``; the methods may be called from any other thread.

    An application that runs on top of it gives its brokers a ``location`` and its web server more routes (``app``).
    It can begin while Spark is still starting: ``wait_for_spark=False``.
    """

    def __init__(
        self,
        options: Options,
        notify: Notify = lambda status: None,
        *,
        app: Callable[[Supervisor, Admin], LocalApp] = LocalApp,
        location: Location | None = None,
        wait_for_spark: bool = True,
    ) -> None:
        if not 1 <= options.brokers <= MAX_BROKERS:
            raise UserError(f"a local deployment has 1 to {MAX_BROKERS} brokers, not {options.brokers}")
        self.options = options
        self.home = Path(options.home).absolute() if options.home else Path()
        self.url = ""
        self._notify, self._app, self._location = notify, app, location
        self._wait_for_spark = wait_for_spark
        self._lock: IO[str] | None = None
        self._janitor: Janitor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None
        self._supervisor: Supervisor | None = None

    # -- start and stop ------------------------------------------------------------------------------------------------

    def __enter__(self) -> LocalDeployment:
        with self.closing_on_error():
            self._check()
            if not self.options.home:
                self.home = Path(tempfile.mkdtemp(prefix="tocsin-local-"))
            self._lock = preflight.lock(self.home)
            self._janitor = Janitor(self.home if not self.options.home else None)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="deployment", daemon=True)
            self._thread.start()
            self.call(self._start(self._janitor))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops everything. Ctrl-C meanwhile kills what has not ended yet."""
        if self._loop is not None and self._thread is not None:
            with self._killing_on_signal():
                self.call(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
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
            preflight.check_ports(options.host, ports(options.port, options.brokers))

    async def _start(self, janitor: Janitor) -> None:
        options = self.options
        sock = bind(options.host, options.port + PAGE if options.port else 0)
        self.url = address(sock)
        self._supervisor = Supervisor(options, self.home, self._notify, janitor.watch, self._location)
        admin = Admin(self._supervisor.admin_token, sock, [options.host])
        self._server = Server(self._app(self._supervisor, admin), sock, options.host)
        await self._supervisor.start()
        self._server.start()
        self._notify(Status("up", "page", self.page))
        if self._wait_for_spark:
            await self._supervisor.until_spark()

    async def _stop(self) -> None:
        # The server last: by then the streams that it forwards from the coordinator have ended.
        if self._server is not None:
            await self._server.app.stop()
        if self._supervisor is not None:
            await self._supervisor.stop()
        if self._server is not None:
            await self._server.stop()

    @contextlib.contextmanager
    def closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._supervisor is not None:
                # Stopping takes a while, most of all a Spark that is just starting.
                self._notify(Status("stopping", "what has started"))
            self.close()
            raise

    @contextlib.contextmanager
    def _killing_on_signal(self) -> Iterator[None]:
        def kill(number: int, frame: FrameType | None) -> None:
            if self._loop is not None and self._supervisor is not None:
                self._loop.call_soon_threadsafe(self._supervisor.kill_all)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, kill) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs ``work`` in the deployment's thread; returns its result or raises its error."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    # -- addresses and actions -----------------------------------------------------------------------------------------

    @property
    def supervisor(self) -> Supervisor:
        if self._supervisor is None:
            raise UserError("this deployment is not running", hint="use it in a with statement")
        return self._supervisor

    @property
    def cluster(self) -> str:
        return self.supervisor.cluster

    @property
    def cluster_token(self) -> str:
        return self.supervisor.cluster_token

    @property
    def coordinator(self) -> str:
        return self.supervisor.coordinator

    @property
    def page(self) -> str:
        return f"{self.url}/ui/"

    @property
    def brokers(self) -> dict[str, str]:
        """Addresses by name, of those that run."""
        supervisor = self.supervisor
        return {name: supervisor.url(name) for name in supervisor.brokers if supervisor.alive(name)}

    @property
    def addresses(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "cluster": self.cluster,
            "coordinator": self.coordinator,
            "brokers": self.brokers,
            "local": self.url,
            "home": str(self.home),
        }

    def add_broker(self) -> str:
        """Starts one more broker; returns its name once it is ready."""
        return self.call(self.supervisor.add_broker())

    def kill_broker(self, name: str) -> None:
        """Kills it as by a power cut; it is not started again."""
        self.call(self.supervisor.kill_broker(name))


def ports(first: int, brokers: int) -> range:
    """All ports of a deployment, if its data cluster has the ``first``."""
    return range(first, first + brokers + 3)
