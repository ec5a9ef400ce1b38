"""``/channels``: the channels of the data cluster."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation
from tocsin.cluster.http.schemas import ChannelInfo, Channels
from tocsin.errors import Malformed, NotFound, SystemFailure
from tocsin.http.responses import answer


async def list_channels(exchange: Exchange) -> Response:
    return answer({"channels": await exchange.threads.quick.run(exchange.cluster.channels)})


async def show_channel(exchange: Exchange) -> Response:
    return answer(await exchange.threads.quick.run(exchange.cluster.channel, exchange.path["channel"]))


OPERATIONS = (
    Operation(
        "GET",
        "/channels",
        "list_channels",
        "All channels",
        list_channels,
        (Answer("By name", Channels),),
        errors=(Malformed, SystemFailure),
    ),
    Operation(
        "GET",
        "/channels/{channel}",
        "show_channel",
        "One channel",
        show_channel,
        (Answer("The channel", ChannelInfo),),
        errors=(Malformed, NotFound, SystemFailure),
    ),
)
