"""The coordinator's process: HTTP, the state machine, and the store."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import secrets
import socket
import time
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.config import CoordinatorConfig
from tocsin.coordinator.admin import Admin
from tocsin.coordinator.admin_requests import PlacementRequest, StrategyRequest
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.coordinator.event_feed import EventFeed
from tocsin.coordinator.http_views import Viewing, is_browser
from tocsin.coordinator.planner import Planner
from tocsin.coordinator.routes import ROUTES
from tocsin.coordinator.store import Store, open_store
from tocsin.coordinator.write_behind import WriteBehind
from tocsin.errors import Busy, LeaseHeld, SystemFailure, Unauthorized
from tocsin.http.passwords import hash_password
from tocsin.http.request_handler import handle
from tocsin.http.requests import check_origin, from_json, from_query, media_type, read_body
from tocsin.http.responses import answer
from tocsin.http.server import WebServer, no_such_path
from tocsin.wire import reports

log = logging.getLogger("tocsin.server")

GRACE = 5
BODY_BYTES = 64 * 1024
#: Passwords that are hashed, or wait to be, at the same time.
HASHING = 64
#: Notes and samples from before the start that the event feed offers.
PAST = 2_000


class Since(Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 200


class Coordinator:
    """Drives the state machine: every request is an event, and its Reply the response."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: Store,
        clock: Callable[[], float],
        lost: Callable[[LeaseHeld], None] = lambda error: None,
    ) -> None:
        self.config = config
        self.persister = WriteBehind(store, lost)
        self.clock = clock
        self.state = CoordinatorState(
            config, store.secret, random.Random(), time.time, lambda: secrets.token_urlsafe(12), offloaded=True
        )
        self.planner = Planner()
        self._planning: set[asyncio.Task[None]] = set()
        self.feed = EventFeed()
        for kind, row in store.newest(PAST):
            self.feed.publish(kind, row)
        self.handle(ev.Restored(store.brokers(), store.choice()))

    def handle(self, event: ev.Event) -> Any:
        """The body of the reply; raises the error of a refusal. A call that is a future gets its own result."""
        found: Any = None
        refused: Exception | None = None
        for instruction in self.state.handle(event, self.clock()):
            match instruction:
                case ev.Reply(call=asyncio.Future() as call):
                    if not call.done():
                        call.set_result(instruction.body)
                case ev.Refuse(call=asyncio.Future() as call):
                    if not call.done():
                        call.set_exception(instruction.error)
                case ev.RequestPlan():
                    task = asyncio.get_running_loop().create_task(self._plan(instruction))
                    self._planning.add(task)
                    task.add_done_callback(self._planning.discard)
                case ev.Reply():
                    found = instruction.body
                case ev.Refuse():
                    refused = instruction.error
                case ev.SaveBroker():
                    self.persister.broker(instruction.row.name, instruction.row)
                case ev.DeleteBroker():
                    self.persister.broker(instruction.name, None)
                case ev.SaveChoice():
                    self.persister.choice(instruction.choice)
                case ev.Note():
                    self.persister.note(time.time(), instruction)
                    self.feed.publish("note", {"time": time.time(), **structs.asdict(instruction)})
                case ev.Sample():
                    self.persister.sample(time.time(), instruction)
                    self.feed.publish("sample", {"time": time.time(), **structs.asdict(instruction)})
        if isinstance(event, ev.Report | ev.Place | ev.Register):
            self.feed.changed()
        if refused is not None:
            raise refused
        return found

    async def call(self, event: Callable[[ev.Call], ev.Event]) -> Any:
        """The reply of an event that may take long."""
        call: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.handle(event(call))
        return await call

    async def _plan(self, instruction: ev.RequestPlan) -> None:
        plan = None
        try:
            plan = await self.planner.plan(instruction.request)
        except Exception as error:
            # A failing strategy must not stop reports and placements.
            log.error("no plan: %s", error, exc_info=None if isinstance(error, SystemFailure) else error)
        self.handle(ev.PlanReady(instruction.number, plan))

    async def handle_durably(self, event: ev.Event) -> Any:
        """The reply, once the store has all changes."""
        found = self.handle(event)
        await self.persister.flush()
        return found

    async def close(self) -> None:
        for task in self._planning:
            task.cancel()
        self.planner.close()
        await self.persister.close()


