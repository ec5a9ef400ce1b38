"""The typed configuration: the file template, the environment names and the reference are made from it."""

from __future__ import annotations

import os
import tomllib
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from tocsin.errors import UserError

#: Bytes of a message that every broker accepts: a client sends no larger frames before the welcome.
LEAST_FRAME = 8 * 1024


def about(meaning: str, **bounds: Any) -> Meta:
    """A setting's meaning, and what its values must fulfil."""
    return Meta(description=meaning, **bounds)


#: What clients without a token may do.
Anonymous = Literal["", "all", "none"]
#: In which header proxies name the client.
ProxyHeader = Literal["x-forwarded-for", "forwarded"]


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all parts that listen have in common."""

    join_secret: Annotated[
        str,
        about(
            "a secret that all parts of a network have in common, with which they exchange their keys; required when "
            "the part listens beyond loopback"
        ),
    ] = ""
    tls_certificate: Annotated[
        str, about("file with the certificate (PEM, with its chain); '' for no TLS; read again when it changes")
    ] = ""
    tls_key: Annotated[str, about("file with the private key; '' if it is in the file of the certificate")] = ""
    tls_ca: Annotated[
        str, about("file with the authorities that other parts are verified with; '' for the system's")
    ] = ""
    tls_client_ca: Annotated[
        str,
        about(
            "file with the authorities of client certificates: the data cluster and the inner port of a broker then "
            "accept only clients with a certificate of theirs"
        ),
    ] = ""
    hosts: Annotated[
        tuple[str, ...],
        about(
            "names in the Host header that are accepted besides those of loopback; empty: any name if `host` is not "
            "loopback"
        ),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        about("origins (`https://app.example.org`) of web pages that may send requests; `*` for all"),
    ] = ()
    trusted_proxies: Annotated[
        tuple[str, ...],
        about(
            "addresses and networks (`10.1.0.0/16`) of proxies that clients come through: limits by address then count "
            "the address in their header"
        ),
    ] = ()
    proxy_header: Annotated[
        ProxyHeader, about("the header that these proxies set; they must not pass on a client's own")
    ] = "x-forwarded-for"


class HttpLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a server waits for its clients, and for how many of them."""

    head_seconds: Annotated[float, about("seconds for the head of a request", gt=0)] = 20.0
    body_seconds: Annotated[float, about("seconds for the body of a request, beside `body_rate`", gt=0)] = 30.0
    body_rate: Annotated[float, about("bytes of a body that must come in a second, on average", gt=0)] = 4096.0
    idle_seconds: Annotated[int, about("seconds that a connection without a request is kept", gt=0)] = 75
    write_seconds: Annotated[float, about("seconds in which a client must read some of a response", gt=0)] = 30.0
    waiting: Annotated[
        int,
        about(
            "most connections that wait for a request or its body; beyond them, or if files are few, the one that "
            "waits longest is closed",
            ge=1,
        ),
    ] = 4_096
    requests: Annotated[
        int,
        about("most requests that are answered at the same time; fewer if the process may open few files", ge=1),
    ] = 10_000


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a request."""

    request_bytes: Annotated[int, about("largest request body, after decompression")] = 64 * 1024 * 1024
    records: Annotated[int, about("maximum number of records in one post")] = 200_000
    record_bytes: Annotated[int, about("largest single record")] = 1024 * 1024
    json_depth: Annotated[int, about("maximum nesting of a JSON record")] = 32
    parameters: Annotated[int, about("maximum number of parameters of a channel, function or procedure")] = 32
    name_length: Annotated[int, about("maximum length of a name")] = 128
    columns: Annotated[int, about("maximum number of columns of a dataset")] = 1_000
    statement_bytes: Annotated[int, about("maximum length of a script")] = 4 * 1024 * 1024
    subscriptions_per_request: Annotated[int, about("maximum number of subscriptions in one request")] = 50_000
    argument_bytes: Annotated[int, about("maximum bytes of the arguments of one subscription, as JSON")] = 4 * 1024
    channel_argument_bytes: Annotated[
        int, about("maximum bytes of the arguments of all subscriptions of a channel; they are in Spark's memory")
    ] = 64 * 1024 * 1024
    query_rows: Annotated[int, about("maximum number of rows of a query")] = 1_000_000


class ClusterConfig(ServerConfig, frozen=True, forbid_unknown_fields=True):
    """One data cluster."""

    home: Annotated[str, about("folder of the SQLite catalog and, by default, of the segments")] = "tocsin-data"
    catalog: Annotated[str, about("'' for SQLite in home, or a postgresql:// address")] = ""
    segments: Annotated[str, about("'' for home/segments, or any path or URL that Spark can read")] = ""
    host: Annotated[str, about("address to listen on")] = "127.0.0.1"
    port: Annotated[int, about("port to listen on; 0 takes a free one")] = 8480
    master: Annotated[str, about("Spark master")] = "local[*]"
    driver_memory: Annotated[str, about("memory of the Spark driver")] = "2g"
    spark: Annotated[dict[str, str], about("additional Spark settings")] = field(default_factory=dict)
    private_api: Annotated[
        bool, about("use interfaces of Spark that are not public; without them everything works, but takes longer")
    ] = True
    brief: Annotated[
        bool, about("short-lived process: limit the JVM of Spark to its fast compiler, for a faster start")
    ] = False
    load_paths: Annotated[
        tuple[str, ...],
        about(
            "folders and URLs that LOAD DATASET and file feeds may read; `.` is the folder in which the data cluster "
            "was started, without hidden files and homes of Tocsin"
        ),
    ] = (".",)
    tail_rows: Annotated[int, about("recent rows of a dataset in memory before compaction")] = 50_000
    tail_segments: Annotated[int, about("recent segments of a dataset before compaction")] = 256
    collect_rows: Annotated[int, about("results with more rows are written by the executors")] = 500_000
    bulk_bytes: Annotated[
        int, about("bytes of a write up to which the driver makes it; executors make larger ones", ge=0)
    ] = 16 * 1024 * 1024
    retention: Annotated[float, about("seconds that results are stored, unless the channel says otherwise")] = 86_400.0
    idempotency: Annotated[float, about("seconds that an Idempotency-Key is stored")] = 86_400.0
    clock_grace: Annotated[
        float, about("seconds that a clock which has jumped must last until results and keys expire by it", ge=0)
    ] = 3_600.0
    execution_threads: Annotated[int, about("executions that may run in parallel")] = 4
    execution_seconds: Annotated[
        float, about("seconds after which an execution is cancelled; it is repeated later", gt=0)
    ] = 600.0
    query_seconds: Annotated[float, about("seconds after which a query is cancelled", gt=0)] = 120.0
    query_threads: Annotated[int, about("queries that may run in parallel", ge=1)] = 4
    jvm_seconds: Annotated[float, about("seconds without an answer after which Spark's JVM is replaced", gt=0)] = 20.0
    retries: Annotated[int, about("failed tries of an execution before the channel is marked failing")] = 3
    broker_gone_after: Annotated[float, about("seconds without an answer after which a broker is declared gone")] = (
        600.0
    )
    broker_addresses: Annotated[
        tuple[str, ...],
        about(
            "networks (`10.1.0.0/16`) and host names that brokers may have; empty: loopback, and the private networks "
            "if `host` is not loopback"
        ),
    ] = ()
    anonymous: Annotated[
        Anonymous,
        about(
            "what clients without a token may do beyond the grants of the role `anonymous`: `all` or `none`; '' is all "
            "if `host` is loopback, else none"
        ),
    ] = ""
    admin_token: Annotated[
        str,
        about("token of operators, who may do everything; '' for the one in home/admin.token", pattern="^[!-~]*$"),
    ] = ""
    token_keys: Annotated[
        str,
        about(
            "file or address of the keys of users' tokens (JWKS), such as http://127.0.0.1:8482/jwks.json of the "
            "coordinator; '' accepts no users' tokens"
        ),
    ] = ""
    token_issuer: Annotated[str, about("`iss` of users' tokens, if an identity provider makes them")] = ""
    token_audience: Annotated[str, about("`aud` of the identity provider's tokens")] = "tocsin"
    token_roles: Annotated[str, about("claim with the user's roles in the identity provider's tokens")] = "roles"
    limits: Limits = field(default_factory=Limits)
    http: HttpLimits = field(default_factory=HttpLimits)

    @property
    def segment_root(self) -> str:
        return self.segments or str(Path(self.home).resolve() / "segments")


class IdentityConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Users and their tokens. With a coordinator its settings count for passwords, sessions and tokens."""

    issuer: Annotated[str, about("`iss` of the identity provider; '' for users of Tocsin's own, with passwords")] = ""
    audience: Annotated[str, about("`aud` that tokens of the identity provider must have")] = "tocsin"
    jwks: Annotated[str, about("address of the identity provider's keys; '' for issuer/.well-known/jwks.json")] = ""
    roles_claim: Annotated[str, about("claim that lists a user's roles; a dot leads into an object")] = "roles"
    clock_skew: Annotated[float, about("seconds by which clocks may differ", ge=0)] = 30.0
    token_seconds: Annotated[float, about("seconds that a token is valid; clients refresh it before", ge=1)] = 3_600.0
    key_seconds: Annotated[float, about("seconds after which tokens are signed with a new key", ge=7_200)] = 2_592_000.0
    session_seconds: Annotated[float, about("seconds a user who is away keeps subscriptions and position", gt=0)] = (
        604_800.0
    )
    clock_grace: Annotated[
        float, about("seconds that a clock which has jumped must last until users expire by it", ge=0)
    ] = 3_600.0
    users: Annotated[int, about("most users that may register", ge=0)] = 1_000_000
    subscriptions: Annotated[
        int, about("most subscriptions of one user on all devices, connections and brokers", ge=0)
    ] = 1_000
    argument_bytes: Annotated[int, about("most bytes of the arguments of all these subscriptions, as JSON", ge=0)] = (
        1024 * 1024
    )
    registrations: Annotated[float, about("most registrations in a minute from one address", gt=0)] = 60.0
    guesses: Annotated[float, about("most wrong passwords in a minute for one user", gt=0)] = 20.0
    guesses_per_address: Annotated[float, about("most wrong passwords in a minute from one address", gt=0)] = 200.0


class BrokerLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """What a subscriber may not exceed."""

    frame_bytes: Annotated[int, about("largest message a subscriber may send", ge=LEAST_FRAME)] = 1024 * 1024
    subscriptions: Annotated[
        int, about("most subscriptions of one connection, and of one user at this broker; see identity.subscriptions")
    ] = 1_000
    argument_bytes: Annotated[int, about("most bytes of the arguments of one subscription, as JSON")] = 4 * 1024
    connection_argument_bytes: Annotated[
        int, about("most bytes of the arguments of all subscriptions of a connection")
    ] = 1024 * 1024
    user_argument_bytes: Annotated[
        int, about("most bytes of the arguments of all subscriptions of a user at this broker")
    ] = 1024 * 1024
    channel_argument_bytes: Annotated[
        int, about("most bytes of the arguments of all subscriptions of a channel on this broker")
    ] = 64 * 1024 * 1024
    connections: Annotated[
        int, about("most subscribers at the same time; at most what requests leave of the files that may be open")
    ] = 100_000
    connections_per_address: Annotated[
        int, about("most connections from one address; 0 for 1,000, and for any number from this machine", ge=0)
    ] = 0
    long_polls: Annotated[int, about("most long polls at the same time")] = 4_000
    event_streams: Annotated[int, about("most streams of events at the same time")] = 4_000
    requests_per_user: Annotated[int, about("most requests of one device of a user at the same time")] = 64
    unanswered: Annotated[int, about("most requests of one subscriber that wait for an answer")] = 4_096
    publish_bytes: Annotated[int, about("most bytes of records that wait for the data cluster")] = 64 * 1024 * 1024
    cache_bytes: Annotated[int, about("most bytes of recent results kept for those who come back")] = 64 * 1024 * 1024
    cache_results: Annotated[int, about("most recent results kept of one subscription")] = 64


