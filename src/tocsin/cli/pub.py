"""``tocsin pub``: publishes a file of records, in posts that can be repeated safely."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

from tocsin.cli.http import Client, path
from tocsin.cli.output import URL, Json, Token, Url, clean, err, print_json, print_line, progress
from tocsin.cli.records import Counted, Post, posts
from tocsin.cli.relay import relay
from tocsin.errors import Malformed, UserError

RecordFile = Annotated[str, typer.Argument(help="NDJSON or a JSON array, plain or gzip; - is standard input.")]
Through = Annotated[
    str | None, typer.Option(help="Address of a broker to publish through, instead of the data cluster.")
]
#: Refused records that are shown one by one.
SHOWN = 20
#: Refused records that --json lists.
LISTED = 1_000


@dataclass
class Sum:
    """The receipts of all posts together."""

    accepted: int = 0
    refused: int = 0
    posts: int = 0
    repeated: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)

    def add(self, receipt: dict[str, Any], offset: int, records: int) -> None:
        self.posts += 1
        self.refused += records - receipt["accepted"]  # the receipt lists only the first thousand
        self.accepted += receipt["accepted"]
        self.repeated += bool(receipt.get("repeated"))
        for refusal in receipt["refused"]:
            if len(self.refusals) < LISTED:
                self.refusals.append(refusal | {"index": refusal["index"] + offset})


def pub(
    feed: Annotated[str, typer.Argument(help="The feed to publish to.")],
    file: RecordFile = "-",
    batch: Annotated[int, typer.Option(min=1, max=200_000, help="Records in a post.")] = 5_000,
    atomic: Annotated[bool, typer.Option("--atomic", help="Refuse a whole post for one bad record, and stop.")] = False,
    unknown: Annotated[str, typer.Option(help="Fields without a column: refuse or ignore.")] = "refuse",
    key: Annotated[
        str | None,
        typer.Option(help="Name of this file: published again under the same name, nothing is stored twice."),
    ] = None,
    broker: Through = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="With --broker: records have keys, so repeat posts without an answer.")
    ] = False,
    url: Url = URL,
    token: Token = "",
    json: Json = False,
) -> None:
    """Publish records to a feed.

    Records that do not fit are refused one by one, with their number in the file; then the exit code is 1. A post
    without an answer is repeated with the same Idempotency-Key. Brokers do not support this key.

    \b
    Example:
      echo '{"id": "r1", "kind": "fire"}' | tocsin pub ReportFeed
    """
    if unknown not in ("refuse", "ignore"):
        raise typer.BadParameter("--unknown is refuse or ignore")
    if broker is not None and (atomic or key is not None or unknown != "refuse"):
        raise typer.BadParameter("--atomic, --unknown and --key cannot be used with --broker")
    if retry and broker is None:
        raise typer.BadParameter("--retry needs --broker")
    total = Sum()
    try:
        if broker is not None:
            with opened(file) as (source, size), relay(broker, feed, retry) as send:
                send_all(send, feed, source, size, batch, total)
        else:
            with Client(url, token) as client, opened(file) as (source, size):
                send = poster(client, feed, {"atomic": atomic, "unknown": unknown}, key, total)
                send_all(send, feed, source, size, batch, total)
    finally:
        show(feed, total, json)
    if total.refused:
        raise typer.Exit(1)


@contextlib.contextmanager
def opened(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    if file == "-":
        yield sys.stdin.buffer, None
        return
    try:
        with Path(file).open("rb") as source:
            yield source, Path(file).stat().st_size
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error


Sender = Callable[[int, Post], dict[str, Any]]


def poster(client: Client, feed: str, options: dict[str, Any], key: str | None, total: Sum) -> Sender:
    prefix = key or uuid.uuid4().hex
    params = {name: str(value).lower() for name, value in options.items()}

    def note(text: str) -> None:
        err().print(clean(text), markup=False)

    def send(number: int, post: Post) -> Any:
        headers = {"content-type": post.media, "idempotency-key": f"{prefix}-{number}"}

        def deliver() -> Any:
            return client.call("POST", path("feeds", feed), content=post.body, headers=headers, params=params)

        # A server that has answered before is probably restarting.
        return client.retrying(deliver, time.sleep, note) if total.posts else deliver()

    return send


def send_all(send: Sender, feed: str, source: BinaryIO, size: int | None, batch: int, total: Sum) -> None:
    shape = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    counted = Counted(source)
    offset = 0
    with progress(*shape) as bar:
        task = bar.add_task(feed, total=size) if bar is not None else None
        for number, post in enumerate(posts(counted, batch)):
            total.add(send(number, post), offset, post.records)
            offset += post.records
            if bar is not None and task is not None:
                bar.update(task, completed=counted.position, description=f"{feed}: {total.accepted:,} accepted")
    if not total.posts:
        raise Malformed("there are no records")


def show(feed: str, total: Sum, json: bool) -> None:
    if not total.posts:
        return
    if json:
        facts = {"feed": feed, "accepted": total.accepted, "refused": total.refused, "posts": total.posts}
        print_json(facts | {"repeated": total.repeated, "refusals": total.refusals})
        return
    for refusal in total.refusals[:SHOWN]:
        err().print(clean(f"record {refusal['index'] + 1}: {refusal['reason']}"), markup=False)
    if total.refused > SHOWN:
        err().print(f"... and {total.refused - SHOWN:,} more")
    text = f"{total.accepted:,} accepted" + (f", {total.refused:,} refused" if total.refused else "")
    print_line(text + (f", {total.repeated:,} posts were already stored" if total.repeated else ""))
