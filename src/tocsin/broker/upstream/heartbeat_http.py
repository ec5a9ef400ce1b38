"""The heartbeat over HTTP."""

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

from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream.effects import Lost
from tocsin.broker.upstream.heartbeat import Heartbeat, RegisterBroker, registration
from tocsin.effects import Pause, run_effects
from tocsin.errors import Unauthorized
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import Peer
from tocsin.wire.join import Joined
from tocsin.wire.reports import Registered, Registration, ReportReply
from tocsin.wire.tickets import TicketVerifier

log = logging.getLogger(__name__)


class HeartbeatClient:
    def __init__(
        self,
        driver: Driver,
        tickets: TicketVerifier,
        url: str,
        peer: Peer,
        tls: Tls,
        rng: random.Random | None = None,
        inside: str = "",
    ) -> None:
        self.driver = driver
        self.peer = peer
        config = driver.config
        self.heartbeat = Heartbeat(
            driver.state.load_reports,
            registration(config, url, secrets.token_urlsafe(12), inside),
            tickets,
            driver.handle,
            driver.loop.time,
            rng or random.Random(),
        )
        self._silent = False
        self._task: asyncio.Task[None] | None = None
        self._client = httpx.AsyncClient(
            base_url=config.coordinator, timeout=httpx.Timeout(10.0), trust_env=False, verify=tls.client()
        )

    def start(self) -> None:
        self._task = self.driver.loop.create_task(run_effects(self.heartbeat.run(), self._perform))

    async def leave(self) -> None:
        """The broker stops: no subscriber is placed here any more. One try."""
        if self._task is not None:
            self._task.cancel()
        if self.heartbeat.token:
            with contextlib.suppress(httpx.HTTPError, OSError):
                await self._post(f"{self._path}/leave", {}, self.heartbeat.token)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.seconds)
        try:
            if isinstance(effect, RegisterBroker):
                found: Any = await self._register(effect.registration)
            else:
                body = await self._post(f"{self._path}/report", effect.report, effect.token)
                found = msgspec.json.decode(body, type=ReportReply)
        except (httpx.HTTPError, OSError, msgspec.DecodeError, Unauthorized) as error:
            if not self._silent:
                log.warning("this broker cannot report to the coordinator: %s", error or type(error).__name__)
            self._silent = True
            raise Lost(str(error)) from error
        self._silent = False
        return found

    async def _register(self, registration: Registration) -> Registered:
        join = self.peer.join(registration.url)
        body = await self._post("/registerbroker", msgspec.structs.replace(registration, join=join))
        found = msgspec.json.decode(body, type=Registered)
        self.peer.joined(join, found.joined or Joined(""))
        return found

    @property
    def _path(self) -> str:
        return f"/brokers/{quote(self.driver.config.name, safe='')}"

    async def ask(self, path: str, body: Any) -> httpx.Response:
        """A request of this broker beside the heartbeat, with the token of its registration."""
        return await self._send(f"{self._path}/{path}", body, self.heartbeat.token)

    async def _post(self, path: str, body: Any, token: str = "") -> bytes:
        answer = await self._send(path, body, token)
        if answer.is_error:
            raise OSError(answer.text[:500])
        return answer.content

    async def _send(self, path: str, body: Any, token: str) -> httpx.Response:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        content, more = msgspec.json.encode(body), self.peer.headers
        return await self._client.post(path, content=content, headers=headers | more)
