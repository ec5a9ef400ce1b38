"""``/channels``: the channels of the data cluster."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import ChannelInfo, Channels
from tocsin.errors import NotFound
from tocsin.http.responses import answer


@operation("GET", "/channels", "All channels", Answer("By name", Channels))
async def list_channels(exchange: Exchange) -> Response:
    return answer({"channels": await exchange.threads.quick.run(exchange.cluster.channels)})


@operation("GET", "/channels/{channel}", "One channel", Answer("The channel", ChannelInfo), errors=(NotFound,))
async def show_channel(exchange: Exchange) -> Response:
    return answer(await exchange.threads.quick.run(exchange.cluster.channel, exchange.path["channel"]))


OPERATIONS = (list_channels, show_channel)
