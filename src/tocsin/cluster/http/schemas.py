"""The request bodies, query strings and answers of the HTTP interface, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tocsin.cluster.model import Column
from tocsin.http.openapi import Problem
from tocsin.wire.join import Join, Joined

Id = Annotated[int, Meta(ge=1, le=2**63 - 1, description="id of a subscription")]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1)]
Arguments = Annotated[
    list[Any] | dict[str, Any], Meta(description="arguments in the order of the parameters, or by their names")
]


class ClientInput(Struct, forbid_unknown_fields=True, frozen=True):
    """A body or a query string; an unknown field is an error."""


class PostParameters(ClientInput, frozen=True):
    atomic: Annotated[bool, Meta(description="all records or none")] = False
    unknown: Annotated[
        Literal["refuse", "ignore"], Meta(description="what to do with a field that is not a column of the dataset")
    ] = "refuse"


class ScriptRequest(ClientInput, frozen=True):
    script: Text


class ColumnInfo(Struct, frozen=True):
    name: str
    type: Annotated[str, Meta(description="the name of the type in Arrow")]


class OutcomeInfo(Struct, frozen=True, omit_defaults=True):
    """What one statement did. A query also has ``columns``, and its rows in ``result``."""

    statement: Annotated[int, Meta(description="place of the statement in the script, from 1")]
    kind: str
    message: str
    rows: int | None = None
    data: dict[str, Any] = {}
    columns: list[ColumnInfo] | UnsetType = UNSET
    result: list[dict[str, Any]] | UnsetType = UNSET


class Outcomes(Struct, frozen=True):
    outcomes: list[OutcomeInfo]


class ProgressInfo(Struct, frozen=True):
    statement: int
    done: Annotated[float, Meta(description="0 to 1, or -1 if it is unknown")]
    rows: int
    text: str


class ScriptError(Struct, frozen=True):
    """The error, with ``statement``, ``line`` and ``column``, and the outcomes of the statements before it."""

    error: Problem
    outcomes: list[OutcomeInfo] | UnsetType = UNSET


class ScriptLine(Struct, frozen=True, omit_defaults=True):
    """One line of a streamed answer: exactly one of these fields."""

    outcome: OutcomeInfo | UnsetType = UNSET
    progress: ProgressInfo | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class QueryRequest(ClientInput, frozen=True):
    sql: Text


class QueryParameters(ClientInput, frozen=True):
    format: Annotated[
        Literal["json", "ndjson", "csv", "arrow"] | None, Meta(description="overrides the Accept header")
    ] = None


class ParameterInfo(Struct, frozen=True):
    name: str
    type: str


class ChannelInfo(Struct, frozen=True):
    name: str
    epoch: Annotated[int, Meta(description="larger than the epoch of a dropped channel of the same name")]
    kind: Annotated[
        Literal["repetitive", "continuous", "feed"],
        Meta(description="feed: the content subscriptions of a feed; its executions are the commits of the dataset"),
    ]
    push: bool
    parameters: list[ParameterInfo]
    period: Annotated[float | None, Meta(description="seconds")]
    retention: Annotated[float, Meta(description="seconds that results are kept")]
    function: Annotated[str | None, Meta(description="name@arity, if the body came from a function")]
    body: str
    columns: Annotated[list[Column], Meta(description="the columns of a result")]
    state: Annotated[
        Literal["running", "failing", "stalled"],
        Meta(description="failing: executions fail. stalled: one takes long, or cannot begin. `error` says why"),
    ]
    error: Annotated[str | None, Meta(description="why it is failing or stalled")]
    subscriptions: int
    last_execution: Annotated[int, Meta(description="number of the newest execution, 0 before the first")]
    first_execution: Annotated[int, Meta(description="number of the oldest stored execution")]
    lag: Annotated[int, Meta(description="commits that it has not read yet")]
    runs: Annotated[int, Meta(description="since the start of the server")]
    late: Annotated[int, Meta(description="runs that started late")]
    last_run: float | None
    last_seconds: float | None


class Channels(Struct, frozen=True):
    channels: list[ChannelInfo]


class FeedInfo(Struct, frozen=True):
    """``columns``: those of a live feed, or of the dataset that it is connected to."""

    name: str
    type: Annotated[str, Meta(description="`http`, `file` or `live`")]
    dataset: str | None
    running: bool
    columns: list[Column]


class Feeds(Struct, frozen=True):
    feeds: list[FeedInfo]


class SubscribeRequest(ClientInput, frozen=True):
    """Either the ``args`` of one subscription, or ``subscriptions``: a list of such arguments."""

    broker: Text
    args: Arguments | UnsetType = UNSET
    subscriptions: list[Arguments] | UnsetType = UNSET


class Subscribed(Struct, frozen=True):
    """Ids in the order of the request; identical subscriptions have the same id."""

    subscriptions: list[int]
    position: Annotated[
        int, Meta(description="the broker is notified of every execution after this one that has results for them")
    ]
    epoch: Annotated[int, Meta(description="epoch of the channel")]
    columns: Annotated[
        list[Column] | UnsetType,
        Meta(description="of a feed's records: brokers are sent all of them, and decide which conditions they meet"),
    ] = UNSET


class SubscriptionParameters(ClientInput, frozen=True):
    broker: Annotated[str | None, Meta(description="only those of this broker")] = None
    after: Annotated[Offset, Meta(description="only those with a larger id")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class SubscriptionInfo(Struct, frozen=True):
    subscription: int
    args: list[Any]
    brokers: list[str]


class Subscriptions(Struct, frozen=True):
    subscriptions: list[SubscriptionInfo]


class OneSubscription(SubscriptionInfo, frozen=True):
    begins_after: Annotated[
        int | None,
        Meta(description="every execution after this one includes it; null while an execution runs that may not"),
    ]


class UnsubscribeRequest(ClientInput, frozen=True):
    subscriptions: list[Id]
    broker: Annotated[Text | None, Meta(description="null: for all brokers")] = None


class Unsubscribed(Struct, frozen=True):
    unsubscribed: int


class OneParameters(ClientInput, frozen=True):
    broker: Annotated[str | None, Meta(description="only for this broker; without it for all")] = None


class MigrateRequest(ClientInput, frozen=True, rename={"from_": "from"}):
    """``from`` may be omitted if the subscription has one broker. Different ``args`` make it another subscription."""

    to: Text
    from_: Text | None = None
    args: Arguments | None = None


class Migrated(Struct, frozen=True):
    subscription: Annotated[int, Meta(description="its id; a new one if the arguments changed")]
    broker: str


class ExecutionParameters(ClientInput, frozen=True):
    after: Annotated[Offset, Meta(description="only executions with a larger number")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    wait: Annotated[float, Meta(ge=0, le=60, description="seconds to wait if there is none")] = 0.0


class ExecutionInfo(Struct, frozen=True):
    execution: int
    time: Annotated[float, Meta(description="when it started, seconds since 1970")]
    finished: float
    rows: int
    subscriptions: Annotated[int, Meta(description="subscriptions that have results in it")]
    bytes: int


class Executions(Struct, frozen=True):
    executions: list[ExecutionInfo]


class GrantParameters(ClientInput, frozen=True):
    version: Annotated[str, Meta(description="the version that the client has")] = ""
    wait: Annotated[float, Meta(ge=0, le=60, description="seconds to wait for another version")] = 0.0


class PullParameters(ClientInput, frozen=True):
    broker: Text


class ResultParameters(ClientInput, frozen=True):
    after: Annotated[Offset, Meta(description="only executions with a larger number")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000, description="maximum number of executions")] = 100
    strict: Annotated[
        bool, Meta(description="an error if executions after `after` are no longer stored, also after 0")
    ] = False
    same_as: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=2**63 - 1,
                description="only if the subscription has the arguments of this one, or had them before it ended",
            ),
        ]
        | None
    ) = None


class DatasetInfo(Struct, frozen=True):
    name: str
    active: bool
    key: list[str]
    columns: list[ColumnInfo]
    rows: Annotated[int, Meta(description="in its segments, with rows that were overwritten since")]
    segments: int
    commits: int
    state: Annotated[Literal["ready", "failing"], Meta(description="failing: segments are damaged or missing")]
    error: str | None
    damaged: Annotated[list[str], Meta(description="paths of these segments, below the segment path")]


class Datasets(Struct, frozen=True):
    datasets: list[DatasetInfo]


class ResultLine(Struct, frozen=True):
    """All results of one subscription in one execution."""

    subscription: int
    execution: int
    count: int
    results: list[Any]
    gap: Annotated[
        Literal["", "damaged", "compacted"],
        Meta(
            description="`damaged`: the results of this execution are lost, if it had any; `compacted`: of a feed with "
            "a key, these are the records that no later one with the same key has replaced"
        ),
    ] = ""
    before: Annotated[
        int | UnsetType, Meta(description="with `compacted`: the execution before it that has records")
    ] = UNSET


class BrokerInfo(Struct, frozen=True):
    name: str
    url: str
    state: Literal["up", "gone"]
    subscriptions: int
    pending: Annotated[int, Meta(description="notifications that it has not confirmed")]
    failures: Annotated[int, Meta(description="failed tries since the last success")]
    last_error: str | None
    damaged: Annotated[
        list[str], Meta(description="executions whose results cannot be read; the broker's subscribers got a gap")
    ]


class Registered(BrokerInfo, frozen=True):
    returned: Annotated[bool, Meta(description="it had been declared gone and was not notified meanwhile")]
    joined: Annotated[Joined | None, Meta(description="the data cluster's own key, if the broker sent one")] = None


class Brokers(Struct, frozen=True):
    brokers: list[BrokerInfo]


class BrokerAddress(ClientInput, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=2_000, pattern="^https?://")]
    matched: Annotated[
        bool, Meta(description="notifications list the ids of the broker's subscriptions that have results")
    ] = False
    join: Annotated[
        Join | None,
        Meta(description="the broker's key: no broker with another key can take its name while it runs"),
    ] = None


class JoinRequest(ClientInput, frozen=True):
    name: Annotated[str, Meta(max_length=128, pattern="^/", description="no broker has a name with a slash")]
    join: Join


class Status(Struct, frozen=True):
    ready: bool
    spark: Annotated[str, Meta(description="starting, up, silent (does not answer), dead or stopped")]
    reason: str
    master: str
    committer: Annotated[bool, Meta(description="whether records can be stored")]
    datasets: int
    channels: int
    clock: Annotated[str, Meta(description="what is wrong with the clock of the machine; '' if nothing")]


class RouteInfo(Struct, frozen=True):
    method: str
    path: str
    summary: str


class Index(Struct, frozen=True):
    name: str
    version: str
    openapi: str
    routes: list[RouteInfo]
