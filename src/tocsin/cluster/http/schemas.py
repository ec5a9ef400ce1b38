"""The bodies and query strings of the HTTP interface. The OpenAPI document is generated from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Id = Annotated[int, Meta(ge=1, le=2**63 - 1, description="number of a subscription")]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1)]
Arguments = Annotated[
    list[Any] | dict[str, Any], Meta(description="arguments in the order of the parameters, or by their names")
]


class Request(Struct, forbid_unknown_fields=True, frozen=True):
    """What a client sends: a field nobody knows is a mistake."""


class PostParameters(Request, frozen=True):
    atomic: Annotated[bool, Meta(description="all records or none")] = False
    unknown: Annotated[
        Literal["refuse", "ignore"], Meta(description="what to do with fields that the dataset has no column for")
    ] = "refuse"


class Refused(Struct, frozen=True):
    index: Annotated[int, Meta(description="place of the record in the post, from 0")]
    code: str
    reason: str


class Receipt(Struct, frozen=True):
    """The records that were taken are durable. ``repeated``: an Idempotency-Key was seen before; this is its answer."""

    feed: str
    dataset: str
    taken: int
    refused: list[Refused]
    ordinal: Annotated[int | None, Meta(description="the commit of the dataset that holds them")] = None
    repeated: bool = False


class Script(Request, frozen=True):
    script: Text


class ColumnInfo(Struct, frozen=True):
    name: str
    type: Annotated[str, Meta(description="Arrow's name of the type")]


class OutcomeInfo(Struct, frozen=True, omit_defaults=True):
    """What one statement did. A query also has its ``columns`` and its rows in ``result``."""

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
    done: Annotated[float, Meta(description="0 to 1, or -1 where nobody knows")]
    rows: int
    text: str


class Problem(Struct, frozen=True):
    """``code`` is for machines and stays the same; more fields depend on the code."""

    code: str
    message: str
    hint: str | UnsetType = UNSET


class ErrorBody(Struct, frozen=True):
    error: Problem


class ScriptError(Struct, frozen=True):
    """The statement that failed (``statement``, ``line``, ``column`` in ``error``) and what those before it did."""

    error: Problem
    outcomes: list[OutcomeInfo] | UnsetType = UNSET


class ScriptLine(Struct, frozen=True, omit_defaults=True):
    """One line of a streamed answer: exactly one of these."""

    outcome: OutcomeInfo | UnsetType = UNSET
    progress: ProgressInfo | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class Query(Request, frozen=True):
    sql: Text


class QueryParameters(Request, frozen=True):
    format: Annotated[
        Literal["json", "ndjson", "csv", "arrow"] | None, Meta(description="wins over the Accept header")
    ] = None


class ParameterInfo(Struct, frozen=True):
    name: str
    type: str


class ChannelInfo(Struct, frozen=True):
    name: str
    epoch: Annotated[int, Meta(description="larger than that of another channel that had the name before")]
    kind: Literal["repetitive", "continuous"]
    push: bool
    parameters: list[ParameterInfo]
    period: Annotated[float | None, Meta(description="seconds")]
    retention: Annotated[float, Meta(description="seconds that results are kept")]
    function: Annotated[str | None, Meta(description="name@arity, where the body came from a function")]
    body: str
    columns: Annotated[list[ParameterInfo], Meta(description="what a result has")]
    state: Literal["running", "failing"]
    error: Annotated[str | None, Meta(description="why it is failing")]
    subscriptions: int
    last_execution: Annotated[int, Meta(description="number of the newest execution, 0 before the first")]
    first_execution: Annotated[int, Meta(description="number of the oldest execution that is kept")]
    lag: Annotated[int, Meta(description="commits it has not seen yet")]
    runs: Annotated[int, Meta(description="since the start of the server")]
    late: Annotated[int, Meta(description="runs that started after their time")]
    last_run: float | None
    last_seconds: float | None


class Channels(Struct, frozen=True):
    channels: list[ChannelInfo]


class Subscribe(Request, frozen=True):
    """Either ``args`` of one subscription or ``subscriptions``, a list of such arguments."""

    broker: Text
    args: Arguments | UnsetType = UNSET
    subscriptions: list[Arguments] | UnsetType = UNSET


class Subscribed(Struct, frozen=True):
    """In the order of the request; identical subscriptions have the same number."""

    subscriptions: list[int]
    position: Annotated[
        int, Meta(description="every execution behind this one that has something for them is told to the broker")
    ]
    epoch: Annotated[int, Meta(description="of the channel that they are of")]


class SubscriptionParameters(Request, frozen=True):
    broker: Annotated[str | None, Meta(description="only those of this broker")] = None
    after: Annotated[Offset, Meta(description="only those with a larger number")] = 0
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
        Meta(description="every execution behind this one has seen it; null while one is under way that may not"),
    ]


class Unsubscribe(Request, frozen=True):
    subscriptions: list[Id]
    broker: Annotated[Text | None, Meta(description="null: for all brokers")] = None


class Unsubscribed(Struct, frozen=True):
    unsubscribed: int


class OneParameters(Request, frozen=True):
    broker: Annotated[str | None, Meta(description="only for this broker; without it for all")] = None


class Move(Request, frozen=True, rename={"from_": "from"}):
    """Without ``from`` it must have one broker only. Other ``args`` make it another subscription."""

    to: Text
    from_: Text | None = None
    args: Arguments | None = None


class Moved(Struct, frozen=True):
    subscription: Annotated[int, Meta(description="its number; another one if the arguments are others")]
    broker: str


class ExecutionParameters(Request, frozen=True):
    after: Annotated[Offset, Meta(description="only executions with a larger number")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    wait: Annotated[float, Meta(ge=0, le=60, description="seconds to wait for one where there is none")] = 0.0


class ExecutionInfo(Struct, frozen=True):
    execution: int
    time: Annotated[float, Meta(description="when it started, seconds since 1970")]
    finished: float
    rows: int
    subscriptions: Annotated[int, Meta(description="subscriptions that have results in it")]
    bytes: int


class Executions(Struct, frozen=True):
    executions: list[ExecutionInfo]


class PullParameters(Request, frozen=True):
    broker: Text


class ResultParameters(Request, frozen=True):
    after: Annotated[Offset, Meta(description="only executions with a larger number")] = 0
    limit: Annotated[int, Meta(ge=1, le=10_000, description="most executions")] = 100
    strict: Annotated[
        bool, Meta(description="an error where executions behind `after` are not kept any more, also behind 0")
    ] = False


class ResultLine(Struct, frozen=True):
    """All results of one subscription in one execution."""

    subscription: int
    execution: int
    count: int
    results: list[Any]


class BrokerInfo(Struct, frozen=True):
    name: str
    url: str
    state: Literal["up", "gone"]
    subscriptions: int
    pending: Annotated[int, Meta(description="executions it has not been told of yet")]
    failures: Annotated[int, Meta(description="tries without success since the last one with")]
    last_error: str | None


class Registered(BrokerInfo, frozen=True):
    returned: Annotated[bool, Meta(description="it had been declared gone, and was told nothing meanwhile")]


class Brokers(Struct, frozen=True):
    brokers: list[BrokerInfo]


class BrokerAddress(Request, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=2_000, pattern="^https?://")]


class Status(Struct, frozen=True):
    ready: bool
    spark: Annotated[str, Meta(description="starting, up, dead or stopped")]
    reason: str
    master: str
    committer: Annotated[bool, Meta(description="whether records can be taken")]
    datasets: int
    channels: int


class RouteInfo(Struct, frozen=True):
    method: str
    path: str
    summary: str


class Index(Struct, frozen=True):
    name: str
    version: str
    openapi: str
    routes: list[RouteInfo]
