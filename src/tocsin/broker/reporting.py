"""Reports to the coordinator, and carries out what it answers. While it is away, everything else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from tocsin.broker.driver import Driver
from tocsin.broker.events import Ordered
from tocsin.wire.reports import Orders, Registered, Registration
from tocsin.wire.tickets import Wicket

log = logging.getLogger(__name__)

MIN_BACKOFF, MAX_BACKOFF = 0.2, 5.0


class Reporter:
    """``identity`` is what the broker keeps to itself, so that no other one can register under its name."""

    def __init__(
        self, driver: Driver, wicket: Wicket, url: str, identity: str, rng: random.Random | None = None
    ) -> None:
        self.identity = identity
        self.boot = secrets.token_urlsafe(12)
        self.driver = driver
        self.wicket = wicket
        self.url = url
        self.registered = False
        self._token = ""
        self._rng = rng or random.Random()
        self._task: asyncio.Task[None] | None = None
        timeout = httpx.Timeout(10.0)
        self._client = httpx.AsyncClient(base_url=driver.config.coordinator, timeout=timeout, trust_env=False)

    def start(self) -> None:
        self._task = self.driver.loop.create_task(self._run())

    async def leave(self) -> None:
        """The broker stops: nobody is to be placed here any more. One try."""
        if self._task is not None:
            self._task.cancel()
        if self._token:
            path = f"/brokers/{quote(self.driver.config.name, safe='')}/leave"
            with contextlib.suppress(httpx.HTTPError, OSError):
                await self._post(path, {}, self._token)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                about = await self._register()
                failures = 0
                self.registered = True
                await self._report(about)
            except (httpx.HTTPError, OSError, msgspec.DecodeError) as error:
                if failures == 0:
                    log.warning("the coordinator does not answer: %s", error or type(error).__name__)
                failures += 1
            self.registered = False
            longest = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(failures, 20))
            await asyncio.sleep(longest * self._rng.uniform(0.5, 1.0))

    async def _register(self) -> Registered:
        config = self.driver.config
        place = Registration(
            config.name,
            self.url,
            config.secret,
            self.identity,
            config.capacity,
            config.limits.connections,
            config.latitude,
            config.longitude,
            self.boot,
        )
        about = msgspec.json.decode(await self._post("/registerbroker", place), type=Registered)
        self.wicket.key = bytes.fromhex(about.key)
        self._token = about.token
        return about

    async def _report(self, about: Registered) -> None:
        """Until the coordinator fails or does not know this broker any more."""
        path = f"/brokers/{quote(self.driver.config.name, safe='')}/report"
        number, full = 0, True
        while True:
            number += 1
            report = self.driver.state.changes(number, self.driver.loop.time(), full=full)
            try:
                orders = msgspec.json.decode(await self._post(path, report, about.token), type=Orders)
            except BaseException:
                self.driver.state.put_back(report)
                raise
            full = orders.full
            if orders.moves or orders.drop:
                self.driver.handle(Ordered(orders))
            await asyncio.sleep(0.0 if full else about.interval)

    async def _post(self, path: str, body: Any, token: str = "") -> bytes:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        answer = await self._client.post(path, content=msgspec.json.encode(body), headers=headers)
        answer.raise_for_status()
        return answer.content
