"""``/channels/{channel}/subscriptions``: subscribe, list, unsubscribe, move to another broker."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation
from tocsin.cluster.http.schemas import (
    Move,
    Moved,
    OneParameters,
    OneSubscription,
    ResultLine,
    ResultParameters,
    Subscribe,
    Subscribed,
    SubscriptionParameters,
    Subscriptions,
    Unsubscribe,
    Unsubscribed,
)
from tocsin.errors import (
    Conflict,
    CrossOrigin,
    LimitExceeded,
    Malformed,
    NotFound,
    StorageError,
    SystemTrouble,
    TypeMismatch,
    UnsupportedMedia,
    UserError,
)
from tocsin.http.requests import check_text
from tocsin.http.responses import NDJSON, answer, stream

PATH = "/channels/{channel}/subscriptions"
READ_ERRORS = (Malformed, NotFound, SystemTrouble, StorageError)
WRITE_ERRORS = (
    Malformed,
    TypeMismatch,
    UserError,
    CrossOrigin,
    NotFound,
    Conflict,
    LimitExceeded,
    UnsupportedMedia,
    SystemTrouble,
    StorageError,
)


async def durable(exchange: Exchange, call: Any, *args: Any) -> Any:
    """The call checks its arguments and may wait for an earlier change; its future ends when it is durable."""
    return await exchange.threads.arrivals.wait(await exchange.threads.subscriptions.run(call, *args))


def check_count(exchange: Exchange, count: int) -> None:
    most = exchange.limits.subscriptions_per_request
    if count > most:
        raise LimitExceeded(f"more than {most} subscriptions in one request", hint="send several requests", limit=most)


async def subscribe(exchange: Exchange) -> Response:
    wish = await exchange.body(Subscribe)
    if (wish.args is UNSET) == (wish.subscriptions is UNSET):
        raise Malformed("give either args or subscriptions")
    args = [wish.args] if wish.subscriptions is UNSET else wish.subscriptions
    check_count(exchange, len(args))
    broker = check_text(wish.broker, "broker")
    # Before anything else: one that is made anew meanwhile has another, and the broker will see that.
    epoch = await exchange.threads.quick.run(exchange.cluster.epoch, exchange.path["channel"])
    ids = await durable(exchange, exchange.cluster.subscribe, exchange.path["channel"], broker, args)
    position = await exchange.threads.quick.run(exchange.cluster.position, exchange.path["channel"])
    return answer(Subscribed(ids, position, epoch), 201)


async def list_subscriptions(exchange: Exchange) -> Response:
    wish = exchange.query
    found = await exchange.threads.quick.run(
        exchange.cluster.subscriptions, exchange.path["channel"], wish.broker, wish.after, wish.limit
    )
    return answer({"subscriptions": found})


async def one(exchange: Exchange) -> Response:
    channel, id = exchange.path["channel"], exchange.path["id"]
    return answer(await exchange.threads.quick.run(exchange.cluster.subscription, channel, id))


async def unsubscribe(exchange: Exchange) -> Response:
    wish = await exchange.body(Unsubscribe)
    check_count(exchange, len(wish.subscriptions))
    broker = None if wish.broker is None else check_text(wish.broker, "broker")
    ids = wish.subscriptions
    count = await durable(exchange, exchange.cluster.unsubscribe, exchange.path["channel"], ids, broker)
    return answer(Unsubscribed(count))


async def unsubscribe_one(exchange: Exchange) -> Response:
    channel, id = exchange.path["channel"], exchange.path["id"]
    count = await durable(exchange, exchange.cluster.unsubscribe, channel, [id], exchange.query.broker)
    if not count:
        raise NotFound("subscription", str(id))
    return answer(Unsubscribed(count))


async def move(exchange: Exchange) -> Response:
    wish = await exchange.body(Move)
    channel, id = exchange.path["channel"], exchange.path["id"]
    source = None if wish.from_ is None else check_text(wish.from_, "from")
    moved = await durable(exchange, exchange.cluster.move, channel, id, wish.args, source, check_text(wish.to, "to"))
    return answer(Moved(moved, wish.to))


async def results(exchange: Exchange) -> Response:
    channel, id, wish = exchange.path["channel"], exchange.path["id"], exchange.query
    chunks = await exchange.threads.pulls.iterate(
        lambda: iter(exchange.cluster.results(channel, id, wish.after, wish.limit, wish.strict))
    )
    return stream(chunks, NDJSON)


OPERATIONS = (
    Operation(
        "POST",
        PATH,
        "subscribe",
        "Subscribe a broker",
        subscribe,
        (Answer("Part of every execution that starts from now on", Subscribed, status=201),),
        body={"application/json": Subscribe},
        errors=WRITE_ERRORS,
    ),
    Operation(
        "GET",
        PATH,
        "list_subscriptions",
        "Subscriptions of a channel",
        list_subscriptions,
        (Answer("By number", Subscriptions),),
        query=SubscriptionParameters,
        errors=READ_ERRORS,
    ),
    Operation(
        "POST",
        "/channels/{channel}/unsubscribe",
        "unsubscribe",
        "End several subscriptions",
        unsubscribe,
        (Answer("How many of them were there", Unsubscribed),),
        body={"application/json": Unsubscribe},
        errors=WRITE_ERRORS,
    ),
    Operation(
        "GET",
        PATH + "/{id}",
        "get_subscription",
        "One subscription",
        one,
        (Answer("With the execution behind which it begins", OneSubscription),),
        errors=READ_ERRORS,
    ),
    Operation(
        "DELETE",
        PATH + "/{id}",
        "unsubscribe_one",
        "End a subscription",
        unsubscribe_one,
        (Answer("It is ended", Unsubscribed),),
        query=OneParameters,
        errors=(Malformed, CrossOrigin, NotFound, Conflict, SystemTrouble, StorageError),
    ),
    Operation(
        "POST",
        PATH + "/{id}/move",
        "move_subscription",
        "Move a subscription to another broker",
        move,
        (Answer("It is there", Moved),),
        body={"application/json": Move},
        errors=WRITE_ERRORS,
    ),
    Operation(
        "GET",
        PATH + "/{id}/results",
        "get_results",
        "Results of a subscription",
        results,
        (Answer("A line for each execution that has results for it", None, (NDJSON,), ResultLine),),
        query=ResultParameters,
        errors=READ_ERRORS,
    ),
)
