"""The coordinator's process: HTTP, the state machine, and the store."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.config import CoordinatorConfig
from tocsin.coordinator.admin import Admin
from tocsin.coordinator.admin_requests import PasswordRequest, PlacementRequest, RolesRequest, StrategyRequest
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.coordinator.event_feed import EventFeed
from tocsin.coordinator.http_views import Viewing, is_browser
from tocsin.coordinator.planner import Planner
from tocsin.coordinator.store import Store, open_store
from tocsin.coordinator.write_behind import WriteBehind
from tocsin.errors import LeaseHeld, NotReady, SystemFailure, Unauthorized, UserError
from tocsin.http.access import Access
from tocsin.http.addresses import Proxies, client_of
from tocsin.http.openapi import document
from tocsin.http.request_handler import handle
from tocsin.http.requests import from_json, from_query, media_type, read_body
from tocsin.http.responses import answer
from tocsin.http.routes import ADMIN, BROKER, OBSERVER, Described, all_routes, route
from tocsin.http.server import WebServer, no_such_path
from tocsin.http.tls import Tls
from tocsin.identity import messages as it
from tocsin.identity.part_keys import PartGate, PartKey
from tocsin.identity.rate_limit import AddressLimit
from tocsin.identity.service import KEYS_FILE, IdentityService
from tocsin.identity.user_store import UserStore
from tocsin.steady_clock import SteadyClock
from tocsin.wire import reports

log = logging.getLogger("tocsin.server")

GRACE = 5
#: What brokers call this part when they join it.
COORDINATOR = "coordinator"
#: Characters of a subscriber in the log and in plans.
PUBLIC_ID = 12
#: Entries of the log or the history that everybody may read at once; the operator may read more.
PUBLIC_ENTRIES = 1_000
BODY_BYTES = 64 * 1024
#: What brokers ask for users.
OF_USERS = (it.Exchange, it.PassedOn)
#: Notes and samples from before the start that the event feed offers.
PAST = 2_000
#: Requests without credentials, and placements among them, in a minute from one address.
REQUESTS, PLACEMENTS = 3_000.0, 600.0


class Since(Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 200


class UsersAfter(Struct, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=1_024)] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


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
        # From the store's secret, so that another machine that takes over has the same key.
        self.key = PartKey(hmac.digest(store.secret, b"part key", "sha256"), f"/{COORDINATOR}")
        self._secret = store.secret
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
        queued = self.persister.queued
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
                    queued.brokers[instruction.row.name] = instruction.row
                case ev.DeleteBroker():
                    queued.brokers[instruction.name] = None
                case ev.SaveChoice():
                    queued.choice = (instruction.choice,)
                case ev.Note():
                    note = structs.replace(instruction, subscriber=self.public_id(instruction.subscriber))
                    queued.notes.append((time.time(), note))
                    self.feed.publish("note", {"time": time.time(), **structs.asdict(note)})
                case ev.Sample():
                    queued.samples.append((time.time(), instruction))
                    self.feed.publish("sample", {"time": time.time(), **structs.asdict(instruction)})
        if isinstance(event, ev.Report | ev.Place | ev.Register):
            self.feed.changed()
        if refused is not None:
            raise refused
        return found

    def public_id(self, subscriber: str) -> str:
        """Tells subscribers apart in what everybody may read; their ids are secrets."""
        digest = hmac.new(self._secret, f"public\0{subscriber}".encode(), "sha256").hexdigest()
        return subscriber and digest[:PUBLIC_ID]

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
        """The reply, once the store has all changes. A store that cannot be written is an error before any of them."""
        await self.persister.check()
        found = self.handle(event)
        await self.persister.flush()
        return found

    async def close(self) -> None:
        for task in self._planning:
            task.cancel()
        self.planner.close()
        await self.persister.close()


class App(Viewing):
    def __init__(
        self, coordinator: Coordinator, admin: Admin, identity: IdentityService, tls: Tls | None = None
    ) -> None:
        super().__init__(coordinator, admin, tls)
        self.gate = PartGate(COORDINATOR, coordinator.key, coordinator.config.join_secret)
        self.identity = identity
        limits, clock = coordinator.config.limits, coordinator.clock
        self._requests = AddressLimit("requests", limits.requests, REQUESTS, clock)
        self._placements = AddressLimit("placements", limits.placements, PLACEMENTS, clock)
        self.router = Router(
            [Route(each.path, self._endpoint(each), methods=[each.method]) for each in ROUTES],
            redirect_slashes=False,
            default=no_such_path,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await handle(self.router, scope, receive, send)

    def _endpoint(self, each: Described) -> Callable[[Request], Awaitable[Response]]:
        """Checks the admin token and reads the body, if the route has these."""
        handler = getattr(self, each.name)
        of_brokers = each.body in (reports.LoadReport, it.Exchange)
        limit = self.coordinator.config.limits.report_bytes if of_brokers else BODY_BYTES

        async def endpoint(request: Request) -> Response:
            if each.who == ADMIN:
                self.admin.check(request.scope["headers"])
            elif each.who == BROKER:
                try:
                    self._check_broker(request)
                except Unauthorized as error:  # a user must not take it for a refusal of its own
                    raise (NotReady(error.message, hint=error.hint) if each.body in OF_USERS else error) from None
            else:
                self._requests.take(client_of(request.scope))
                if each.who == OBSERVER:
                    self.admin.check_view(request.scope["headers"])
            arguments = {} if each.body is None else {"body": await read(request, each.body, limit)}
            found = await handler(request, **arguments)
            return found if isinstance(found, Response) else answer(found)

        return endpoint

    @route("GET /", "the paths", "`coordinator`, `paths`")
    async def index(self, request: Request) -> Any:
        if is_browser(request):
            return await self.to_page(request)
        return {"coordinator": True, "paths": sorted(each.path for each in ROUTES)}

    @route("GET /openapi.json", "this description", "OpenAPI 3.1")
    async def openapi(self, request: Request) -> Any:
        return document("Tocsin coordinator", ROUTES)

    @route("GET /healthz", "whether it is alive", "`status`")
    async def health(self, request: Request) -> Any:
        return {"status": "alive"}

    @route("GET /readyz", "whether it is ready: its store can be written", "`status`")
    async def readiness(self, request: Request) -> Any:
        try:
            await self.coordinator.persister.check()
        except SystemFailure as error:
            raise NotReady(f"the store cannot be written: {error.message}", hint=error.hint) from error
        return {"status": "ready"}

    @route("POST /registerbroker", "a broker registers", reports.Registered, "brokers that know the join secret")
    async def registerbroker(self, request: Request, body: reports.Registration) -> Any:
        if self.coordinator.config.tls_certificate and not body.url.startswith(("https:", "wss:")):
            hint = "set tls_certificate at the broker, or its public_url to the https address of its proxy"
            raise UserError("this coordinator sends subscribers only to brokers with TLS", hint=hint)
        joined = self.gate.admit(body.broker, body.url, body.join, self._key_of(body.broker))
        found = await self.coordinator.handle_durably(ev.Register(None, body))
        return structs.replace(found, joined=joined)

    def _key_of(self, broker: str) -> str:
        member = self.coordinator.state.members.get(broker)
        return member.row.key if member is not None else ""

    def _check_broker(self, request: Request) -> None:
        """A broker that has a key signs its requests with it."""
        key = self._key_of(request.path_params["broker"])
        sender = self.gate.sender(request.scope["headers"], self._key_of) if key else None
        if key and (sender is None or sender.key != key):
            raise Unauthorized("the broker's key did not sign this request", hint="POST /registerbroker")

    @route("POST /requestbroker", "choose the broker of a subscriber", reports.Placement)
    async def requestbroker(self, request: Request, body: reports.BrokerRequest) -> Any:
        self._placements.take(client_of(request.scope))
        return self.coordinator.handle(ev.Place(None, body))

    @route("POST /registeruser", "a new user", it.Changed)
    async def registeruser(self, request: Request, body: it.Register) -> Any:
        return answer(await self._person(request, body), 201)

    @route("POST /login", "begin a session of a user's device", it.Tokens)
    async def login(self, request: Request, body: it.LogIn) -> Any:
        return await self._person(request, body)

    @route("POST /refresh", "another access token for the session", it.Tokens)
    async def refresh(self, request: Request, body: it.Refresh) -> Any:
        return await self._person(request, body)

    @route("POST /changepassword", "change a user's password; all its tokens end", it.Changed)
    async def changepassword(self, request: Request, body: it.ChangePassword) -> Any:
        return await self._person(request, body)

    @route("POST /deleteuser", "delete a user and all that is kept for it", it.Changed)
    async def deleteuser(self, request: Request, body: it.DeleteUser) -> Any:
        return await self._person(request, body)

    @route("POST /logout", "end the session of the token, with its durable subscriptions", it.Changed, "the user")
    async def logout(self, request: Request) -> Any:
        return await self._person(request, it.LogOut(token(request)))

    @route("GET /jwks.json", "the public keys of the tokens (RFC 7517)", "`keys`")
    async def jwks(self, request: Request) -> Any:
        return self.identity.issuer.jwks()

    async def _person(self, request: Request, call: it.AnyCall) -> Any:
        return await self.identity.call(call, client_of(request.scope))

    @route(
        "GET /users", "users by name, the first `limit` after the name `after`", it.UserList, ADMIN, query=UsersAfter
    )
    async def list_users(self, request: Request) -> Any:
        query = from_query(request.scope["query_string"], UsersAfter)
        return await self.identity.users(query.after, query.limit)

    @route("DELETE /users/{user}", "delete a user and all that is kept for it", it.Changed, ADMIN)
    async def delete_user(self, request: Request) -> Any:
        return await self.identity.delete_user(request.path_params["user"])

    @route("PUT /users/{user}/password", "another password for a user; all its tokens end", it.Changed, ADMIN)
    async def put_password(self, request: Request, body: PasswordRequest) -> Any:
        return await self.identity.reset_password(request.path_params["user"], body.password)

    @route("POST /users/{user}/revoke", "end all tokens of a user; what is durable stays", it.Changed, ADMIN)
    async def revoke(self, request: Request) -> Any:
        return await self.identity.revoke(request.path_params["user"])

    @route("PUT /users/{user}/roles", "the roles of a user, in its next tokens", it.Changed, ADMIN)
    async def put_roles(self, request: Request, body: RolesRequest) -> Any:
        return await self.identity.set_roles(request.path_params["user"], body.roles)

    @route("POST /brokers/{broker}/users", "a broker stores and reads what is kept for users", it.Exchanged, BROKER)
    async def users(self, request: Request, body: it.Exchange) -> Any:
        broker = self._broker(request)
        return await self.identity.exchange(
            broker, body, self.coordinator.state.members.serving(self.coordinator.clock())
        )

    @route("POST /brokers/{broker}/identity", "a broker passes a user's request on", "as the request itself", BROKER)
    async def passed_on(self, request: Request, body: it.PassedOn) -> Any:
        self._broker(request)
        return await self.identity.call(body.call, body.address)

    def _broker(self, request: Request) -> str:
        """The broker that asks, by its token. A user must not take its refusal for one of its own."""
        try:
            return self.coordinator.state.members.authenticated(request.path_params["broker"], token(request)).name
        except Unauthorized as error:
            raise NotReady(error.message, hint=error.hint) from error

    @route(
        "POST /brokers/{broker}/report",
        "a broker reports changes and gets migrations to carry out",
        reports.ReportReply,
        BROKER,
    )
    async def report(self, request: Request, body: reports.LoadReport) -> Any:
        return self.coordinator.handle(ev.Report(None, request.path_params["broker"], token(request), body))

    @route("GET /brokers", "brokers that accept subscribers, to measure round trips", reports.BrokerList)
    async def brokers(self, request: Request) -> Any:
        return self.coordinator.handle(ev.ListBrokers(None))

    @route("POST /brokers/{broker}/leave", "a broker stops", "`broker`", BROKER)
    async def leave(self, request: Request) -> Any:
        return self.coordinator.handle(ev.Leave(None, request.path_params["broker"], token(request)))

    @route("POST /brokers/{broker}/drain", "drain a broker", "`broker`, `state`", ADMIN)
    async def drain(self, request: Request) -> Any:
        return await self.coordinator.handle_durably(ev.Drain(None, request.path_params["broker"]))

    @route(
        "POST /brokers/{broker}/undrain", "let a drained broker accept subscribers again", "`broker`, `state`", ADMIN
    )
    async def undrain(self, request: Request) -> Any:
        return await self.coordinator.handle_durably(ev.Drain(None, request.path_params["broker"], undo=True))

    @route("DELETE /brokers/{broker}", "forget a broker that is gone for good", "`broker`", ADMIN)
    async def forget(self, request: Request) -> Any:
        return await self.coordinator.handle_durably(ev.Forget(None, request.path_params["broker"]))

    @route(
        "PUT /strategy", "balance in another way from now on, also after a restart", "`strategy`, `placement`", ADMIN
    )
    async def put_strategy(self, request: Request, body: StrategyRequest) -> Any:
        return await self.coordinator.handle_durably(
            ev.Reconfigure(None, body.strategy, body.settings, components=body.components)
        )

    @route(
        "PUT /placement",
        "place new subscribers in another way from now on, also after a restart",
        "`strategy`, `placement`",
        ADMIN,
    )
    async def put_placement(self, request: Request, body: PlacementRequest) -> Any:
        return await self.coordinator.handle_durably(ev.Reconfigure(None, placement=body.placement))

    def _entries(self, request: Request) -> Since:
        query = from_query(request.scope["query_string"], Since)
        if query.limit > PUBLIC_ENTRIES:
            self.admin.check(request.scope["headers"])
        return query

    @route(
        "GET /history",
        "the newest `limit` samples of the balance (above 1,000: as an operator)",
        "`samples`",
        OBSERVER,
        query=Since,
    )
    async def history(self, request: Request) -> Any:
        query = self._entries(request)
        await self.coordinator.persister.flush()
        return {"samples": await self.coordinator.persister.read(lambda store: store.samples(query.limit))}

    @route(
        "GET /balance/plan",
        "the plan of now, without carrying it out",
        "`strategy`, `before`, `after`, `bound`, `migrations`, `refused`, `deferred`",
        OBSERVER,
    )
    async def plan(self, request: Request) -> Any:
        plan, public_id = await self.coordinator.call(ev.ShowPlan), self.coordinator.public_id
        lists = {
            name: [each | {"subscriber": public_id(each["subscriber"])} for each in plan[name]]
            for name in ("migrations", "refused")
        }
        return plan | lists

    @route(
        "GET /balance/log",
        "the newest `limit` decisions after number `after` (above 1,000: as an operator)",
        "`log`",
        OBSERVER,
        query=Since,
    )
    async def log(self, request: Request) -> Any:
        query = self._entries(request)
        await self.coordinator.persister.flush()
        return {"log": await self.coordinator.persister.read(lambda store: store.log(query.after, query.limit))}


ROUTES = all_routes(App)


def token(request: Request) -> str:
    return request.headers.get("authorization", "").partition(" ")[2]


async def read(request: Request, kind: type[Any], limit: int) -> Any:
    headers = request.scope["headers"]
    media_type(headers, ["application/json"], "application/json")
    return from_json(await read_body(headers, request.receive, limit), kind)


class Server(WebServer):
    def __init__(
        self, config: CoordinatorConfig, sock: socket.socket, announce: Callable[[str], None] = lambda event: None
    ) -> None:
        self.settings = config
        self.sock = sock
        self._lost: LeaseHeld | None = None
        access = Access(sock, config.hosts, config.origins, own=[config.host])
        self.tls = Tls.of(config)
        listening = partial(announce, "listening")
        super().__init__(
            self.answer,
            access,
            grace=GRACE,
            limits=config.http,
            proxies=Proxies(config.trusted_proxies, config.proxy_header),
            listening=listening,
            tls=self.tls.server(),
        )

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def subscribers(self) -> int:
        return self.app.streams.taken

    async def main(self) -> None:
        config = self.settings
        held = contextlib.ExitStack()
        store = open_store(config.home, config.store, config.history)
        held.callback(store.close)
        try:
            file = Path(config.home) / "users.db"
            users = UserStore(
                config.store,
                file,
                config.identity,
                time.time,
                expiry=lambda last: SteadyClock(config.identity.clock_grace, last).expiry,
                lease=True,
            )
            held.callback(users.close)
            identity = IdentityService(users, keys_file=Path(config.home) / KEYS_FILE)
            held.callback(identity.close)
            loop = asyncio.get_running_loop()
            coordinator = Coordinator(config, store, loop.time, self._end)
            admin = Admin(config.admin_token, self.sock, [config.host])
            self.app = App(coordinator, admin, identity, self.tls)
            tasks = [asyncio.create_task(self._tick(coordinator)), asyncio.create_task(identity.maintain())]
            await self.serve([self.sock])
            for task in tasks:
                task.cancel()
            await coordinator.close()
        finally:
            held.close()
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before waiting for connections: an event stream does not end by itself.
        await self.app.close()
        await super().shutdown(sockets)
