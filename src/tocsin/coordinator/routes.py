"""The coordinator's routes, for the server and for the reference page."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from tocsin.coordinator.admin_requests import PlacementRequest, StrategyRequest
from tocsin.wire import reports


class Described(NamedTuple):
    """``name`` is that of the method that answers; ``answer`` a struct, or the names of the fields."""

    method: str
    path: str
    name: str
    meaning: str
    body: type[Struct] | None = None
    answer: type[Struct] | str = ""
    who: str = "anybody"


BROKER = "the broker, with its token"
ADMIN = "the admin token; without one only this machine"

ROUTES = [
    Described("GET", "/", "index", "the paths", answer="`coordinator`, `paths`"),
    Described("GET", "/healthz", "health", "whether it is alive", answer="`status`"),
    Described("GET", "/readyz", "health", "whether it is ready", answer="`status`"),
    Described(
        "POST",
        "/registerbroker",
        "registerbroker",
        "a broker registers",
        reports.Registration,
        reports.Registered,
        "who knows the secret",
    ),
    Described(
        "POST",
        "/requestbroker",
        "requestbroker",
        "choose the broker of a subscriber",
        reports.BrokerRequest,
        reports.Placement,
    ),
    Described(
        "POST",
        "/registeruser",
        "registeruser",
        "a user gets its subscriber",
        reports.User,
        reports.UserRegistered,
    ),
    Described(
        "POST",
        "/brokers/{broker}/report",
        "report",
        "a broker reports changes and gets migrations to carry out",
        reports.LoadReport,
        reports.ReportReply,
        BROKER,
    ),
    Described(
        "GET",
        "/brokers",
        "brokers",
        "brokers that accept subscribers, to measure round trips",
        None,
        reports.BrokerList,
    ),
    Described("POST", "/brokers/{broker}/leave", "leave", "a broker stops", answer="`broker`", who=BROKER),
    Described("POST", "/brokers/{broker}/drain", "drain", "drain a broker", answer="`broker`, `state`", who=ADMIN),
    Described(
        "POST",
        "/brokers/{broker}/undrain",
        "undrain",
        "let a drained broker accept subscribers again",
        None,
        "`broker`, `state`",
        ADMIN,
    ),
    Described(
        "DELETE", "/brokers/{broker}", "forget", "forget a broker that is gone for good", None, "`broker`", ADMIN
    ),
    Described(
        "GET",
        "/topology",
        "topology",
        "brokers, load, balance, migrations; with `wait` as soon as the version differs from it, within 25 s",
        answer="`version`, `time`, `brokers`, `subscribers`, `cov`, `mean`, `maximum`, `bound`, `pending`, `strategy`, "
        "`placement`",
    ),
    Described(
        "GET",
        "/events",
        "events",
        "what happens, as it happens (Server-Sent Events); the newest `backlog` notes and samples first",
        answer="`note`, `sample`, `topology`, `hello`, `gap`",
    ),
    Described("GET", "/strategy", "strategy", "how load is balanced", answer="`strategy`, `settings`, `known`"),
    Described(
        "PUT",
        "/strategy",
        "put_strategy",
        "balance in another way from now on, also after a restart",
        StrategyRequest,
        "`strategy`, `placement`",
        ADMIN,
    ),
    Described("GET", "/placement", "placement", "how new subscribers are placed", answer="`placement`, `known`"),
    Described(
        "PUT",
        "/placement",
        "put_placement",
        "place new subscribers in another way from now on, also after a restart",
        PlacementRequest,
        "`strategy`, `placement`",
        ADMIN,
    ),
    Described("GET", "/history", "history", "the newest `limit` samples of the balance", answer="`samples`"),
    Described(
        "GET",
        "/balance/plan",
        "plan",
        "the plan of now, without carrying it out",
        answer="`strategy`, `before`, `after`, `bound`, `migrations`, `refused`, `deferred`",
    ),
    Described("GET", "/balance/log", "log", "the newest `limit` decisions after number `after`", answer="`log`"),
    Described("GET", "/cluster/channels", "channels", "the channels of the data cluster", answer="what that answers"),
    Described(
        "GET",
        "/cluster/channels/{channel}/executions",
        "channels",
        "what a channel has found",
        answer="what that answers",
    ),
    Described("GET", "/ui", "to_page", "sends a browser to the page", answer=""),
    Described("GET", "/ui/{path:path}", "page", "the page for watching and operating", answer="a file"),
]

#: The bodies, in the order in which they are shown; the parts of one come after it.
BODIES: list[type[Struct]] = [
    reports.Registration,
    reports.Registered,
    reports.BrokerRequest,
    reports.Placement,
    reports.BrokerList,
    reports.BrokerAddress,
    reports.User,
    reports.UserRegistered,
    reports.LoadReport,
    reports.FailedMigration,
    reports.ReportReply,
    reports.MigrationOrder,
    StrategyRequest,
    PlacementRequest,
]
