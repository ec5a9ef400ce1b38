"""``/brokers``: the brokers that the data cluster notifies of results."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation
from tocsin.cluster.http.schemas import BrokerAddress, Brokers, Registered
from tocsin.errors import (
    Conflict,
    CrossOrigin,
    LimitExceeded,
    Malformed,
    StorageError,
    SystemFailure,
    UnsupportedMedia,
    UserError,
)
from tocsin.http.requests import check_text
from tocsin.http.responses import answer


async def list_brokers(exchange: Exchange) -> Response:
    return answer({"brokers": await exchange.threads.quick.run(exchange.cluster.brokers)})


async def put_broker(exchange: Exchange) -> Response:
    name, body = exchange.path["broker"], await exchange.body(BrokerAddress)
    url = check_text(body.url, "url")
    return answer(await exchange.threads.quick.run(exchange.cluster.register_broker, name, url, body.matched))


OPERATIONS = (
    Operation(
        "GET",
        "/brokers",
        "list_brokers",
        "All brokers",
        list_brokers,
        (Answer("By name", Brokers),),
        errors=(Malformed, SystemFailure),
    ),
    Operation(
        "PUT",
        "/brokers/{broker}",
        "put_broker",
        "Register a broker, or change its address",
        put_broker,
        (Answer("The broker is notified of new results and of those it has missed", Registered),),
        body={"application/json": BrokerAddress},
        errors=(
            Malformed,
            UserError,
            CrossOrigin,
            Conflict,
            LimitExceeded,
            UnsupportedMedia,
            SystemFailure,
            StorageError,
        ),
    ),
)
