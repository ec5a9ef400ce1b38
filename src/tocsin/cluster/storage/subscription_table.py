"""The BE subscriptions of one channel: in memory as sorted arrays, and as a view for Spark (see ``chunks``).

Identical subscriptions are stored once, with the set of their brokers. A million subscriptions with two strings take
about 250 MB, most of it for the canonical texts and the dictionary that finds them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.cluster.model import Channel, Column, Subscription
from tocsin.cluster.records import type_ddl, value_validators
from tocsin.cluster.storage.chunks import ChunkedView
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import NotFound, TypeMismatch

if TYPE_CHECKING:
    from tocsin.cluster.spark.session import SparkRuntime

Ids = npt.NDArray[np.int64]

#: Texts decoded at once: limits the memory that building a view needs.
_BATCH = 50_000
#: Types whose JSON values Arrow accepts as they are; other values need ``coerce``.
_PLAIN = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class SubscriptionTable:
    """May be used from any thread."""

    def __init__(self, channel: Channel, store: SegmentStore) -> None:
        self.channel = channel
        columns = [Column(f"p_{number}", parameter.type) for number, parameter in enumerate(channel.parameters)]
        self.schema: pa.Schema = type_ddl.arrow_schema([Column("subscription_id", "bigint"), *columns])
        self._names = {parameter.name.lower(): number for number, parameter in enumerate(channel.parameters)}
        self._lock = threading.RLock()
        self._by_text: dict[str, int] = {}
        self.argument_bytes = 0  # of all texts
        self._per_broker: Counter[int] = Counter()
        # Parallel and sorted by id. Set 0 is the empty set of brokers: a removed subscription whose place is not
        # reclaimed yet.
        self._used = 0
        self._ids: Ids = np.empty(16, np.int64)
        self._set: npt.NDArray[np.int32] = np.empty(16, np.int32)
        self._text: list[str] = []
        self._sets: list[frozenset[int]] = [frozenset()]
        self._set_numbers: dict[frozenset[int], int] = {frozenset(): 0}
        self._fresh: list[int] = []
        self._begin: Ids = np.empty(16, np.int64)
        self._position = 0
        self._running = False
        self._late: dict[int, None] = {}
        folder = f"subscriptions/{channel.id}"
        self._view = ChunkedView(store, folder, self.schema, self._take_fresh, self.live, self.__len__)

    # --- arguments

    def canonical(self, args: Sequence[Any] | Mapping[str, Any]) -> str:
        """The checked arguments as JSON in the order of the parameters: equal texts are the same subscription."""
        given = self._by_name(args) if isinstance(args, Mapping) else self._by_position(args)
        typed = []
        for parameter, value in zip(self.channel.parameters, given, strict=True):
            try:
                typed.append(type_ddl.coerce(value, parameter.type))
            except TypeMismatch as error:
                message = f"parameter {parameter.name!r} of channel {self.channel.name!r}: {error.message}"
                raise TypeMismatch(message, hint=error.hint, parameter=parameter.name) from error
        # Sorted, because the keys of a map have no order.
        return msgspec.json.encode(value_validators.json_value(typed), order="sorted").decode()

    def _by_position(self, args: Sequence[Any]) -> Sequence[Any]:
        if not isinstance(args, Sequence) or isinstance(args, (str, bytes, bytearray)):
            raise TypeMismatch(
                f"arguments of channel {self.channel.name!r} are a list or an object, not {type(args).__name__}",
                hint=self._signature(),
            )
        if len(args) != len(self.channel.parameters):
            raise TypeMismatch(
                f"channel {self.channel.name!r} takes {len(self.channel.parameters)} arguments, not {len(args)}",
                hint=self._signature(),
            )
        return args

    def _by_name(self, args: Mapping[str, Any]) -> Sequence[Any]:
        given: list[Any] = [msgspec.UNSET] * len(self.channel.parameters)
        for name, value in args.items():
            number = self._names.get(name.lower()) if isinstance(name, str) else None
            if number is None:
                message = f"channel {self.channel.name!r} has no parameter {name!r}"
                raise TypeMismatch(message, hint=self._signature(), parameter=str(name))
            if given[number] is not msgspec.UNSET:
                message = f"parameter {name!r} of channel {self.channel.name!r} is given twice"
                raise TypeMismatch(message, hint=self._signature(), parameter=name)
            given[number] = value
        missing = [p.name for p, value in zip(self.channel.parameters, given, strict=True) if value is msgspec.UNSET]
        if missing:
            raise TypeMismatch(
                f"channel {self.channel.name!r} needs {', '.join(map(repr, missing))}",
                hint=self._signature(),
                parameter=missing[0],
            )
        return given

    def _signature(self) -> str:
        inside = ", ".join(f"{parameter.name} {parameter.type}" for parameter in self.channel.parameters)
        return f"its signature is {self.channel.name}({inside})"

    # --- changes

    def load(self, rows: Iterable[tuple[int, str, list[int]]], position: int = 0) -> None:
        """Load the subscriptions of the catalog, once, at the start; ``position`` is the last execution."""
        with self._lock:
            if self._used:
                raise ValueError("the table was loaded before")
            ids: list[int] = []
            sets: list[int] = []
            for id, text, brokers in rows:
                ids.append(id)
                sets.append(self._set_number(frozenset(brokers)))
                self._per_broker.update(brokers)
                self._text.append(text)
                self._by_text[text] = id
            self.argument_bytes = sum(map(size_of, self._text))
            self._ids, self._set, self._used = np.array(ids, np.int64), np.array(sets, np.int32), len(ids)
            if np.any(self._ids[1:] <= self._ids[:-1]):
                order = np.argsort(self._ids, kind="stable")
                self._ids, self._set = self._ids[order], self._set[order]
                self._text = [self._text[at] for at in order]
            self._fresh = ids
            # Each of them was created at or before this execution.
            self._begin, self._position = np.full(len(ids), position, np.int64), position

    def add(self, id: int, canonical: str, broker: int) -> None:
        """Add ``broker`` to the subscription; every view taken from now on includes a new subscription."""
        with self._lock:
            at = self._at(id)
            if at is None:
                known = self._by_text.get(canonical)
                if known is not None:
                    raise ValueError(f"subscription {known} has these arguments already")
                self._insert(id, canonical, frozenset((broker,)))
                self._per_broker[broker] += 1
            elif self._set[at] == 0 or self._text[at] != canonical:
                raise ValueError(f"subscription {id} was used for other arguments")
            else:
                before = self._sets[self._set[at]]
                self._set[at] = self._set_number(before | {broker})
                self._per_broker[broker] += broker not in before

    def discard(self, id: int, broker: int | None) -> bool:
        """Remove ``broker`` (None: all brokers) from the subscription; return whether it had it."""
        with self._lock:
            at = self._at(id)
            if at is None or self._set[at] == 0:
                return False
            before = self._sets[self._set[at]]
            after = frozenset() if broker is None else before - {broker}
            if after == before:
                return False
            self._set[at] = self._set_number(after)
            self._per_broker.subtract(before - after)
            if not after:
                del self._by_text[self._text[at]]
                self.argument_bytes -= size_of(self._text[at])
                self._text[at] = ""
                if self._used > 2 * len(self._by_text) + 1024:
                    self._reclaim()
            return True

    def _insert(self, id: int, text: str, brokers: frozenset[int]) -> None:
        if self._used == len(self._ids):
            self._ids = np.resize(self._ids, 2 * self._used + 16)
            self._set = np.resize(self._set, 2 * self._used + 16)
            self._begin = np.resize(self._begin, 2 * self._used + 16)
        at = int(np.searchsorted(self._ids[: self._used], id))
        # Ids grow, so this is nearly always the end.
        self._ids[at + 1 : self._used + 1] = self._ids[at : self._used]
        self._set[at + 1 : self._used + 1] = self._set[at : self._used]
        self._begin[at + 1 : self._used + 1] = self._begin[at : self._used]
        self._ids[at], self._set[at], self._begin[at] = id, self._set_number(brokers), self._position
        if self._running:
            self._late[id] = None
        self._text.insert(at, text)
        self._used += 1
        self._by_text[text] = id
        self.argument_bytes += size_of(text)
        self._fresh.append(id)

    def _reclaim(self) -> None:
        live = self._set[: self._used] != 0
        self._text = [text for text, exists in zip(self._text, live.tolist(), strict=True) if exists]
        self._ids, self._set = self._ids[: self._used][live], self._set[: self._used][live]
        self._begin = self._begin[: self._used][live]
        self._used = len(self._ids)

    def _set_number(self, brokers: frozenset[int]) -> int:
        number = self._set_numbers.get(brokers)
        if number is None:
            number = self._set_numbers[brokers] = len(self._sets)
            self._sets.append(brokers)
        return number

    # --- from which execution on

    def start_run(self) -> None:
        """Called before a run of the channel takes its view: it may not include what is added from now on."""
        with self._lock:
            self._running = True

    def executed(self, number: int) -> None:
        """Set the last execution. Subscriptions that it may not have included begin after it."""
        with self._lock:
            if number > self._position:
                self._position = number
                for id in self._late:
                    at = self._at(id)
                    if at is not None:
                        self._begin[at] = number

    def end_run(self) -> None:
        with self._lock:
            self._running = False
            self._late.clear()

    def begins_after(self, id: int) -> int | None:
        """Every execution after this one includes the subscription. None: an execution runs that may not."""
        with self._lock:
            at = self._at(id)
            if at is None or self._set[at] == 0:
                raise self.missing(id)
            return None if id in self._late else int(self._begin[at])

    # --- reads

    def __len__(self) -> int:
        return len(self._by_text)

    def find(self, canonical: str) -> int | None:
        with self._lock:
            return self._by_text.get(canonical)

    def text(self, id: int) -> str | None:
        """The canonical arguments of a subscription that exists."""
        with self._lock:
            at = self._at(id)
            return None if at is None or self._set[at] == 0 else self._text[at]

    def brokers(self, id: int) -> frozenset[int]:
        """The brokers of the subscription; empty if it does not exist."""
        with self._lock:
            at = self._at(id)
            return frozenset() if at is None else self._sets[self._set[at]]

    def get(self, id: int) -> Subscription:
        with self._lock:
            at = self._at(id)
            if at is None or self._set[at] == 0:
                raise self.missing(id)
            args = tuple(msgspec.json.decode(self._text[at]))
            return Subscription(id, self.channel.id, args, self._sets[self._set[at]])

    def ids(self) -> Ids:
        """All ids, sorted."""
        with self._lock:
            ids: Ids = self._ids[: self._used][self._set[: self._used] != 0]
            return ids

    def of_broker(self, broker: int) -> Ids:
        """The ids of the broker's subscriptions, sorted."""
        with self._lock:
            member = np.array([broker in brokers for brokers in self._sets])
            ids: Ids = self._ids[: self._used][member[self._set[: self._used]]]
            return ids

    def all_brokers(self) -> list[int]:
        """Those that have a subscription, in order."""
        with self._lock:
            return sorted(broker for broker, count in self._per_broker.items() if count)

    def live(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which of these subscriptions exist."""
        with self._lock:
            live: npt.NDArray[np.bool_] = self._sets_of(np.asarray(ids, np.int64)) != 0
            return live

    def brokers_of(self, ids: Ids) -> dict[int, Ids]:
        """The brokers of these subscriptions, each with the ids that it has, sorted."""
        ids = np.asarray(ids, np.int64)
        if np.any(ids[1:] <= ids[:-1]):
            ids = np.sort(ids)
            ids = ids[np.append(True, ids[1:] != ids[:-1])]
        with self._lock:
            numbers = self._sets_of(ids)
            sets = list(self._sets)
        if len(sets) <= 1 << 16:
            numbers = numbers.astype(np.uint16)  # numpy sorts small integers by radix, several times faster
        sizes = np.bincount(numbers, minlength=len(sets))
        present = np.flatnonzero(sizes)
        grouped = ids[np.argsort(numbers, kind="stable")] if len(present) > 1 else ids
        ends = np.cumsum(sizes[present])
        pieces: dict[int, list[Ids]] = {}
        for number, end, size in zip(present.tolist(), ends.tolist(), sizes[present].tolist(), strict=True):
            for broker in sets[number]:
                pieces.setdefault(broker, []).append(grouped[end - size : end])
        return {
            broker: groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))
            for broker, groups in sorted(pieces.items())
        }

    def missing(self, id: int) -> NotFound:
        return NotFound("subscription", str(id), hint=f"SELECT * FROM {self.channel.name}Subscriptions lists them")

    def _at(self, id: int) -> int | None:
        at = int(np.searchsorted(self._ids[: self._used], id))
        return at if at < self._used and self._ids[at] == id else None

    def _sets_of(self, ids: Ids) -> npt.NDArray[Any]:
        if not self._used:
            return np.zeros(len(ids), np.int32)
        known = self._ids[: self._used]
        at = np.minimum(np.searchsorted(known, ids), self._used - 1)
        return np.where(known[at] == ids, self._set[at], 0)

    # --- for Spark

    def view(self, runtime: SparkRuntime) -> AbstractContextManager[str]:
        """The name of a temporary view with ``subscription_id``, ``p_0`` …, which exists until the ``with`` block ends.

        It has all subscriptions added before, and perhaps removed ones: filter the results with ``live``.
        """
        return self._view.hold(runtime)

    def arrow(self) -> pa.Table:
        """Exactly the existing subscriptions, in the columns of the view and ``brokers``."""
        with self._lock:
            ids = self.ids()
            texts = [text for text in self._text if text]
            brokers = [sorted(self._sets[number]) for number in self._sets_of(ids).tolist()]
        return self._typed(ids, texts).append_column("brokers", pa.array(brokers, pa.list_(pa.int64())))

    def close(self) -> None:
        """The channel is dropped: forgets Spark's memory and the files."""
        self._view.close()

    def _take_fresh(self) -> pa.Table:
        """The subscriptions added since the last call, typed."""
        with self._lock:
            fresh = np.sort(np.array(self._fresh, np.int64))
            ids = fresh[self._sets_of(fresh) != 0]
            texts = [self._text[at] for at in np.searchsorted(self._ids[: self._used], ids).tolist()]
            self._fresh = []
        return self._typed(ids, texts)

    def _typed(self, ids: Ids, texts: list[str]) -> pa.Table:
        kinds = [type_ddl.spark_type(parameter.type) for parameter in self.channel.parameters]
        tables = []
        for start in range(0, len(ids), _BATCH):
            part = texts[start : start + _BATCH]
            rows = msgspec.json.decode(f"[{','.join(part)}]")
            columns = list(zip(*rows, strict=True))
            arrays = [pa.array(ids[start : start + _BATCH])]
            for kind, column in zip(kinds, columns, strict=True):
                if kind not in _PLAIN:
                    column = tuple(type_ddl.coerce(value, kind) for value in column)
                arrays.append(type_ddl.values_to_arrow(column, kind))
            tables.append(pa.Table.from_arrays(arrays, schema=self.schema))
        return pa.concat_tables(tables) if tables else self.schema.empty_table()