#: Who balances.
BalancingMode = Literal["coordinator", "peers"]
#: The name of a component, or a table with the name as `use` and settings beside it.
ComponentUse = str | dict[str, float | str]
#: By place in the strategy; guards are a list.
Components = dict[str, ComponentUse | list[ComponentUse]]


class BrokerBalancing(Struct, frozen=True, forbid_unknown_fields=True):
    """How a broker takes part in balancing."""

    mode: Annotated[
        BalancingMode,
        about("`coordinator`: it decides who migrates; `peers`: brokers agree on it among themselves; all alike"),
    ] = "coordinator"
    strategy: Annotated[str, about("of peers: how they balance")] = "rao-one-to-one"
    settings: Annotated[dict[str, float], about("of peers: parameters of the strategy")] = field(default_factory=dict)
    components: Annotated[
        Components,
        about("of peers: components that replace the strategy's own; `tocsin balance components` lists them"),
    ] = field(default_factory=dict)
    peers: Annotated[
        tuple[str, ...],
        about("of peers: addresses of other brokers' inner ports, for a network that has never had a coordinator"),
    ] = ()


#: Whom a broker of an overlay serves.
OverlayRole = Literal["auto", "head", "edge", "both"]


class BrokerConfig(ServerConfig, frozen=True, forbid_unknown_fields=True):
    """One broker."""

    name: Annotated[str, about("unique among the brokers of a data cluster")] = "broker"
    cluster: Annotated[str, about("address of the data cluster")] = "http://127.0.0.1:8480"
    home: Annotated[str, about("folder of its identity and, without a coordinator, of the users")] = "tocsin-broker"
    host: Annotated[str, about("address to listen on")] = "127.0.0.1"
    port: Annotated[int, about("port to listen on; 0 takes a free one")] = 8481
    processes: Annotated[int, about("processes that share the port")] = 1
    inside_host: Annotated[str, about("address on which the data cluster notifies the broker")] = "127.0.0.1"
    inside_port: Annotated[int, about("port on which the data cluster notifies the broker; 0 takes a free one")] = 0
    inside_url: Annotated[str, about("how the data cluster reaches that port; '' for host and port")] = ""
    heartbeat: Annotated[
        float, about("seconds between two pings to a subscriber, which reconnects after three missed ones; 0 for none")
    ] = 3.0
    silence: Annotated[
        float, about("seconds without any message after which a subscriber's connection is closed", gt=0)
    ] = 75.0
    hello_timeout: Annotated[float, about("seconds a new connection has for its first message")] = 10.0
    grace: Annotated[float, about("seconds that a BE subscription without subscribers is kept")] = 60.0
    buffer_bytes: Annotated[int, about("bytes on their way to a subscriber before it counts as slow")] = 256 * 1024
    coordinator: Annotated[str, about("address of the coordinator; '' for none")] = ""
    public_url: Annotated[str, about("how subscribers reach the broker; '' for host and port")] = ""
    capacity: Annotated[float, about("how much it carries, compared with other brokers")] = 1.0
    latitude: Annotated[float | None, about("where it is, for placing subscribers near")] = None
    longitude: Annotated[float | None, about("where it is, for placing subscribers near")] = None
    anonymous: Annotated[
        Anonymous,
        about(
            "what clients without a token may do beyond the grants of the role `anonymous`: `all` or `none`; '' is "
            "none, or as the data cluster has it if `host` and `public_url` are loopback"
        ),
    ] = ""
    observer_token: Annotated[
        str,
        about(
            "token of those who see `/load`, `/metrics` and `/balancing` from other machines; '' shows them to this "
            "machine only",
            pattern="^[!-~]*$",
        ),
    ] = ""
    open_metrics: Annotated[bool, about("whether `/metrics` needs no token, for scrapers on other machines")] = False
    fetches: Annotated[int, about("catch-ups asked of the data cluster at the same time")] = 16
    neighbours: Annotated[
        tuple[str, ...],
        about("addresses of the inner ports of brokers that it connects to, for an overlay that routes by content"),
    ] = ()
    role: Annotated[
        OverlayRole,
        about(
            "in the overlay: `head` serves publishers, `edge` subscribers, `both` all of them; `auto` follows from the "
            "number of neighbours"
        ),
    ] = "auto"
    live_feeds: Annotated[
        dict[str, str],
        about("live feeds that it has without a data cluster: by name, an advertisement in PADRES' notation"),
    ] = field(default_factory=dict)
    balancing: BrokerBalancing = field(default_factory=BrokerBalancing)
    identity: IdentityConfig = field(default_factory=IdentityConfig)
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    http: HttpLimits = field(default_factory=HttpLimits)

    def __post_init__(self) -> None:
        # Between two pings a client may have nothing to say.
        if self.heartbeat >= self.silence:
            raise ValueError(f"silence ({self.silence:g} s) must be longer than heartbeat ({self.heartbeat:g} s)")


class CoordinatorLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """How many migrations are made at a time, and other limits."""

    in_flight: Annotated[int, about("most migrations in flight at the same time", ge=1)] = 1_000
    per_broker: Annotated[int, about("most migrations in flight from or to one broker", ge=1)] = 100
    per_second: Annotated[float, about("most migrations begun in a second at one broker", gt=0)] = 50.0
    cool_down: Annotated[float, about("seconds until a subscriber may migrate again", ge=0)] = 60.0
    least_gain: Annotated[float, about("least gain of a migration, as a share of a mean subscriber's load", ge=0)] = 0.1
    migration_timeout: Annotated[
        float, about("seconds after which a migration without an arrival has failed", gt=0)
    ] = 45.0
    report_bytes: Annotated[int, about("largest report of a broker", ge=1)] = 64 * 1024 * 1024
    event_streams: Annotated[int, about("most streams of events and long polls at the same time", ge=1)] = 1_000
    forwarded_polls: Annotated[int, about("most long polls that are passed on to the data cluster", ge=1)] = 32
    forwarded_polls_per_address: Annotated[int, about("the same from one address", ge=1)] = 8
    placements: Annotated[
        float,
        about("most placements in a minute from one address; 0 for 600, and for any number from this machine", ge=0),
    ] = 0
    requests: Annotated[
        float,
        about(
            "most requests without credentials in a minute from one address; 0 for 3,000, and for any number from this "
            "machine",
            ge=0,
        ),
    ] = 0


