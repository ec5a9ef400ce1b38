"""The exchange with the store of users on asyncio. The coordinator has the store; without one, this broker has it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import msgspec

from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.heartbeat_http import HeartbeatClient
from tocsin.broker.upstream.user_exchange import Found, SendExchange, UntilWoken, UserExchange
from tocsin.config import BrokerConfig
from tocsin.effects import Pause, run_effects
from tocsin.errors import SystemFailure, TocsinError, Unreachable, UserError
from tocsin.identity import messages as it
from tocsin.identity.service import IdentityService
from tocsin.identity.tokens import Claims, Verifier
from tocsin.identity.user_store import UserStore
from tocsin.steady_clock import SteadyClock
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.remote_errors import remote_error

log = logging.getLogger(__name__)

#: Seconds for an exchange: a client that says hello waits for it.
EXCHANGE = 4.0
#: Seconds that a request waits until what it changed is durable.
WRITTEN = 10.0


class Host(Protocol):
    """Where the store of users is."""

    async def exchange(self, asked: it.Exchange) -> it.Exchanged: ...

    async def call(self, call: it.AnyCall, address: str) -> Any: ...


class LocalUsers:
    """A network of one broker, or of several processes on one machine that share the file."""

    def __init__(self, broker: str, service: IdentityService) -> None:
        self._broker, self._service = broker, service
        self._maintenance = asyncio.get_running_loop().create_task(service.maintain())

    @classmethod
    @contextlib.contextmanager
    def opened(cls, config: BrokerConfig) -> Iterator[LocalUsers]:
        store = UserStore(
            "",
            Path(config.home) / "users.db",
            config.identity,
            time.time,
            expiry=lambda last: SteadyClock(config.identity.clock_grace, last).expiry,
        )
        with contextlib.closing(store), contextlib.closing(IdentityService(store)) as service:
            found = cls(config.name, service)
            yield found
            found._maintenance.cancel()

    async def exchange(self, asked: it.Exchange) -> it.Exchanged:
        return await self._service.exchange(self._broker, asked)

    async def call(self, call: it.AnyCall, address: str) -> Any:
        return await self._service.call(call, address)


class CoordinatorUsers:
    """The coordinator has the store for all brokers."""

    def __init__(self, coordinator: HeartbeatClient) -> None:
        self._coordinator = coordinator

    async def exchange(self, asked: it.Exchange) -> it.Exchanged:
        answer = await self._ask("users", asked)
        return msgspec.json.decode(answer.content, type=it.Exchanged)

    async def call(self, call: it.AnyCall, address: str) -> Any:
        return msgspec.Raw((await self._ask("identity", it.PassedOn(call, address))).content)

    async def _ask(self, path: str, body: Any) -> httpx.Response:
        """A refusal is raised as what it says, but for those of this broker itself, which has to register again."""
        if not self._coordinator.heartbeat.registered:
            raise Unreachable("this broker is not registered at the coordinator", hint="try again")
        try:
            answer = await self._coordinator.ask(path, body)
        except (httpx.HTTPError, OSError) as error:
            raise Unreachable(f"the coordinator does not answer: {error or type(error).__name__}") from error
        if answer.is_success:
            return answer
        try:
            problem = answer.json()["error"]
            refusal = remote_error(problem["code"], problem["message"], problem.get("hint", ""))
        except (ValueError, KeyError, TypeError):
            refusal = SystemFailure(f"the coordinator answers with status {answer.status_code}")
        if answer.headers.get("retry-after", "").isdigit():
            refusal.fields["retry_after"] = int(answer.headers["retry-after"])
        raise refusal


class Users:
    def __init__(self, driver: Driver, host: Host) -> None:
        self.host = host
        self._woken = asyncio.Event()
        self.exchange = UserExchange(
            driver.state.users,
            Verifier(time.time, driver.config.identity.clock_skew),
            driver.handle,
            time.time,
            self._woken.set,
            random.Random(),
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(run_effects(self.exchange.run(), self._perform))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with contextlib.suppress(TocsinError, TimeoutError):
                async with asyncio.timeout(EXCHANGE):
                    await self.host.exchange(self.exchange.flush())

    async def authenticate(self, token: str) -> tuple[Claims, list[DurableSubscription]]:
        """Whose token it is, and what is durable for the session. Unauthorized is raised only if it is not valid."""
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.exchange.restore(token, lambda found: None if future.done() else future.set_result(found))
        found = await future
        if found.claims is None:
            assert found.problem is not None
            raise found.problem
        return found.claims, found.durable

    async def call(self, call: it.AnyCall, address: str) -> Any:
        """A request of a person."""
        return await self.host.call(call, address)

    async def written(self) -> None:
        """Returns when what was to be stored is durable."""
        try:
            async with asyncio.timeout(WRITTEN):
                await self.exchanged()
        except TimeoutError as error:
            hint = "repeat the request"
            raise Unreachable("the store of users does not answer: this is not durable yet", hint=hint) from error

    async def exchanged(self) -> None:
        """Returns after the next exchange."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exchange.written(lambda: None if future.done() else future.set_result(None))
        await future

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, UntilWoken):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(effect.seconds):
                    await self._woken.wait()
            return None
        assert isinstance(effect, SendExchange)
        self._woken.clear()
        try:
            async with asyncio.timeout(EXCHANGE):
                return await self.host.exchange(effect.exchange)
        except (UserError, SystemFailure, TimeoutError, msgspec.DecodeError) as error:
            if not self.exchange.away:
                log.warning("the store of users does not answer: %s", error or type(error).__name__)
            if isinstance(error, UserError):
                raise Refused(error.to_dict(), error.status) from error
            raise Lost(str(error)) from error
