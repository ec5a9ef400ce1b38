"""``/channels``: the channels of the data cluster."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import ChannelInfo, Channels
from tocsin.errors import NotFound
from tocsin.http.responses import answer


@operation("GET", "/channels", "All channels", Answer("By name", Channels), access="checked")
async def list_channels(exchange: Exchange) -> Response:
    """Those that the principal may subscribe to; only operators see their bodies."""
    found = await exchange.threads.quick.run(exchange.cluster.channels)
    may = exchange.policy.refusal
    visible = [each for each in found if may(exchange.principal, "subscribe", each["name"]) is None]
    return answer({"channels": [shown(exchange, each) for each in visible]})


@operation(
    "GET",
    "/channels/{channel}",
    "One channel",
    Answer("The channel", ChannelInfo),
    errors=(NotFound,),
    access="checked",
)
async def show_channel(exchange: Exchange) -> Response:
    exchange.check_subscribe()
    found = await exchange.threads.quick.run(exchange.cluster.channel, exchange.path["channel"])
    return answer(shown(exchange, found))


def shown(exchange: Exchange, channel: dict[str, Any]) -> dict[str, Any]:
    return channel if exchange.is_operator else channel | {"body": "", "function": None}


OPERATIONS = (list_channels, show_channel)
