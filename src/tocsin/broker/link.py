"""The road to the data cluster over HTTP. Whatever fails there is tried again; only what it refuses is a problem."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from tocsin.broker import instructions as do
from tocsin.broker.driver import Driver
from tocsin.broker.events import (
    Dropped,
    FetchEarly,
    Fetched,
    FetchGap,
    Inherited,
    Line,
    Problem,
    Published,
    PublishFailed,
    Pulled,
    Returned,
    Unwanted,
    Wanted,
)
from tocsin.web.calling import Caller

log = logging.getLogger(__name__)

MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0
#: Lines asked for in one fetch, and bytes after which it is cut short.
FETCH_LINES, FETCH_BYTES = 256, 1 << 20
#: Seconds of silence after which a request has failed.
TIMEOUT = 60.0
#: Seconds between two looks at what exists there.
LOOK = 5.0


as_line = msgspec.json.Decoder(Line).decode


class _Enough(Exception):
    """What was fetched is enough for now."""


class Refused(Exception):
    """The data cluster answered, and said no."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", f"status {status}"))
        self.status = status
        self.error = error

    @property
    def problem(self) -> Problem:
        error = self.error
        return Problem(str(error.get("code", "refused")), str(error.get("message", "")), str(error.get("hint", "")))

    def no(self, kind: str) -> bool:
        """Whether it says that there is none of this kind by that name."""
        return self.status == 404 and self.error.get("kind") == kind


