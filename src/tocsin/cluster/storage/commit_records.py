"""The records of commits as JSON, for the brokers with content subscriptions: encoded once, whatever their number."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict

import pyarrow as pa

from tocsin.cluster.records import formats
from tocsin.cluster.storage.dataset import DatasetStore

#: Commits that stay in memory for notifications, with at most as many bytes in all.
COMMITS = 256
BYTES = 64 * 1024 * 1024
#: Rows of a commit that is sent with its notification; brokers fetch what their subscribers get of a larger one.
SENT_ROWS = 20_000

Key = tuple[int, int]


def encode(store: DatasetStore, table: pa.Table) -> list[bytes]:
    """Each row of a log segment as a JSON object, in order; a delete is not a publication."""
    rows = store.live(table).select(store.names)
    return [line for piece in formats.ndjson(rows) for line in piece.splitlines()]


class CommitRecords:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, pa.Table | list[bytes]] = OrderedDict()  # the oldest first
        self._sizes: dict[Key, int] = {}
        self._bytes = 0

    def keep(self, dataset: int, ordinal: int, table: pa.Table) -> None:
        """A commit whose records brokers will get."""
        if table.num_rows <= SENT_ROWS:
            self._put((dataset, ordinal), table)

    def of(self, store: DatasetStore, ordinal: int) -> list[bytes] | None:
        """None if it is too large, or was compacted: then it is not there any more as it was made."""
        key = (store.dataset.id, ordinal)
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            with store.history(ordinal - 1) as history:
                segment = next((each for each in history.log if each.first == ordinal), None)
                if segment is None or segment.rows > SENT_ROWS:
                    return None
                found = store.read_log(segment)
        if isinstance(found, list):
            return found
        encoded = encode(store, found)
        self._put(key, encoded)
        return encoded

    def _put(self, key: Key, rows: pa.Table | list[bytes]) -> None:
        size = sum(map(sys.getsizeof, rows)) if isinstance(rows, list) else int(rows.nbytes)
        with self._lock:
            self._forget(key)
            if size > BYTES:
                return
            self._kept[key], self._sizes[key] = rows, size
            self._bytes += size
            while len(self._kept) > COMMITS or self._bytes > BYTES:
                self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        if self._kept.pop(key, None) is not None:
            self._bytes -= self._sizes.pop(key)
