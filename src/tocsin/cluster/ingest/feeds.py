"""Feeds: connect, start and stop. Posts go through the gateway, files through Structured Streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from tocsin.cluster.channels.feed_channels import FeedChannels
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.ingest.file_feed import FileFeed
from tocsin.cluster.ingest.file_source import ORDER, file_columns, file_source
from tocsin.cluster.model import Dataset, Feed
from tocsin.cluster.storage.bulk_writer import Taken
from tocsin.cluster.storage.catalog import FeedBatch
from tocsin.errors import Conflict, UserError

TYPES = ("http", "file")


class FeedManager:
    def __init__(self, context: ClusterContext, feed_channels: FeedChannels) -> None:
        self.context = context
        self.feed_channels = feed_channels
        self.running: dict[int, FileFeed] = {}

    def check(self, options: dict[str, Any]) -> dict[str, Any]:
        """Check the options of a feed; return them with their type."""
        kind = options.get("type", "http")
        if kind not in TYPES:
            raise UserError(f"the type of a feed is {' or '.join(TYPES)}, not {kind!r}", feed_type=kind)
        if kind == "file":
            file_source(options, self.context.config)
            trigger = options.get("trigger", 1.0)
            if not isinstance(trigger, int | float) or isinstance(trigger, bool) or not 0 < trigger <= 86_400:
                raise UserError("the trigger of a file feed must be a number of seconds above 0")
        elif unknown := sorted(set(options) - {"type"}):
            raise UserError(f"an http feed has no option {unknown[0]!r}")
        return {"type": kind, **options}

    def connect(self, feed: Feed, dataset: Dataset) -> None:
        """Connecting to the same dataset again changes nothing, so that a script can be repeated."""
        feed.check_stored()
        if feed.dataset is not None and feed.dataset.lower() == dataset.name.lower():
            return
        if feed.running:
            raise Conflict(f"feed {feed.name!r} is running", hint=f"STOP FEED {feed.name} first")
        if feed.dataset is not None:
            hint = f"DISCONNECT FEED {feed.name} first"
            raise Conflict(f"feed {feed.name!r} is connected to {feed.dataset!r}", hint=hint)
        self.context.definitions.replace(msgspec.structs.replace(feed, dataset=dataset.name))

    def disconnect(self, feed: Feed) -> None:
        if feed.running:
            raise Conflict(f"feed {feed.name!r} is running", hint=f"STOP FEED {feed.name} first")
        self.feed_channels.drop(feed)
        self.context.definitions.replace(msgspec.structs.replace(feed, dataset=None))

    def start(self, feed: Feed) -> None:
        feed.check_stored()
        if feed.dataset is None:
            hint = f"CONNECT FEED {feed.name} TO DATASET …"
            raise Conflict(f"feed {feed.name!r} is not connected to a dataset", hint=hint)
        started = msgspec.structs.replace(feed, running=True)
        # If Spark is not up yet, the file feed is opened when it is.
        if feed.options["type"] == "file" and feed.id not in self.running and self.context.runtime.state == "up":
            self.open(started)
        self.context.definitions.replace(started)

    def stop(self, feed: Feed) -> None:
        self.context.definitions.replace(msgspec.structs.replace(feed, running=False))
        running = self.running.pop(feed.id, None)
        if running is not None:
            running.stop()

    def open(self, feed: Feed) -> None:
        """Start reading files; skips batches that were committed before."""
        assert feed.dataset is not None
        dataset = self.context.definitions.get(Dataset, feed.dataset)
        store = self.context.stores[dataset.id]

        order = ORDER if dataset.key else ()
        small: bool | None = None

        def take(batch: int, frame: DataFrame) -> Taken:
            nonlocal small
            if self.context.catalog.batch_done(feed.id, batch):
                return Taken(0)
            number = FeedBatch(feed.id, batch)
            taken, large = self.context.bulk.take(store, frame, order, small=small, batch=number)
            # After a large batch the next one is probably large too: it is not read twice.
            small = False if large else None
            self.context.metrics.records_refused.labels(dataset.name).inc(taken.refused)
            self.context.metrics.records_accepted.labels(dataset.name).inc(taken.accepted)
            return taken

        reader = FileFeed(
            self.context.runtime,
            feed=feed.name,
            columns=file_columns(dataset),
            options=feed.options,
            checkpoint=str(Path(self.context.config.home) / "checkpoints" / str(feed.id)),
            take=take,
            trigger=float(feed.options.get("trigger", 1.0)),
            ordered=bool(dataset.key),
        )
        self.running[feed.id] = reader
        reader.start()

    def close(self) -> None:
        for feed in list(self.running.values()):
            feed.stop()
        self.running.clear()

    def status(self, feed: Feed) -> dict[str, Any]:
        if feed.live:
            return {"state": "live"}
        running = self.running.get(feed.id)
        return running.status() if running is not None else {"state": "running" if feed.running else "stopped"}
