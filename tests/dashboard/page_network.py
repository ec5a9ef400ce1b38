"""A network with a small city, and its page in a real browser."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coordinator_lab import Coordinator, coordinator
from playwright.sync_api import Browser, Page, TimeoutError
from small_city import SmallCity

from sparkless import Sparkless, sparkless
from tocsin.coordinator.admin import Admin
from tocsin.http.server import address, bind
from tocsin.local.server import Server

#: Milliseconds: to read the pixels of a canvas at every frame takes more than to draw them.
POLLING = 100
ARTIFACTS = Path(__file__).parent.parent.parent / "artifacts" / "dashboard"
#: Short intervals, so that tests see changes within a second.
FAST: dict[str, Any] = {"interval": 0.3, "balance_every": 1.0, "gone_after": 10.0, "limits": {"cool_down": 2.0}}


class Network:
    """``city`` runs in its own event loop; ``do`` runs work in it. ``url``: the page with the city panel."""

    def __init__(self, running: Coordinator, city: SmallCity, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.coordinator, self.city, self._loop = running, city, loop
        self.url = f"{url}/ui/"

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)


@contextmanager
def network(folder: Path, *, people: int = 24, crowd: int = 0, brokers: int = 3, **settings: Any) -> Iterator[Network]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(120)

    sock = bind("127.0.0.1", 0)
    try:
        with (
            sparkless(folder / "data") as (cluster, url),
            coordinator(folder / "coordinator", cluster=url, **FAST | settings) as running,
        ):
            city = do(make(folder, cluster, url, running.url, people, crowd, sock))
            server = Server(city, sock, "127.0.0.1")
            do(start(server, city, brokers))
            try:
                yield Network(running, city, address(sock), loop)
            finally:
                do(city.stop())
                do(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def make(
    folder: Path, cluster: Sparkless, url: str, coordinator: str, people: int, crowd: int, sock: socket.socket
) -> SmallCity:
    """Makes the city in the event loop that will serve it."""
    return SmallCity(folder, cluster, url, coordinator, people, crowd, Admin("", sock))


async def start(server: Server, city: SmallCity, brokers: int) -> None:
    server.start()
    await city.start(brokers)


class CheckedPage:
    """A page and its errors: console messages, failed requests, and requests to other servers."""

    def __init__(self, browser: Browser, url: str, *, expected: tuple[str, ...] = (), **options: Any) -> None:
        options = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.errors: list[str] = []
        self.expected = expected
        here = url.removesuffix("/ui/")
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self._failed(request.url, str(request.failure)))
        self.page.on(
            "request", lambda request: request.url.startswith(here) or self.errors.append(f"elsewhere: {request.url}")
        )
        self.page.goto(url)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text} {message.location.get('url')}")

    def _failed(self, url: str, failure: str) -> None:
        # The page itself ended the request.
        if "ERR_ABORTED" not in failure:
            self.errors.append(f"failed: {url} {failure}")

    def close(self) -> None:
        self.page.remove_listener("console", self._console)
        self.context.close()
        errors = [each for each in self.errors if not any(words in each for words in self.expected)]
        assert not errors, errors


def shoot(page: Page, name: str, **options: Any) -> None:
    """Saves a screenshot of the state that the test saw."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(ARTIFACTS / f"{name}.png"), **options)


def text(page: Page, selector: str) -> str:
    return page.locator(selector).inner_text()


def repeat(page: Page, act: Callable[[], None], script: str, *args: Any) -> None:
    """Acts again until the script returns true in the page."""
    for _ in range(20):
        act()
        try:
            page.wait_for_function(script, arg=list(args), polling=POLLING, timeout=6_000)
        except TimeoutError:
            continue
        return
    until(page, script, *args)


def until(page: Page, script: str, *args: Any) -> None:
    """Waits until the script returns true in the page."""
    page.wait_for_function(script, arg=list(args), polling=POLLING)
