"""``POST /feeds/{feed}``: publish records. A raw ASGI handler without a router, because it is the busiest route."""

from __future__ import annotations

from functools import lru_cache
from time import perf_counter
from typing import Any

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation, Site, operation, path_value
from tocsin.cluster.http.schemas import Feeds, PostParameters
from tocsin.cluster.model import Post, Receipt
from tocsin.errors import (
    BrokenEncoding,
    Conflict,
    Malformed,
    NotFound,
    RecordsRefused,
    StorageError,
    UnsupportedEncoding,
)
from tocsin.http.requests import Disconnected, from_query, media_type, read_body
from tocsin.http.responses import JSON, NDJSON, answer, encoder, error_body, error_headers
from tocsin.identity.grants import PART
from tocsin.wire.feed_name import channel_of

ROUTE = "/feeds/{feed}"
MEDIA = (JSON, NDJSON, "application/ndjson", "application/jsonl", "application/json-lines")
ENCODINGS = {b"gzip": "gzip", b"x-gzip": "gzip", b"identity": "", b"": ""}
KEY_LENGTH = 255
#: Bodies up to this size are decoded in the event loop, which costs less than a thread.
INLINE = 32 * 1024
DEFAULTS = PostParameters()


class FeedEndpoint:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.limit = site.config.limits.request_bytes
        metrics = site.cluster.metrics
        self.seconds = metrics.http_seconds.labels("POST", ROUTE)
        self.received = metrics.http_bytes_in.labels(ROUTE)
        self.requests = metrics.http_requests
        self.ok = metrics.http_requests.labels("POST", ROUTE, "200")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started = perf_counter()
        try:
            receipt = await self.post(scope, receive)
            status, body, headers = 200, encoder.encode(receipt), []
            self.ok.inc()
        except Disconnected:
            return
        except Exception as error:
            status, problem = error_body(error, f"POST {scope['path']}")
            body = encoder.encode(problem)
            headers = [(k.encode(), v.encode()) for k, v in error_headers(error).items()]
            self.requests.labels("POST", ROUTE, str(status)).inc()
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self.seconds.observe(perf_counter() - started)

    async def post(self, scope: Any, receive: Any) -> Receipt:
        headers = scope["headers"]
        given = dict(headers)
        feed = feed_of(scope["path"][len("/feeds/") :])
        policy = self.site.cluster.policy
        if not policy.open or b"authorization" in given:
            policy.check(await self.site.principals.find(scope), "publish", feed)
        query = scope["query_string"]
        options = from_query(query, PostParameters) if query else DEFAULTS
        media, encoding, key = JSON, "", None
        if given.get(b"content-type") != b"application/json":
            media = media_type(headers, MEDIA, JSON)
        if b"content-encoding" in given:
            encoding = encoding_of(given[b"content-encoding"])
        if b"idempotency-key" in given:
            key = key_of(given[b"idempotency-key"])
        body = await read_body(headers, receive, self.limit)
        self.received.inc(len(body))
        content_type = JSON if media == JSON else NDJSON
        post = Post(feed, body, content_type, encoding, key, options.atomic, options.unknown)
        publish = self.site.cluster.publish
        # Looking up a key may block, because the catalog may be busy with a commit.
        quick = len(body) <= INLINE and not encoding and key is None
        future = publish(post) if quick else await self.site.threads.posts.run(publish, post)
        return await self.site.threads.arrivals.wait(future)


@lru_cache(1024)
def feed_of(text: str) -> str:
    """The name of the feed in a path, checked; only valid names are cached."""
    name: str = path_value("feed", text)
    return name


def encoding_of(value: bytes) -> str:
    try:
        return ENCODINGS[value.strip().lower()]
    except KeyError:
        word = value.decode("latin-1")
        raise UnsupportedEncoding(f"the content encoding {word!r} is not supported", hint="use gzip or none") from None


def key_of(value: bytes) -> str:
    """RFC 9110 allows nearly anything in headers; a key is 1 to 255 visible ASCII characters."""
    key = value.decode("latin-1").strip()
    if not key or len(key) > KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise Malformed(f"an Idempotency-Key is 1 to {KEY_LENGTH} visible ASCII characters")
    return key


@operation("GET", "/feeds", "All feeds", Answer("In the order of their creation", Feeds), access="checked")
async def list_feeds(exchange: Exchange) -> Response:
    """Those that the principal may publish or subscribe to."""
    found = await exchange.threads.quick.run(exchange.cluster.feeds_described)
    may, principal = exchange.policy.refusal, exchange.principal
    part = principal.holds >= PART.holds
    return answer(
        {
            "feeds": [
                each
                for each in found
                if part
                or may(principal, "publish", each["name"]) is None
                or may(principal, "subscribe", channel_of(each["name"])) is None
            ]
        }
    )


OPERATIONS = (
    list_feeds,
    Operation(
        "POST",
        ROUTE,
        "post_records",
        "Publish records",
        None,
        (Answer("The records are durable; those that do not fit the dataset are listed", Receipt),),
        query=PostParameters,
        headers={
            "Idempotency-Key": "identifies this post: a repeated post gets the same answer and is not stored again",
            "Content-Encoding": "gzip, or none",
        },
        body=dict.fromkeys(MEDIA, Any),
        errors=(BrokenEncoding, UnsupportedEncoding, NotFound, Conflict, RecordsRefused, StorageError),
        access="checked",
        description="One JSON record, an array of records, or one record per line. Answers when they are durable.",
    ),
)