class CoordinatorBalancing(Struct, frozen=True, forbid_unknown_fields=True):
    """Who balances."""

    mode: Annotated[
        BalancingMode,
        about("`peers`: brokers balance among themselves, and the coordinator only places newcomers and drains"),
    ] = "coordinator"
    components: Annotated[
        Components,
        about("components that replace the strategy's own; `tocsin balance components` lists them"),
    ] = field(default_factory=dict)


class CoordinatorConfig(ServerConfig, frozen=True, forbid_unknown_fields=True):
    """The coordinator."""

    home: Annotated[str, about("folder of its store and of the users")] = "tocsin-coordinator"
    store: Annotated[str, about("'' for SQLite in home, or a postgresql:// address")] = ""
    host: Annotated[str, about("address to listen on")] = "127.0.0.1"
    port: Annotated[int, about("port to listen on; 0 takes a free one")] = 8482
    admin_token: Annotated[
        str,
        about(
            "token of operators, who watch and change the network; '' lets only this machine do so", pattern="^[!-~]*$"
        ),
    ] = ""
    placement: Annotated[str, about("how new subscribers are placed")] = "two-choices"
    strategy: Annotated[str, about("how load is balanced; '' for not at all")] = "peal"
    settings: Annotated[dict[str, float | str], about("parameters of the strategy")] = field(default_factory=dict)
    cluster: Annotated[str, about("address of the data cluster, for the page; '' for none")] = ""
    interval: Annotated[float, about("seconds between two reports of a broker", gt=0)] = 2.0
    gone_after: Annotated[float, about("seconds without a report after which a broker is dead", gt=0)] = 10.0
    balance_every: Annotated[float, about("seconds between two evaluations of the balance", gt=0)] = 10.0
    history: Annotated[int, about("evaluations of the balance that are kept", ge=1)] = 2_000
    balancing: CoordinatorBalancing = field(default_factory=CoordinatorBalancing)
    identity: IdentityConfig = field(default_factory=IdentityConfig)
    limits: CoordinatorLimits = field(default_factory=CoordinatorLimits)
    http: HttpLimits = field(default_factory=HttpLimits)