class Link:
    """Carries out what the state machine wants of the data cluster, and tells it what exists there."""

    def __init__(self, driver: Driver, told_url: str, rng: random.Random | None = None) -> None:
        self.driver = driver
        self.name = driver.config.name
        self.told_url = told_url
        self.registered = asyncio.Event()
        self.settled = asyncio.Event()
        self.last_error: str | None = None
        self._rng = rng or random.Random()
        self._tasks: set[asyncio.Task[None]] = set()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(
            base_url=driver.config.cluster, limits=limits, timeout=httpx.Timeout(TIMEOUT, connect=5.0), trust_env=False
        )
        self._caller = Caller(driver.config.cluster)

    def start(self) -> None:
        self._spawn(self._look())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._caller.close()
        await self._client.aclose()

    def carry_out(self, instruction: do.Want | do.Unwant | do.Pull | do.Fetch | do.Commit) -> None:
        match instruction:
            case do.Want():
                self._spawn(self._want(instruction))
            case do.Unwant():
                self._spawn(self._unwant(instruction))
            case do.Pull():
                self._spawn(self._pull(instruction))
            case do.Fetch():
                self._spawn(self._fetch(instruction))
            case do.Commit():
                self._spawn(self._commit(instruction))

    def _spawn(self, work: Any) -> None:
        task = self.driver.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the link failed", exc_info=task.exception())

    # -- what exists there

    async def _look(self) -> None:
        first = True
        while True:
            # What is told from here on waits until it is known whether something before it was lost.
            self.settled.clear()
            returned = await self._registered()
            if not first and not returned:
                self.settled.set()
            # Before looking: what is subscribed to meanwhile may be newer than what is seen.
            state = self.driver.state
            mine = {name: channel.epoch for name, channel in state.channels.items() if channel.backs}
            channels = (await self._insist(lambda: self._get("/channels")))["channels"]
            positions = {each["name"]: each["last_execution"] for each in channels}
            if first:
                for each in channels:
                    await self._inherit(each["name"], each["last_execution"], each.get("epoch", 0))
                self.registered.set()
            known = {each["name"].lower(): each.get("epoch", 0) for each in channels}
            for name, epoch in mine.items():
                if name not in known or (epoch and known[name] != epoch):
                    self.driver.handle(Dropped(name, epoch))
            if returned:  # the first time too: something may have been subscribed to before it was registered
                self.driver.handle(Returned(positions))
            self.settled.set()
            first = False
            await asyncio.sleep(LOOK)

    async def _registered(self) -> bool:
        """Whether the data cluster had given this broker up, or may have: it says so once, and answers get lost."""
        tries = 0

        async def register() -> Any:
            nonlocal tries
            tries += 1
            return await self._register()

        returned: bool = (await self._insist(register))["returned"]
        if returned:
            log.warning("the data cluster had declared this broker gone")
        return returned or tries > 1

    async def _register(self) -> Any:
        return await self._json("PUT", f"/brokers/{quote(self.name, safe='')}", {"url": self.told_url})

    async def _inherit(self, channel: str, position: int, epoch: int) -> None:
        after = 0
        while True:
            path = f"/channels/{quote(channel, safe='')}/subscriptions?after={after}&limit=1000"
            path += f"&broker={quote(self.name, safe='')}"
            try:
                found = (await self._insist(lambda path=path: self._get(path)))["subscriptions"]  # type: ignore[misc]
            except Refused:
                return
            subscriptions = [(each["subscription"], each["args"]) for each in found]
            self.driver.handle(Inherited(channel, subscriptions, position, epoch))
            if len(found) < 1000:
                return
            after = found[-1]["subscription"]

    # -- subscriptions

    async def _want(self, it: do.Want) -> None:
        self.driver.handle(Wanted(it.channel, *await self._subscribe(it.channel, it.args)))

    async def _subscribe(self, channel: str, args: list[Any]) -> tuple[list[int | Problem], int, int]:
        """Numbers or problems, the position, and the epoch."""
        body = {"broker": self.name, "subscriptions": args}
        path = f"/channels/{quote(channel, safe='')}/subscriptions"
        try:
            answer = await self._insist(lambda: self._json("POST", path, body))
            return answer["subscriptions"], answer["position"], answer.get("epoch", 0)
        except Refused as error:
            if error.no("broker"):
                await self._insist(self._register)
                return await self._subscribe(channel, args)
            if error.no("channel") or len(args) == 1:
                return [error.problem] * len(args), 0, 0
        # One of them is wrong, and nobody else is to suffer for it.
        half = len(args) // 2
        left, first, epoch = await self._subscribe(channel, args[:half])
        right, second, later = await self._subscribe(channel, args[half:])
        # Made anew in between: the older one's are told to be gone when the newer one is heard of.
        return left + right, max(first, second), min(epoch or later, later or epoch)

    async def _unwant(self, it: do.Unwant) -> None:
        await self.registered.wait()  # nothing is let go that may be on the list of what is inherited
        await self._unsubscribe(it.channel, it.subscriptions)
        self.driver.handle(Unwanted(it.channel))

    async def _unsubscribe(self, channel: str, numbers: list[int]) -> None:
        body = {"broker": self.name, "subscriptions": numbers}
        path = f"/channels/{quote(channel, safe='')}/unsubscribe"
        try:
            await self._insist(lambda: self._json("POST", path, body))
        except Refused as error:
            if error.no("subscription") and len(numbers) > 1:
                half = len(numbers) // 2
                await self._unsubscribe(channel, numbers[:half])
                await self._unsubscribe(channel, numbers[half:])

    # -- results

    async def _pull(self, it: do.Pull) -> None:
        path = f"/channels/{quote(it.channel, safe='')}/executions/{it.execution}/results"
        path += f"?broker={quote(self.name, safe='')}"

        async def pull() -> None:
            rest = b""

            def take(piece: bytes) -> None:
                nonlocal rest
                *whole, rest = (rest + piece).split(b"\n")
                if whole:
                    lines = [as_line(text) for text in whole]
                    self.driver.handle(Pulled(it.channel, it.execution, lines, last=False, epoch=it.epoch))

            await self._stream(path, take)

        try:
            await self._insist(pull)
        except Refused as error:
            # Expired or dropped: who missed it will be told so when it asks.
            log.info("execution %s of %s cannot be had: %s", it.execution, it.channel, error)
            if error.no("channel"):
                self.driver.handle(Dropped(it.channel, it.epoch))
            else:
                self.driver.handle(Returned({it.channel: it.execution}, it.epoch))
        self.driver.handle(Pulled(it.channel, it.execution, [], epoch=it.epoch))

    async def _fetch(self, it: do.Fetch) -> None:
        path = f"/channels/{quote(it.channel, safe='')}/subscriptions/{it.subscription}"
        begin = 0
        if it.begin:
            try:
                begin = (await self._insist(lambda: self._get(path)))["begins_after"]
            except Refused as error:  # nobody has it any more, or nobody ever again
                log.info("where %s begins cannot be had: %s", path, error)
            if begin is None:
                self.driver.handle(FetchEarly(it.job))
                return
        results = f"{path}/results?after={it.after}&limit={FETCH_LINES}&strict=true"

        async def fetch() -> tuple[list[Line], bool]:
            lines: list[Line] = []
            rest, size = b"", 0

            def take(piece: bytes) -> None:
                nonlocal lines, rest, size
                *whole, rest = (rest + piece).split(b"\n")
                lines += [as_line(text) for text in whole]
                size += len(piece)
                if size >= FETCH_BYTES and lines:
                    raise _Enough

            try:
                await self._stream(results, take)
            except _Enough:
                return lines, True
            return lines, len(lines) >= FETCH_LINES

        try:
            lines, more = await self._insist(fetch)
        except Refused as error:
            if error.no("execution") and "first" in error.error:
                self.driver.handle(FetchGap(it.job, int(error.error["first"])))
            else:
                self.driver.handle(Fetched(it.job, []))
                if error.no("channel"):
                    self.driver.handle(Dropped(it.channel))
            return
        self.driver.handle(Fetched(it.job, lines, more, begin))

    # -- publishing

    async def _commit(self, it: do.Commit) -> None:
        path = f"/feeds/{quote(it.feed, safe='')}"
        body = b"\n".join([bytes(record).replace(b"\n", b" ") for record in it.records])
        # With a key a post whose answer was lost can be repeated.
        headers = {"content-type": "application/x-ndjson", "idempotency-key": secrets.token_hex(16)}

        async def post() -> Any:
            answer = await self._client.post(path, content=body, headers=headers)
            _check(answer.status_code, answer.content)
            return answer.json()

        try:
            receipt = await self._insist(post)
        except Refused as error:
            self.driver.handle(PublishFailed(it.feed, error.problem))
            return
        refused = [(each["index"], each["code"], each["reason"]) for each in receipt["refused"]]
        self.driver.handle(Published(it.feed, refused))

    # -- HTTP

    async def channels(self) -> list[dict[str, Any]]:
        """What can be subscribed to, as the data cluster describes it. One try."""
        found: list[dict[str, Any]] = (await self._get("/channels"))["channels"]
        return found

    async def _get(self, path: str) -> Any:
        answer = await self._client.get(path)
        _check(answer.status_code, answer.content)
        return answer.json()

    async def _json(self, method: str, path: str, body: Any) -> Any:
        headers = {"content-type": "application/json"}
        answer = await self._client.request(method, path, content=msgspec.json.encode(body), headers=headers)
        _check(answer.status_code, answer.content)
        return answer.json()

    async def _stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Results: frequent, and nothing of them is looked at."""
        status, refusal = await self._caller.get(path, take, TIMEOUT)
        _check(status, refusal)

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        failures = 0
        while True:
            try:
                found = await call()
            except (httpx.HTTPError, httpx.StreamError, OSError, msgspec.DecodeError) as error:
                failures += 1
                if self.last_error is None:
                    log.warning("the data cluster does not answer: %s", error or type(error).__name__)
                self.last_error = str(error) or type(error).__name__
                longest = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(failures - 1, 20))
                await asyncio.sleep(longest * self._rng.uniform(0.5, 1.0))
            else:
                if self.last_error is not None:
                    log.warning("the data cluster answers again")
                self.last_error = None
                return found


def _check(status: int, content: bytes) -> None:
    if 200 <= status < 300:
        return
    try:
        error = msgspec.json.decode(content)["error"]
    except (msgspec.DecodeError, KeyError, TypeError):
        error = {"message": f"status {status}"}
    if 400 <= status < 500 and status not in (408, 425, 429):
        raise Refused(status, error)
    raise OSError(str(error.get("message")))