class App(Viewing):
    def __init__(self, coordinator: Coordinator, admin: Admin) -> None:
        super().__init__(coordinator, admin)
        self._hashing = 0
        self.router = Router(
            [Route(each.path, getattr(self, each.name), methods=[each.method]) for each in ROUTES],
            redirect_slashes=False,
            default=no_such_path,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await handle(self.router, scope, receive, send)

    async def index(self, request: Request) -> Response:
        if is_browser(request):
            return await self.to_page(request)
        return answer({"coordinator": True, "paths": sorted(each.path for each in ROUTES)})

    async def health(self, request: Request) -> Response:
        return answer({"status": "alive"})

    async def registerbroker(self, request: Request) -> Response:
        return answer(
            await self.coordinator.handle_durably(ev.Register(None, await body(request, reports.Registration)))
        )

    async def requestbroker(self, request: Request) -> Response:
        return answer(self.coordinator.handle(ev.Place(None, await body(request, reports.BrokerRequest))))

    async def brokers(self, request: Request) -> Response:
        return answer(self.coordinator.handle(ev.ListBrokers(None)))

    async def report(self, request: Request) -> Response:
        limit = self.coordinator.config.limits.report_bytes
        found = await body(request, reports.LoadReport, limit)
        token = request.headers.get("authorization", "").partition(" ")[2]
        return answer(self.coordinator.handle(ev.Report(None, request.path_params["broker"], token, found)))

    async def leave(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").partition(" ")[2]
        return answer(self.coordinator.handle(ev.Leave(None, request.path_params["broker"], token)))

    async def registeruser(self, request: Request) -> Response:
        who, read = await body(request, reports.User), self.coordinator.persister.read
        salt, known, subscriber = await read(lambda store: store.user(who.user))
        hashed = await self._hash(who.password, salt)
        if known is None:
            subscriber = await read(lambda store: store.add_user(who.user, salt, hashed, subscriber))
        elif not hmac.compare_digest(known, hashed):
            raise Unauthorized("wrong user name or password")
        return answer(reports.UserRegistered(who.user, subscriber))

    async def _hash(self, password: str, salt: bytes) -> bytes:
        """Hashing is slow on purpose: it runs in a thread, and for a limited number at the same time."""
        if self._hashing >= HASHING:
            raise Busy("too many users are registering", hint="try again in a second")
        self._hashing += 1
        try:
            return await asyncio.to_thread(hash_password, password, salt)
        finally:
            self._hashing -= 1

    async def drain(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        return answer(await self.coordinator.handle_durably(ev.Drain(None, request.path_params["broker"])))

    async def undrain(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        return answer(await self.coordinator.handle_durably(ev.Drain(None, request.path_params["broker"], undo=True)))

    async def forget(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        return answer(await self.coordinator.handle_durably(ev.Forget(None, request.path_params["broker"])))

    async def put_strategy(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        request_body = await body(request, StrategyRequest)
        return answer(
            await self.coordinator.handle_durably(ev.Reconfigure(None, request_body.strategy, request_body.settings))
        )

    async def put_placement(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        request_body = await body(request, PlacementRequest)
        return answer(await self.coordinator.handle_durably(ev.Reconfigure(None, placement=request_body.placement)))

    async def history(self, request: Request) -> Response:
        query = from_query(request.scope["query_string"], Since)
        await self.coordinator.persister.flush()
        return answer({"samples": await self.coordinator.persister.read(lambda store: store.samples(query.limit))})

    async def plan(self, request: Request) -> Response:
        return answer(await self.coordinator.call(ev.ShowPlan))

    async def log(self, request: Request) -> Response:
        query = from_query(request.scope["query_string"], Since)
        await self.coordinator.persister.flush()
        return answer({"log": await self.coordinator.persister.read(lambda store: store.log(query.after, query.limit))})


async def body(request: Request, kind: type[Any], limit: int = BODY_BYTES) -> Any:
    headers = request.scope["headers"]
    check_origin(headers)
    media_type(headers, ["application/json"], "application/json")
    return from_json(await read_body(headers, request.receive, limit), kind)


class Server(WebServer):
    def __init__(
        self, config: CoordinatorConfig, sock: socket.socket, announce: Callable[[str], None] = lambda event: None
    ) -> None:
        self.settings = config
        self.sock = sock
        self.announce = announce
        self._lost: LeaseHeld | None = None
        super().__init__(self.answer, grace=GRACE)

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    async def main(self) -> None:
        config = self.settings
        store = open_store(config.home, config.store, config.history, config.limits.users)
        try:
            loop = asyncio.get_running_loop()
            coordinator = Coordinator(config, store, loop.time, self._end)
            self.app = App(coordinator, Admin(config.admin_token, self.sock, [config.host]))
            ticking = asyncio.create_task(self._tick(coordinator))
            await self.serve([self.sock])
            ticking.cancel()
            await coordinator.close()
        finally:
            store.close()
        if self._lost is not None:
            raise self._lost

    def _end(self, error: LeaseHeld) -> None:
        """Another coordinator has taken over."""
        self._lost = error
        self.should_exit = True

    @staticmethod
    async def _tick(coordinator: Coordinator) -> None:
        while True:
            await asyncio.sleep(1.0)
            try:
                coordinator.handle(ev.Tick())
            except Exception:
                log.exception("a tick failed")
            await coordinator.persister.retry()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announce("listening")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before waiting for connections: an event stream does not end by itself.
        await self.app.close()
        await super().shutdown(sockets)

    def serve_until_stopped(self) -> None:
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self.main())