Config = TypeVar("Config", ClusterConfig, BrokerConfig, CoordinatorConfig)


def load(path: str | None = None, env: dict[str, str] | None = None, **overrides: Any) -> ClusterConfig:
    """Read a TOML file, then TOCSIN_* variables, then ``overrides`` (None: not given)."""
    return _load(ClusterConfig, "TOCSIN_", path, env, overrides)


def load_broker(path: str | None = None, env: dict[str, str] | None = None, **overrides: Any) -> BrokerConfig:
    """The same for a broker, with TOCSIN_BROKER_* variables."""
    return _load(BrokerConfig, "TOCSIN_BROKER_", path, env, overrides)


def load_coordinator(path: str | None = None, env: dict[str, str] | None = None, **overrides: Any) -> CoordinatorConfig:
    """The same for the coordinator, with TOCSIN_COORDINATOR_* variables."""
    return _load(CoordinatorConfig, "TOCSIN_COORDINATOR_", path, env, overrides)


def variables(config: CoordinatorConfig) -> dict[str, str]:
    """The TOCSIN_COORDINATOR_* variables for this configuration, without those that have the default value."""
    values = {}
    for name, variable, default, _ in rows(CoordinatorConfig, variables="TOCSIN_COORDINATOR_"):
        value = attrgetter(name)(config)
        text = msgspec.json.encode(value).decode()
        if text != default:
            values[variable] = value if isinstance(value, str) else text
    return values


def _load(
    model: type[Config], prefix: str, path: str | None, env: dict[str, str] | None, overrides: dict[str, Any]
) -> Config:
    values: dict[str, Any] = {}
    if path:
        try:
            values.update(tomllib.loads(Path(path).read_text()))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"cannot read the configuration {path}: {error}") from error
    environ = os.environ if env is None else env
    kinds: dict[str, Any] = get_type_hints(model)
    # A variable may hold a whole section as JSON; those of its single settings count more.
    names = [*kinds, *(name for name, *_ in rows(model) if "." in name)]
    for name in names:
        if (raw := environ.get(prefix + name.upper().replace(".", "_"))) is not None:
            section, _, last = name.rpartition(".")
            given = values.setdefault(section, {}) if section else values
            given[last] = raw if kinds.get(name) is str else _from_text(raw)
    values.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return msgspec.convert(values, model, strict=False)
    except msgspec.ValidationError as error:
        raise UserError(f"the configuration is wrong: {error}", hint="see docs/reference/configuration.md") from error


def _from_text(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return raw


def rows(
    model: type[Struct] = ClusterConfig, prefix: str = "", variables: str = "TOCSIN_"
) -> list[tuple[str, str, str, str]]:
    """(name, environment variable, default, meaning) of every setting."""
    out = []
    hints = get_type_hints(model, include_extras=True)
    for item in msgspec.structs.fields(model):
        hint = hints[item.name]
        if isinstance(hint, type) and issubclass(hint, Struct):
            out += rows(hint, f"{prefix}{item.name}.", variables)
            continue
        default = item.default_factory() if item.default is msgspec.NODEFAULT else item.default
        meaning = next(meta.description for meta in get_args(hint)[1:] if isinstance(meta, Meta))
        name = prefix + item.name
        out.append(
            (name, variables + name.upper().replace(".", "_"), msgspec.json.encode(default).decode(), meaning or "")
        )
    return out
