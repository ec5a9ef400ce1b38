"""Results: grouped by subscription, stored as one segment per execution, and read as lines of JSON.

Nothing here handles single records: payloads come from Spark as JSON text and leave as bytes, in whole columns.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tocsin.cluster.model import Execution
from tocsin.cluster.storage.segments import SegmentStore, Written
from tocsin.errors import Damaged

#: Bytes of a chunk that ``pull`` yields, and of a row group that ``write`` makes.
CHUNK = 1 << 20
_BATCH = 16 * 1024
#: Executions whose results stay in memory for notifications, and bytes of a file up to which all of it does.
RECENT = 4
RECENT_BYTES = 4 * 1024 * 1024

SCHEMA = pa.schema(
    [
        pa.field("subscription_id", pa.int64(), nullable=False),
        pa.field("count", pa.int32(), nullable=False),
        pa.field("payload", pa.large_string(), nullable=False),
    ]
)

Ids = npt.NDArray[np.int64]


def group(table: pa.Table) -> pa.Table:
    """One row for each subscription, ordered by id: its payloads as a JSON array, by ``rank`` or in the given order."""
    if table.num_rows == 0:
        return SCHEMA.empty_table()
    ids = _ids(table)
    # 64-bit offsets: all payloads of an execution together may exceed 2 GiB.
    payload = pc.cast(table["payload"], pa.large_string())
    if payload.null_count:
        payload = pc.fill_null(payload, "null")
    order = _order(ids, table["rank"] if "rank" in table.column_names else None)
    if order is not None:
        ids, payload = ids[order], payload.take(pa.array(order))
    values = payload.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    offsets = np.append(starts, len(ids))
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    joined = pc.binary_join(lists, pa.scalar(",", pa.large_string()))
    counts = pa.array(np.diff(offsets).astype(np.int32))
    return pa.Table.from_arrays([pa.array(ids[starts]), counts, _glue("[", joined, "]")], schema=SCHEMA)


def _order(ids: Ids, rank: pa.ChunkedArray | None) -> npt.NDArray[np.intp] | None:
    if rank is not None:
        return np.lexsort((rank.to_numpy(), ids))
    if bool((ids[1:] >= ids[:-1]).all()):
        return None
    return np.argsort(ids, kind="stable")


def _ids(table: pa.Table) -> Ids:
    ids: Ids = table["subscription_id"].to_numpy().astype(np.int64, copy=False)
    return ids


def _glue(*pieces: Any) -> pa.Array:
    kind = pa.large_string()
    typed = [pa.scalar(piece, kind) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*typed, pa.scalar("", kind))


class ResultStore:
    """The result segments of all channels.

    ``Execution.path`` names a file written here, or a folder of part files of the same columns that executors wrote.
    ``damaged`` is called when results cannot be read; it raises the error if they have expired meanwhile.
    """

    def __init__(self, store: SegmentStore, damaged: Callable[[Execution, Damaged], None]) -> None:
        self.store = store
        self.damaged = damaged

    @staticmethod
    def folder(channel: int, number: int) -> str:
        """The folder of an execution's results; one for a thousand executions, because a huge one is slow to list."""
        return f"results/{channel}/{number // 1000}"

    def write(self, channel: int, number: int, grouped: pa.Table) -> Written:
        rows = max(1, grouped.num_rows)
        size = max(1, grouped.nbytes // rows)
        return self.store.write(grouped, self.folder(channel, number), row_group=max(256, CHUNK // size))

    def pull(self, execution: Execution, ids: Ids) -> Iterator[bytes]:
        """The results of these subscriptions as NDJSON, one line each, in chunks of about a megabyte.

        Of a damaged file, the lines that cannot be read are gaps."""
        ids = np.unique(np.asarray(ids, np.int64))
        if execution.path is None or not len(ids):
            return
        read = [np.zeros(0, np.int64)]
        try:
            for part in self.store.parts(execution.path):
                with self.store.open(part) as file, self.store.reading(part):
                    for table in _matching(file, ids):
                        read.append(_ids(table))
                        yield from _lines(table, execution.number)
        except Damaged as error:
            self.damaged(execution, error)
            yield from _gap_lines(execution, np.setdiff1d(ids, np.concatenate(read)))

    def result_paths(self, executions: Iterable[Execution]) -> list[tuple[str, int, float]]:
        """(segment, execution, time) of every result file, for ``<Channel>Results``."""
        return [
            (part, execution.number, execution.time)
            for execution in executions
            if execution.path is not None
            for part in self.store.parts(execution.path)
        ]


class RecentResults:
    """The results of the newest executions, read once however many brokers are notified of them."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[int, int], Future[pa.Table | Ids]] = OrderedDict()

    def ids(self, execution: Execution) -> Ids:
        """The subscriptions that have results."""
        found = self._read(execution)
        return _ids(found) if isinstance(found, pa.Table) else found

    def matching(self, execution: Execution, ids: Ids) -> Ids:
        """Those of the ids that have results; all of them where that cannot be read."""
        try:
            return np.intersect1d(ids, self.ids(execution))
        except Damaged as error:
            self._results.damaged(execution, error)
            return ids

    def array(self, execution: Execution, ids: Ids) -> bytes:
        """The results of these subscriptions as a JSON array."""
        found: pa.Table | Ids | None
        try:
            found = self._read(execution)
        except Damaged:
            found = None
        if isinstance(found, pa.Table):
            chunks = _lines(found.filter(pa.array(np.isin(_ids(found), ids))), execution.number)
        else:
            chunks = self._results.pull(execution, ids)
        return b"[" + b"".join(chunks).rstrip(b"\n").replace(b"\n", b",") + b"]"

    def _read(self, execution: Execution) -> pa.Table | Ids:
        """Whole, or only the ids where the file is large. Others wait for the first that asks."""
        key = (execution.channel, execution.number)
        with self._lock:
            future = self._tables.get(key)
            first = future is None
            if future is None:
                future = self._tables[key] = Future()
                while len(self._tables) > RECENT:
                    self._tables.popitem(last=False)
        if first:
            try:
                future.set_result(self._load(execution))
            except BaseException as error:
                with self._lock:
                    self._tables.pop(key, None)
                future.set_exception(error)
        return future.result()

    def _load(self, execution: Execution) -> pa.Table | Ids:
        if execution.path is None:
            return np.zeros(0, np.int64)
        if execution.bytes <= RECENT_BYTES:
            return self._results.store.read(execution.path)
        return _ids(self._results.store.read(execution.path, columns=["subscription_id"]))


def _gap_lines(execution: Execution, ids: Ids) -> Iterator[bytes]:
    """A line for each subscription that may have lost its results of the execution."""
    for at in range(0, len(ids), _BATCH):
        line = b'{"subscription":%d,"execution":%d,"count":0,"results":[],"gap":"damaged"}\n'
        yield b"".join(line % (id, execution.number) for id in ids[at : at + _BATCH].tolist())


def _matching(file: pq.ParquetFile, ids: Ids) -> Iterator[pa.Table]:
    """The rows of the ids; payloads are read only in row groups that have some, and large groups in batches."""
    for number in _candidates(file, ids):
        present = _ids(file.read_row_group(number, columns=["subscription_id"], use_threads=False))
        hits = ids[np.minimum(np.searchsorted(ids, present), len(ids) - 1)] == present
        if not hits.any():
            continue
        at = 0
        for batch in file.iter_batches(_BATCH, row_groups=[number], columns=SCHEMA.names, use_threads=False):
            here = hits[at : at + len(batch)]
            at += len(batch)
            if here.any():
                table = pa.Table.from_batches([batch])
                yield table if here.all() else table.filter(pa.array(here))


def _candidates(file: pq.ParquetFile, ids: Ids) -> Iterator[int]:
    """Row groups whose range of ids includes one of them."""
    column = file.schema_arrow.get_field_index("subscription_id")
    for number in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(number).column(column).statistics if column >= 0 else None
        if statistics is not None and statistics.has_min_max:
            first = np.searchsorted(ids, statistics.min, "left")
            if first == len(ids) or ids[first] > statistics.max:
                continue
        yield number


def _lines(table: pa.Table, execution: int) -> Iterator[bytes]:
    kind = pa.large_string()
    payload = pc.cast(table["payload"], kind)
    lines = _glue(
        '{"subscription":',
        pc.cast(table["subscription_id"], kind),
        f',"execution":{execution},"count":',
        pc.cast(table["count"], kind),
        ',"results":',
        payload,
        "}\n",
    )
    for chunk in lines.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        data = memoryview(chunk.buffers()[2])
        at = 0
        while at < len(chunk):
            # Whole lines, and at least one, however long it is.
            to = max(at + 1, int(np.searchsorted(offsets, offsets[at] + CHUNK, "right")) - 1)
            yield bytes(data[offsets[at] : offsets[to]])
            at = to
