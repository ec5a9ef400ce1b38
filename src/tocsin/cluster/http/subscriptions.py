"""``/channels/{channel}/subscriptions``: subscribe, list, unsubscribe, migrate to another broker."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import (
    Migrated,
    MigrateRequest,
    OneParameters,
    OneSubscription,
    ResultLine,
    ResultParameters,
    Subscribed,
    SubscribeRequest,
    SubscriptionParameters,
    Subscriptions,
    Unsubscribed,
    UnsubscribeRequest,
)
from tocsin.errors import (
    Conflict,
    LimitExceeded,
    Malformed,
    NotFound,
    StorageError,
    TypeMismatch,
    Unauthorized,
    UserError,
)
from tocsin.http.requests import check_text
from tocsin.http.responses import NDJSON, answer, stream

PATH = "/channels/{channel}/subscriptions"
READ_ERRORS = (NotFound, Unauthorized, StorageError)
WRITE_ERRORS = (TypeMismatch, UserError, Unauthorized, NotFound, Conflict, StorageError)


async def durable(exchange: Exchange, call: Any, *args: Any) -> Any:
    """Call in a thread, because it may wait for an earlier change; then wait until the change is durable."""
    return await exchange.threads.arrivals.wait(await exchange.threads.subscriptions.run(call, *args))


def check_count(exchange: Exchange, count: int) -> None:
    most = exchange.limits.subscriptions_per_request
    if count > most:
        raise LimitExceeded(
            f"more than {most} subscriptions in one request", hint="split them over several requests", limit=most
        )


@operation(
    "POST",
    PATH,
    "Subscribe a broker",
    Answer("Every execution that starts from now on includes the subscriptions", Subscribed, status=201),
    body={"application/json": SubscribeRequest},
    errors=WRITE_ERRORS,
    access="checked",
)
async def subscribe(exchange: Exchange) -> Response:
    request = await exchange.body(SubscribeRequest)
    if (request.args is UNSET) == (request.subscriptions is UNSET):
        raise Malformed("the request needs either args or subscriptions")
    args = [request.args] if request.subscriptions is UNSET else request.subscriptions
    check_count(exchange, len(args))
    broker = check_text(request.broker, "broker")
    exchange.check_broker(broker)
    for each in args:
        exchange.check_subscribe(each)
    # Read first: if the channel is dropped and created again meanwhile, the broker sees the old epoch.
    epoch = await exchange.threads.quick.run(exchange.cluster.epoch, exchange.path["channel"])
    ids = await durable(exchange, exchange.cluster.subscribe, exchange.path["channel"], broker, args)
    position = await exchange.threads.quick.run(exchange.cluster.position, exchange.path["channel"])
    columns = await exchange.threads.quick.run(exchange.cluster.feed_columns, exchange.path["channel"])
    return answer(Subscribed(ids, position, epoch, UNSET if columns is None else columns), 201)


@operation(
    "GET",
    PATH,
    "Subscriptions of a channel",
    Answer("Ordered by id", Subscriptions),
    query=SubscriptionParameters,
    errors=READ_ERRORS,
)
async def list_subscriptions(exchange: Exchange) -> Response:
    query = exchange.query
    exchange.check_broker(query.broker)
    subscriptions = await exchange.threads.quick.run(
        exchange.cluster.subscriptions, exchange.path["channel"], query.broker, query.after, query.limit
    )
    return answer({"subscriptions": subscriptions})


@operation(
    "GET",
    PATH + "/{id}",
    "One subscription",
    Answer("The subscription, with the execution after which it begins", OneSubscription),
    errors=READ_ERRORS,
)
async def get_subscription(exchange: Exchange) -> Response:
    channel, id = exchange.path["channel"], exchange.path["id"]
    return answer(await exchange.threads.quick.run(exchange.cluster.subscription, channel, id))


@operation(
    "POST",
    "/channels/{channel}/unsubscribe",
    "End several subscriptions",
    Answer("How many of them existed", Unsubscribed),
    body={"application/json": UnsubscribeRequest},
    errors=WRITE_ERRORS,
)
async def unsubscribe(exchange: Exchange) -> Response:
    request = await exchange.body(UnsubscribeRequest)
    check_count(exchange, len(request.subscriptions))
    broker = None if request.broker is None else check_text(request.broker, "broker")
    exchange.check_broker(broker)
    ids = request.subscriptions
    count = await durable(exchange, exchange.cluster.unsubscribe, exchange.path["channel"], ids, broker)
    return answer(Unsubscribed(count))


@operation(
    "DELETE",
    PATH + "/{id}",
    "End a subscription",
    Answer("It has ended", Unsubscribed),
    query=OneParameters,
    errors=(NotFound, Unauthorized, Conflict, StorageError),
)
async def unsubscribe_one(exchange: Exchange) -> Response:
    channel, id = exchange.path["channel"], exchange.path["id"]
    exchange.check_broker(exchange.query.broker)
    count = await durable(exchange, exchange.cluster.unsubscribe, channel, [id], exchange.query.broker)
    if not count:
        raise NotFound("subscription", str(id))
    return answer(Unsubscribed(count))


@operation(
    "POST",
    PATH + "/{id}/migrate",
    "Migrate a subscription to another broker",
    Answer("It is on the other broker", Migrated),
    body={"application/json": MigrateRequest},
    errors=WRITE_ERRORS,
)
async def migrate_subscription(exchange: Exchange) -> Response:
    request = await exchange.body(MigrateRequest)
    channel, id = exchange.path["channel"], exchange.path["id"]
    source = None if request.from_ is None else check_text(request.from_, "from")
    target = check_text(request.to, "to")
    exchange.check_broker(target)
    exchange.check_broker(source if source is None or source != target else None)
    new_id = await durable(exchange, exchange.cluster.migrate, channel, id, request.args, source, target)
    return answer(Migrated(new_id, target))


@operation(
    "GET",
    PATH + "/{id}/results",
    "Results of a subscription",
    Answer("A line for each execution that has results for the subscription", None, (NDJSON,), ResultLine),
    query=ResultParameters,
    errors=READ_ERRORS,
    access="checked",
)
async def get_results(exchange: Exchange) -> Response:
    channel, id, query = exchange.path["channel"], exchange.path["id"], exchange.query
    exchange.check_subscribe()
    if exchange.policy.refusal(exchange.principal, "subscribe", channel, []) is not None:
        # A condition limits the arguments, and those are known only while the subscription exists.
        found = await exchange.threads.quick.run(exchange.cluster.subscription, channel, id)
        exchange.check_subscribe(found["args"])
    chunks = await exchange.threads.pulls.iterate(
        lambda: iter(exchange.cluster.results(channel, id, query.after, query.limit, query.strict, query.same_as))
    )
    return stream(chunks, NDJSON)


OPERATIONS = (
    subscribe,
    list_subscriptions,
    unsubscribe,
    get_subscription,
    unsubscribe_one,
    migrate_subscription,
    get_results,
)
