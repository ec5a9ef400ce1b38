"""``/brokers``: the brokers that the data cluster notifies of results."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import BrokerAddress, BrokerInfo, Brokers, JoinRequest, Registered
from tocsin.errors import Conflict, NotFound, StorageError, Unauthorized, UserError
from tocsin.http.requests import check_text
from tocsin.http.responses import answer
from tocsin.wire.join import Joined


@operation("GET", "/brokers", "All brokers", Answer("By name", Brokers))
async def list_brokers(exchange: Exchange) -> Response:
    return answer({"brokers": await exchange.threads.quick.run(exchange.cluster.brokers)})


@operation(
    "PUT",
    "/brokers/{broker}",
    "Register a broker, or change its address",
    Answer("The broker is notified of new results and of those it has missed", Registered),
    body={"application/json": BrokerAddress},
    errors=(UserError, Unauthorized, Conflict, StorageError),
    access="joins",
)
async def put_broker(exchange: Exchange) -> Response:
    name, body = exchange.path["broker"], await exchange.body(BrokerAddress)
    url = check_text(body.url, "url")
    register = exchange.cluster.register_broker
    return answer(await exchange.threads.quick.run(register, name, url, body.matched, body.join))


@operation(
    "DELETE",
    "/brokers/{broker}/key",
    "Let another broker have the name of one that is gone for good, or has lost its home",
    Answer("The broker; its subscriptions stay", BrokerInfo),
    errors=(NotFound, Conflict, StorageError),
    access="checked",
)
async def delete_key(exchange: Exchange) -> Response:
    exchange.policy.check(exchange.principal, "admin")
    forget = exchange.cluster.forget_broker_key
    return answer(await exchange.threads.quick.run(forget, exchange.path["broker"]))


@operation(
    "POST",
    "/join",
    "Join as a part that is not a broker",
    Answer("The key of the data cluster", Joined),
    body={"application/json": JoinRequest},
    errors=(Unauthorized,),
    access="joins",
)
async def join(exchange: Exchange) -> Response:
    body = await exchange.body(JoinRequest)
    return answer(exchange.cluster.join(body.name, body.join))


OPERATIONS = (list_brokers, put_broker, delete_key, join)
