"""The upstream protocol over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import FeedColumn, GrantsChanged, Line
from tocsin.broker.core.model.be_subscription import Channel
from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream import protocol
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.protocol import UpstreamProtocol
from tocsin.effects import Effects, Pause, run_effects
from tocsin.errors import NotFound, Unauthorized
from tocsin.http.client import HttpClient
from tocsin.http.tls import Tls
from tocsin.identity.grants import GrantTable
from tocsin.identity.part_keys import Peer
from tocsin.wire.feed_name import feed_of
from tocsin.wire.join import Joined
from tocsin.wire.position import Position

log = logging.getLogger(__name__)

#: Lines asked for in one fetch, and bytes after which it is cut short.
FETCH_LINES, FETCH_BYTES = 256, 1 << 20
#: Seconds of silence after which a request has failed.
TIMEOUT = 60.0
#: Seconds that the data cluster waits for a change of the grants before it answers.
GRANTS_WAIT = 25


as_line = msgspec.json.Decoder(Line).decode


class _Enough(Exception):
    """What was fetched is enough for now."""


class UpstreamClient:
    """Carries out the state machine's commands to the data cluster."""

    def __init__(self, driver: Driver, notify_url: str, peer: Peer, tls: Tls, rng: random.Random | None = None) -> None:
        self.driver = driver
        self.peer, self._tls = peer, tls
        self.name = driver.config.name
        self.notify_url = notify_url
        self.registered = asyncio.Event()
        self.settled = asyncio.Event()
        self.last_error: str | None = None
        self.protocol = UpstreamProtocol(
            driver.handle,
            self._channels,
            rng or random.Random(),
            settle=lambda settled: self.settled.set() if settled else self.settled.clear(),
            ready=self.registered.set,
        )
        #: Channels that are none of the data cluster's, and what learns of its live feeds.
        self.is_live: Callable[[str], object] = lambda channel: False
        self.on_feeds: Callable[[list[dict[str, Any]]], None] = lambda feeds: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._without_grants = self._alone = False
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(
            base_url=driver.config.cluster,
            limits=limits,
            timeout=httpx.Timeout(TIMEOUT, connect=5.0),
            trust_env=False,
            verify=tls.client(),
        )
        self._caller = HttpClient(driver.config.cluster, tls.client)

    def start(self) -> None:
        self._spawn(self.protocol.poll())
        if self.driver.config.anonymous != "all":
            self._spawn(self.protocol.follow_grants())

    def alone(self) -> None:
        """There is no data cluster: nothing is recovered, nothing can be missed, and what is asked of it is refused."""
        self._alone = True
        self.driver.handle(GrantsChanged(GrantTable()))
        self.settled.set()
        self.registered.set()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._caller.close()
        await self._client.aclose()

    def carry_out(self, command: do.Upstream) -> None:
        self._spawn(self.protocol.carry_out(command))

    def _spawn(self, effects: Effects[None]) -> None:
        task = self.driver.loop.create_task(run_effects(effects, self._perform))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the upstream client failed", exc_info=task.exception())

    # -- effects

    async def _perform(self, effect: Any) -> Any:
        if type(effect) is Pause:
            return await asyncio.sleep(effect.seconds)
        if type(effect) is protocol.UntilRegistered:
            return await self.registered.wait()
        try:
            found = await self._ask(effect)
        except Refused as error:
            if type(effect) is protocol.Register and self.last_error != str(error):
                log.error("the data cluster refuses this broker: %s (%s)", error, error.problem.hint)
                self.last_error = str(error)
            if type(effect) is protocol.FetchGrants and not self._without_grants:
                self._without_grants = True
                log.error("the data cluster does not show this broker the grants: %s (%s)", error, error.problem.hint)
            log.info("the data cluster refuses to %s: %s", type(effect).__name__.lower(), error)
            if error.status == 401 and type(effect) is not protocol.Register:
                raise Lost(str(error)) from error  # it does not know this broker's key until the next registration
            raise
        except (httpx.HTTPError, httpx.StreamError, OSError, msgspec.DecodeError) as error:
            if self.last_error is None:
                log.warning("the data cluster does not answer: %s", error or type(error).__name__)
            self.last_error = str(error) or type(error).__name__
            raise Lost(self.last_error) from error
        if self.last_error is not None:
            log.warning("the data cluster answers again")
        self.last_error = None
        return found

    async def _ask(self, command: Any) -> Any:
        if self._alone:
            missing = _nowhere(command)
            raise Refused(missing.to_dict(), missing.status)
        match command:
            case do.Pull():
                return await self._pull(command)
            case do.Fetch():
                return await self._fetch(command)
            case do.Subscribe():
                answer = await self._json("POST", f"{_path(command.channel)}/subscriptions", self._body(command.args))
                position = Position(answer.get("epoch", 0), answer["position"])
                columns = msgspec.convert(answer.get("columns", []), tuple[FeedColumn, ...])
                return protocol.SubscribeAnswer(answer["subscriptions"], position, columns)
            case do.Unsubscribe():
                body = self._body(command.subscriptions)
                return await self._json("POST", f"{_path(command.channel)}/unsubscribe", body)
            case do.Publish():
                return await self._publish(command)
            case protocol.Register():
                return await self._register()
            case protocol.ListChannels():
                await self._feeds()
                return [
                    protocol.ChannelState(
                        each["name"],
                        Position(each.get("epoch", 0), each["last_execution"]),
                        msgspec.convert(each["columns"] if each.get("kind") == "feed" else [], tuple[FeedColumn, ...]),
                    )
                    for each in await self.channels()
                ]
            case protocol.FetchGrants():
                path = f"/grants?version={quote(command.version)}&wait={GRANTS_WAIT}"
                return msgspec.convert(await self._json("GET", path), GrantTable)
            case protocol.ListSubscriptions():
                query = f"after={command.after_id}&limit={protocol.PAGE}&broker={quote(self.name, safe='')}"
                answer = await self._json("GET", f"{_path(command.channel)}/subscriptions?{query}")
                return [(each["subscription"], each["args"]) for each in answer["subscriptions"]]
            case protocol.FindBegin():
                path = f"{_path(command.channel)}/subscriptions/{command.subscription}"
                return (await self._json("GET", path))["begins_after"]
        raise AssertionError(command)

    def _channels(self) -> dict[str, Channel]:
        """Those of the data cluster."""
        found = self.driver.state.be_subscriptions.channels
        return {name: channel for name, channel in found.items() if not self.is_live(name)}

    async def _feeds(self) -> None:
        """A data cluster of before live feeds has no list of them."""
        with contextlib.suppress(Refused):
            self.on_feeds((await self._json("GET", "/feeds"))["feeds"])

    async def _register(self) -> bool:
        join = self.peer.join(self.notify_url)
        body = {"url": self.notify_url, "join": join}
        answer = await self._json("PUT", f"/brokers/{quote(self.name, safe='')}", body)
        try:
            self.peer.joined(join, msgspec.convert(answer.get("joined") or {"key": ""}, Joined))
        except Unauthorized as error:
            raise Refused(error.to_dict(), error.status) from error
        if answer["returned"]:
            log.warning("the data cluster had declared this broker gone")
        return bool(answer["returned"])

    def _body(self, subscriptions: list[Any]) -> dict[str, Any]:
        return {"broker": self.name, "subscriptions": subscriptions}

    async def _pull(self, command: do.Pull) -> None:
        rest = b""

        def take(piece: bytes) -> None:
            nonlocal rest
            *whole, rest = (rest + piece).split(b"\n")
            if whole:
                self.protocol.pulled(command, [as_line(text) for text in whole])

        path = f"{_path(command.channel)}/executions/{command.position.execution}/results"
        await self._stream(f"{path}?broker={quote(self.name, safe='')}", take)

    async def _fetch(self, command: do.Fetch) -> tuple[list[Line], bool]:
        lines: list[Line] = []
        rest, size = b"", 0

        def take(piece: bytes) -> None:
            nonlocal lines, rest, size
            *whole, rest = (rest + piece).split(b"\n")
            lines += [as_line(text) for text in whole]
            size += len(piece)
            if size >= FETCH_BYTES and lines:
                raise _Enough

        path = f"{_path(command.channel)}/subscriptions/{command.subscription}/results"
        query = f"after={command.position.execution}&limit={FETCH_LINES}&strict=true"
        if command.same_as is not None:
            query += f"&same_as={command.same_as}"
        try:
            await self._stream(f"{path}?{query}", take)
        except _Enough:
            return lines, True
        return lines, len(lines) >= FETCH_LINES

    async def _publish(self, command: do.Publish) -> list[tuple[int, str, str]]:
        body = b"\n".join([bytes(record).replace(b"\n", b" ") for record in command.records])
        # With a key a post whose answer was lost can be repeated.
        headers = {"content-type": "application/x-ndjson", "idempotency-key": command.key} | self.peer.headers
        answer = await self._client.post(f"/feeds/{quote(command.feed, safe='')}", content=body, headers=headers)
        _check(answer.status_code, answer.content)
        return [(each["index"], each["code"], each["reason"]) for each in answer.json()["refused"]]

    # -- HTTP

    async def channels(self) -> list[dict[str, Any]]:
        """What can be subscribed to, as the data cluster describes it. One try."""
        if self._alone:
            return []
        found: list[dict[str, Any]] = (await self._json("GET", "/channels"))["channels"]
        return found

    async def _json(self, method: str, path: str, body: Any = None) -> Any:
        self._tls.client()  # which the client holds: reads its files again if they have changed
        content = None if body is None else msgspec.json.encode(body)
        headers = {"content-type": "application/json"} if content else {}
        answer = await self._client.request(method, path, content=content, headers=headers | self.peer.headers)
        _check(answer.status_code, answer.content)
        return answer.json()

    async def _stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Results: frequent, and nothing of them is looked at."""
        status, refusal = await self._caller.get(path, take, TIMEOUT, self.peer.headers)
        _check(status, refusal)


def _path(channel: str) -> str:
    return f"/channels/{quote(channel, safe='')}"


def _nowhere(command: Any) -> NotFound:
    """What the command names is no live feed of the broker, and there is nothing else."""
    feed = command.feed if isinstance(command, do.Publish) else feed_of(command.channel)
    hint = "this broker has no data cluster: it serves only the live feeds of its configuration"
    return NotFound("channel", command.channel, hint=hint) if feed is None else NotFound("feed", feed, hint=hint)


def _check(status: int, content: bytes) -> None:
    if 200 <= status < 300:
        return
    try:
        error = msgspec.json.decode(content)["error"]
    except (msgspec.DecodeError, KeyError, TypeError):
        error = {"message": f"status {status}"}
    if 400 <= status < 500 and status not in (408, 425, 429):
        raise Refused(error, status)
    raise OSError(str(error.get("message")))
