"""``tocsin sub``: prints the notifications of a channel as they arrive."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tocsin.cli.output import Json, cell, clean, err, print_json, print_line
from tocsin.wire.feed_name import ALL, WHERE, channel_of

if TYPE_CHECKING:
    from tocsin.client import Gap, Notification

BROKER = "http://127.0.0.1:8481"
Parameters = Annotated[
    list[str] | None,
    typer.Argument(help="name=value, where value is a number, true, false, null or a string; or name:=JSON."),
]
_PARAMETER = re.compile(r"(\w+)(:?=)(.*)", re.DOTALL)


def sub(
    channel: Annotated[str | None, typer.Argument(help="The channel to subscribe to.")] = None,
    parameters: Parameters = None,
    feed: Annotated[str | None, typer.Option(help="Subscribe to the publications of this feed instead.")] = None,
    where: Annotated[
        str | None,
        typer.Option(help="With --feed: a condition, in SQL or in PADRES' notation; without it, all of them."),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            envvar="TOCSIN_BROKER",
            help=f"Address of a broker; without it and without a coordinator, {BROKER}.",
        ),
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(envvar="TOCSIN_COORDINATOR", help="Address of the coordinator, which chooses the broker."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many notifications.")] = None,
    after: Annotated[int | None, typer.Option(min=0, help="Begin after this execution; without it, now.")] = None,
    token: Annotated[str | None, typer.Option(envvar="TOCSIN_TOKEN", help="Token from a login.")] = None,
    json: Json = False,
) -> None:
    """Subscribe to a channel, or to the publications of a feed, and print the notifications.

    Prints one line each: the channel, the number of the execution, the results. Reconnects by itself. Standard error
    shows when it is subscribed, and gaps.

    \b
    Example:
      tocsin sub EmergenciesOfType kind=fire --count 10
      tocsin sub --feed Alarms --where "kind = 'fire' AND severity >= 3"
    """
    if (channel is None) == (feed is None):
        raise typer.BadParameter("name a channel, or a feed with --feed")
    if feed is None and where is not None:
        raise typer.BadParameter("--where is a condition on the publications of a feed: it needs --feed")
    if broker is None and coordinator is None:
        broker = BROKER
    if feed is not None:
        source, args = channel_of(feed), {WHERE: where or ALL}
    else:
        assert channel is not None
        source, args = channel, arguments(parameters or [])
    asyncio.run(follow(broker, coordinator, source, args, token, after, count, json))


def arguments(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        match = _PARAMETER.fullmatch(word)
        if match is None:
            raise typer.BadParameter(f"{word!r} is not name=value")
        name, sign, text = match.groups()
        if name in found:
            raise typer.BadParameter(f"{name} is given twice")
        found[name] = value(name, text, exact=sign == ":=")
    return found


def value(name: str, text: str, *, exact: bool) -> Any:
    try:
        decoded = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        if exact:
            raise typer.BadParameter(f"the value of {name} is not JSON: {error}") from error
        return text
    return decoded if exact or decoded is None or isinstance(decoded, int | float) else text


async def follow(
    broker: str | None,
    coordinator: str | None,
    channel: str,
    args: dict[str, Any],
    token: str | None,
    after: int | None,
    count: int | None,
    json: bool,
) -> None:
    from tocsin.client import Gap, connect  # takes a tenth of a second; other commands don't need it

    seen = 0
    urls = [] if broker is None else [broker]
    async with (
        connect(urls, coordinator=coordinator, token=token) as client,
        client.subscribe(channel, args, after=after) as subscription,
    ):
        if not json:
            err().print(clean(f"subscribed to {subscription.channel} at {client.status.url}"), markup=False)
        for warning in subscription.warnings:
            err().print(clean(f"warning: {warning}"), markup=False)
        while (item := await subscription.event()) is not None:
            if isinstance(item, Gap):
                show_gap(item, json)
                continue
            show(item, json)
            seen += 1
            if seen == count:
                return


def show(item: Notification, json: bool) -> None:
    if json:
        print_json(item)
    else:
        print_line(f"{clean(item.channel, '')} {item.execution} {cell(item.results)}")


def show_gap(gap: Gap, json: bool) -> None:
    after, next = gap.after.execution, gap.next.execution
    if json:
        facts = {"channel": gap.channel, "subscription": gap.subscription, "after": after, "next": next}
        print_json({"gap": facts | {"reason": gap.reason}})
    else:
        text = f"gap: executions {after + 1} to {next - 1} are no longer available ({gap.reason})"
        if gap.reason == "dropped":
            text = f"gap: {gap.channel} was dropped after execution {after} and created again"
        err().print(clean(text), markup=False)
