"""``tocsin bench``: measures a running system from outside."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from msgspec import Raw
from rich.progress import Progress

from tocsin.cli.output import URL, Json, print_json, print_line, progress
from tocsin.cli.pub import RecordFile, Through, opened
from tocsin.cli.records import Counted, posts
from tocsin.cli.relay import readable, split
from tocsin.cli.sub import BROKER, Parameters, arguments
from tocsin.errors import Malformed, TocsinError, UserError

#: Files that this process needs beside its connections.
SPARE = 50
#: Records that are read from the file at a time.
READ = 10_000
#: Seconds between two updates of the progress bar.
UPDATE = 0.2

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Seconds = Annotated[float, typer.Option(min=0.1, max=86_400, help="How long to measure.")]


@bench.callback()
def root() -> None:
    """Measure what subscribers receive from a running system, or what publishers send to it.

    Uses the system like any client, with its existing channels and feeds. This process is Python on one core: if it is
    the bottleneck, start several.

    \b
    Example:
      tocsin bench sub EmergenciesOfType kind=fire --subscribers 1000 --seconds 30
    """


@bench.command()
def sub(
    channel: Annotated[str, typer.Argument(help="The channel to subscribe to.")],
    parameters: Parameters = None,
    broker: Annotated[str, typer.Option("--broker", envvar="TOCSIN_BROKER", help="Address of the broker.")] = BROKER,
    subscribers: Annotated[int, typer.Option(min=1, help="Connections, each with this subscription.")] = 100,
    seconds: Seconds = 10.0,
    count: Annotated[int | None, typer.Option(min=1, help="End when each has this many notifications.")] = None,
    time_column: Annotated[
        str | None,
        typer.Option(help="Column of the results with the time from which to measure latency: UTC or seconds."),
    ] = None,
    json: Json = False,
) -> None:
    """Subscribe many times to one channel and count notifications.

    Counting begins when all are subscribed. The slowest subscriber has the fewest notifications; the lag is the number
    of executions between the first and the last subscriber.

    \b
    Example:
      tocsin bench sub EmergenciesOfType kind=fire --subscribers 1000 --seconds 30 --time-column at
    """
    args = arguments(parameters or [])
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, room))
    if subscribers > room - SPARE:
        raise UserError(f"this process may open {room:,} files, so {room - SPARE:,} connections", hint="see ulimit -n")
    from tocsin.cli.crowd import Crowd  # takes a tenth of a second; other commands don't need it

    async def run(bar: Progress | None) -> dict[str, Any]:
        crowd = Crowd(broker, channel, args, time_column)
        try:
            with shown(bar, subscribers, lambda: (len(crowd.members), "connecting")):
                await crowd.gather(subscribers)
            with shown(bar, seconds, lambda: (passed(crowd.began), f"{crowd.notifications:,} notifications")):
                await crowd.count(seconds, count)
            return crowd.report(passed(crowd.began))
        finally:
            await crowd.leave()

    found = measured(run)
    if json:
        print_json(found)
    else:
        show_sub(found)


@bench.command()
def pub(
    feed: Annotated[str, typer.Argument(help="The feed to publish to.")],
    file: RecordFile = "-",
    cluster: Annotated[str, typer.Option(envvar="TOCSIN_URL", help="Address of the data cluster.")] = URL,
    broker: Through = None,
    clients: Annotated[int, typer.Option(min=1, max=10_000, help="Publishers, a connection each.")] = 8,
    batch: Annotated[int, typer.Option(min=1, max=200_000, help="Records in a post.")] = 100,
    seconds: Seconds = 10.0,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many records.")] = None,
    json: Json = False,
) -> None:
    """Publish the records of a file again and again, and measure how long receipts take.

    A receipt comes when the records are durable. The records are stored: use a feed of a test dataset, or records with
    keys, which replace each other. If records are refused, the exit code is 1.

    \b
    Example:
      tocsin bench pub ReportFeed reports.ndjson --clients 16 --batch 500 --seconds 30
    """
    records = read(file)
    from tocsin.cli.publishers import Publishers, to_broker, to_cluster

    async def run(bar: Progress | None) -> dict[str, Any]:
        publishers = Publishers(feed, records, batch)
        opening = to_cluster(cluster, feed, clients) if broker is None else to_broker(broker, feed, clients)
        async with opening as senders:
            with shown(bar, seconds, lambda: (passed(publishers.began), f"{publishers.accepted:,} accepted")):
                await publishers.run(senders, seconds, count)
            return publishers.report(passed(publishers.began), clients)

    found = measured(run)
    if json:
        print_json(found)
    else:
        show_pub(found)
    if found["refused"]:
        raise typer.Exit(1)


def read(file: str) -> list[Raw]:
    """All records of the file, each of which is JSON."""
    records: list[Raw] = []
    with opened(file) as (source, _):
        for post in posts(Counted(source), READ):
            for record in split(post):
                if not readable(record):
                    raise Malformed(f"record {len(records) + 1} is not JSON")
                # A line of a post is one record.
                records.append(Raw(bytes(record).replace(b"\n", b" ")))
    if not records:
        raise Malformed("there are no records")
    return records


def passed(began: float) -> float:
    return time.monotonic() - began


def measured(run: Callable[[Progress | None], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    with progress() as bar:
        try:
            return asyncio.run(run(bar))
        except ExceptionGroup as group:  # several publishers failed for the same reason
            first = group.exceptions[0]
            raise (first if isinstance(first, TocsinError) else group) from None


@contextmanager
def shown(bar: Progress | None, total: float, state: Callable[[], tuple[float, str]]) -> Iterator[None]:
    """Shows progress on a terminal."""
    if bar is None:
        yield
        return
    task = bar.add_task("", total=total)

    async def show() -> None:
        while True:
            done, text = state()
            bar.update(task, completed=min(done, total), description=text)
            await asyncio.sleep(UPDATE)

    showing = asyncio.get_running_loop().create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        bar.remove_task(task)


def show_sub(found: dict[str, Any]) -> None:
    slowest = found["slowest"]
    print_line(f"{found['subscribers']:,} subscribers of {found['channel']}, {found['seconds']:.1f} s")
    print_line(f"notifications  {found['notifications']:,}, {found['notifications_per_second']:,.0f}/s")
    print_line(f"bytes          {found['bytes']:,}, {found['bytes_per_second']:,.0f}/s")
    if found["latency_ms"] is not None:
        print_line(f"latency        {milliseconds(found['latency_ms'])}")
    print_line(
        f"slowest        {slowest['notifications']:,} of {slowest['of']:,} notifications, "
        f"lag {slowest['lag']:,} executions"
    )
    print_line(f"gaps           {found['gaps']:,}")
    for name, meaning in (
        ("lagging", "times a subscriber read too slowly"),
        ("twice", "duplicate notifications"),
        ("lost", "connections that broke"),
    ):
        if found[name]:
            print_line(f"{name:<14} {found[name]:,} {meaning}")


def show_pub(found: dict[str, Any]) -> None:
    print_line(f"{found['clients']:,} publishers to {found['feed']}, {found['seconds']:.1f} s")
    print_line(f"records        {found['accepted']:,}, {found['records_per_second']:,.0f}/s")
    print_line(f"bytes          {found['bytes']:,}, {found['bytes_per_second']:,.0f}/s")
    if found["receipt_ms"] is not None:
        print_line(f"receipts       {milliseconds(found['receipt_ms'])}, {found['posts']:,} posts")
    if found["refused"]:
        print_line(f"refused        {found['refused']:,}")


def milliseconds(figures: dict[str, float]) -> str:
    return f"p50 {figures['p50']:,.1f} ms, p99 {figures['p99']:,.1f} ms, at most {figures['max']:,.1f} ms"
