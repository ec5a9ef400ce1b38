"""The catalog in SQL, the same for SQLite and PostgreSQL."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import ceil
from threading import Lock
from typing import Any, TypeVar

import msgspec

from tocsin.cluster.model import (
    Broker,
    Channel,
    Column,
    Dataset,
    Definition,
    Execution,
    Feed,
    Function,
    OutboxEntry,
    Procedure,
    Role,
    Schedule,
    Segment,
)
from tocsin.cluster.storage.catalog import grant_rows, tables
from tocsin.cluster.storage.catalog.commit import (
    SEGMENT,
    Commit,
    apply,
    check_exist,
    checked_text,
    end_subscriptions,
    key_of,
    kind_of,
    marks,
    to_notify,
)
from tocsin.database import Database, Session
from tocsin.errors import AlreadyExists, Conflict, NotFound, StorageError
from tocsin.identity.grants import Grant

ID_BLOCK = 1024
#: SELECTs that one statement may combine.
UNION = 200
EXECUTION = ("channel", "number", "time", "finished", "rows", "subscriptions", "bytes", "path")
#: The channels in a broker's outbox, the longest waiting first. An entry whose execution has expired is the oldest.
WAITING = """
SELECT w.channel FROM (
    SELECT p.channel, (SELECT min(o.execution) FROM outbox o WHERE o.broker = ? AND o.channel = p.channel) AS first
    FROM progress p
) w LEFT JOIN executions e ON e.channel = w.channel AND e.number = w.first
WHERE w.first IS NOT NULL ORDER BY coalesce(e.time, 0), w.channel LIMIT ?
"""
OLDEST = (
    "SELECT * FROM (SELECT broker, channel, execution FROM outbox WHERE broker = ? AND channel = ? "
    "ORDER BY execution LIMIT ?) AS oldest"
)

S = TypeVar("S")
T = TypeVar("T", Dataset, Feed, Function, Channel, Broker, Procedure, Role)


def _decode(spec: str, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(spec, type=kind)
    except msgspec.DecodeError as error:
        raise StorageError(f"the catalog holds a {kind.__name__} that cannot be read: {error}") from error


class Catalog:
    """The one place that says what exists, what is committed and what each channel has read.

    Every method may be called from any thread and sees or makes one consistent state. Every method that writes is one
    transaction: when it returns, the change survives kill -9 and power loss; when it raises, nothing was changed. The
    only exception is a ``StorageError`` with ``fields["uncertain"]``: the storage failed during the commit itself, and
    only reading the catalog shows whether the change was made. It is never retried silently.

    Numbers that need more than 64 bits and text that cannot be stored (NUL, lone surrogates) are a ``UserError``.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._ids_lock = Lock()
        self._next_id = 1
        self._last_id = 0

    def acquire_lease(self) -> None:
        """Make this process the only data cluster of the catalog, until ``close`` or the end of the process.

        Raises ``LeaseHeld`` with the host and pid of the holder. A killed process no longer holds the lease. A holder
        that lost its lease without noticing gets ``LeaseHeld`` from its next write, which then changes nothing."""
        self._db.lease()

    def close(self) -> None:
        """Give back the lease and all connections. Closing twice is allowed; using a closed catalog is an error."""
        self._db.close()

    # -- definitions -----------------------------------------------------------------------------------------------

    def identity(self) -> int:
        """A number that is unique to this catalog and never changes."""
        rows = self._db.query("SELECT value FROM meta WHERE name = 'identity'")
        if not rows:
            with self._db.writing() as session:
                session.run("INSERT INTO meta (name, value) VALUES ('identity', ?)", (secrets.randbits(62),))
                rows = session.rows("SELECT value FROM meta WHERE name = 'identity'")
        return int(rows[0][0])

    def kept_time(self) -> float | None:
        """The time that was kept last."""
        rows = self._db.query("SELECT value FROM meta WHERE name = 'time'")
        return float(rows[0][0]) if rows else None

    def keep_time(self, now: float) -> None:
        sql = (
            "INSERT INTO meta (name, value) VALUES ('time', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        with self._db.writing() as session:
            session.run(sql, (int(now),))

    def new_id(self) -> int:
        """An id that was never given out before and never will be again: ids start at 1 and grow, with gaps."""
        # One durable write reserves many ids: a channel with a million subscriptions needs as many.
        with self._ids_lock:
            if self._next_id > self._last_id:
                with self._db.writing() as session:
                    sql = "UPDATE meta SET value = value + ? WHERE name = 'id' RETURNING value"
                    last = session.rows(sql, (ID_BLOCK,))[0][0]
                self._next_id, self._last_id = last - ID_BLOCK + 1, last
            self._next_id += 1
            return self._next_id - 1

    def add(self, definition: Definition) -> None:
        """Raise ``AlreadyExists`` if its kind has the name already, ignoring case (functions: name and arity)."""
        with self._db.writing() as session:
            self._add(session, definition)

    def add_channel(self, channel: Channel, positions: Mapping[int, int]) -> None:
        """Add a channel and its start in each active dataset: dataset id -> ordinal."""
        with self._db.writing() as session:
            self._add(session, channel)
            self._advance(session, channel.id, positions)

    def _add(self, session: Session, definition: Definition) -> None:
        kind, key = kind_of(definition), checked_text(key_of(definition))
        if session.rows("SELECT 1 FROM definitions WHERE kind = ? AND name = ?", (kind, key)):
            raise AlreadyExists(kind, definition.name)
        spec = msgspec.json.encode(definition).decode()
        row = (definition.id, kind, key, spec)
        if not session.insert("definitions", ("id", "kind", "name", "spec"), [row]):
            raise Conflict(f"the id {definition.id} is in use", id=definition.id)
        if isinstance(definition, Dataset):
            session.run("INSERT INTO heads (dataset, head) VALUES (?, 0)", (definition.id,))
        elif isinstance(definition, Channel):
            session.run("INSERT INTO progress (channel, last) VALUES (?, 0)", (definition.id,))

    def replace(self, definition: Definition) -> None:
        """Replace the definition with the same kind, name and id; ``NotFound`` if there is none."""
        spec = msgspec.json.encode(definition).decode()
        sql = "UPDATE definitions SET spec = ? WHERE id = ? AND kind = ? AND name = ?"
        with self._db.writing() as session:
            if not session.run(sql, (spec, definition.id, kind_of(definition), checked_text(key_of(definition)))):
                raise NotFound(kind_of(definition), definition.name)

    def remove(self, definition: Definition) -> list[str]:
        """Remove a definition and everything that belongs to it; return the paths of files that are no longer needed.

        A dataset takes along its segments and the positions in it; a feed its keys and batches; a channel its
        subscriptions, executions, positions and outbox entries; a broker its outbox entries and the subscriptions
        that no other broker has; a procedure its schedules; and all of them, like a role, their grants."""
        with self._db.writing() as session:
            check_exist(session, type(definition), [definition.id], definition.name)
            paths: list[str] = []
            own = (definition.id,)
            if isinstance(definition, Dataset):
                paths = [row[0] for row in session.rows("SELECT path FROM segments WHERE dataset = ?", own)]
            elif isinstance(definition, Channel):
                sql = "SELECT path FROM executions WHERE channel = ? AND path IS NOT NULL"
                paths = [row[0] for row in session.rows(sql, own)]
                mine = "SELECT id FROM subscriptions WHERE channel = ?"
                session.run(f"DELETE FROM subscription_brokers WHERE subscription IN ({mine})", own)
                session.run("DELETE FROM subscriptions WHERE channel = ?", own)
            elif isinstance(definition, Broker):
                had = session.rows("SELECT subscription FROM subscription_brokers WHERE broker = ?", own)
                session.run("DELETE FROM subscription_brokers WHERE broker = ?", own)
                end_subscriptions(session, [row[0] for row in had])
            session.run("DELETE FROM definitions WHERE id = ?", own)
        return paths

    def get(self, kind: type[T], name: str) -> T | None:
        """Find a definition by name, ignoring case; a function by ``name@arity``."""
        sql = "SELECT spec FROM definitions WHERE kind = ? AND name = ?"
        rows = self._db.query(sql, (kind_of(kind), checked_text(name.lower())))
        return _decode(rows[0][0], kind) if rows else None

    def all(self, kind: type[T]) -> list[T]:
        """All definitions of a kind, ordered by id."""
        rows = self._db.query("SELECT spec FROM definitions WHERE kind = ? ORDER BY id", (kind_of(kind),))
        return [_decode(row[0], kind) for row in rows]

    # -- commits ---------------------------------------------------------------------------------------------------

    def commit(self, batch: Commit) -> list[int]:
        """Apply a whole commit or nothing of it. Each append gets the next ordinal of its dataset; return the ordinals.

        ``NotFound`` for an unknown dataset, feed, channel or broker; ``Conflict`` for a path or key that exists, or a
        batch that is not later than the last one of the feed. Unsubscribing from an unknown subscription does nothing.
        Subscribing to an existing subscription only adds the broker. A subscription without a broker is deleted. If
        one commit both unsubscribes and subscribes, the subscription exists afterwards."""
        if not (batch.appends or batch.keys or batch.feed_batches or batch.subscribe or batch.unsubscribe):
            return []
        with self._db.writing() as session:
            return apply(session, batch)

    def head(self, dataset: int) -> int:
        """The ordinal of the last commit of a dataset; 0 before the first."""
        rows = self._db.query("SELECT head FROM heads WHERE dataset = ?", (dataset,))
        if not rows:
            raise NotFound("dataset", str(dataset))
        return int(rows[0][0])

    def segments(self, dataset: int) -> list[Segment]:
        """The segments of a dataset, ordered by first ordinal, then kind."""
        sql = f"SELECT {', '.join(SEGMENT)} FROM segments WHERE dataset = ? ORDER BY first, kind, last, path"
        return [Segment(*row) for row in self._db.query(sql, (dataset,))]

    def compact(self, dataset: int, remove: Sequence[str], add: Sequence[Segment]) -> None:
        """Replace segments by others. ``Conflict`` if one of the paths to remove no longer exists."""
        if any(segment.dataset != dataset for segment in add):
            raise Conflict("the segments to add belong to another dataset")
        with self._db.writing() as session:
            # The row lock keeps two compactions of a dataset apart.
            if not session.run("UPDATE heads SET head = head WHERE dataset = ?", (dataset,)):
                raise NotFound("dataset", str(dataset))
            present = {row[0] for row in session.rows("SELECT path FROM segments WHERE dataset = ?", (dataset,))}
            if gone := sorted(set(remove) - present):
                raise Conflict(f"{len(gone)} of the segments to replace are gone, such as {gone[0]!r}", gone=gone)
            session.each("DELETE FROM segments WHERE path = ?", [(path,) for path in remove])
            rows = [msgspec.structs.astuple(segment) for segment in add]
            for segment in add:
                checked_text(segment.path)
            if session.insert("segments", SEGMENT, rows) != len(rows):
                raise Conflict("a segment with one of the paths to add is there already")

    def all_paths(self) -> set[str]:
        """All paths that a segment or a result refers to; any other file is an orphan."""
        sql = "SELECT path FROM segments UNION ALL SELECT path FROM executions WHERE path IS NOT NULL"
        return {row[0] for row in self._db.query(sql)}

    def receipt(self, feed: int, key: str) -> bytes | None:
        """The receipt that was committed with an idempotency key."""
        sql = "SELECT receipt FROM idempotency WHERE feed = ? AND key = ?"
        rows = self._db.query(sql, (feed, checked_text(key)))
        return bytes(rows[0][0]) if rows else None

    def forget_keys(self, before: float) -> int:
        """Delete the idempotency keys with an earlier time; return how many."""
        with self._db.writing() as session:
            return session.run("DELETE FROM idempotency WHERE time < ?", (before,))

    def batch_done(self, feed: int, batch: int) -> bool:
        """Whether this batch of the feed, or a later one, was committed."""
        return bool(self._db.query("SELECT 1 FROM feed_batches WHERE feed = ? AND batch >= ?", (feed, batch)))

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscriptions(self, channel: int) -> Iterator[tuple[int, str, list[int]]]:
        """Stream (id, args as JSON text, ids of the brokers), ordered by id, as of the time of the call."""
        sql = (
            "SELECT s.id, s.args, b.broker FROM subscriptions s JOIN subscription_brokers b ON b.subscription = s.id "
            "WHERE s.channel = ? ORDER BY s.id, b.broker"
        )
        last: tuple[int, str, list[int]] | None = None
        for id, args, broker in self._db.stream(sql, (channel,)):
            if last is not None and last[0] == id:
                last[2].append(broker)
                continue
            if last is not None:
                yield last
            last = (id, args, [broker])
        if last is not None:
            yield last

    def ended(self, channel: int, id: int) -> bytes | None:
        """The digest of the arguments of a subscription that has ended; None once no results of it are stored."""
        rows = self._db.query("SELECT digest FROM ended_subscriptions WHERE id = ? AND channel = ?", (id, channel))
        return bytes(rows[0][0]) if rows else None

    # -- executions ------------------------------------------------------------------------------------------------

    def _advance(self, session: Session, channel: int, positions: Mapping[int, int]) -> None:
        if not positions:
            return
        ids = sorted(positions)
        heads: dict[int, int] = dict(
            session.rows(f"SELECT dataset, head FROM heads WHERE dataset IN ({marks(ids)})", ids)
        )
        if unknown := [dataset for dataset in ids if dataset not in heads]:
            raise NotFound("dataset", str(unknown[0]))
        for dataset in ids:
            ordinal = positions[dataset]
            if not 0 <= ordinal <= heads[dataset]:
                raise Conflict(f"dataset {dataset} ends at {heads[dataset]}, before the position {ordinal}")
            upsert = (
                "INSERT INTO positions (channel, dataset, ordinal) VALUES (?, ?, ?) ON CONFLICT (channel, dataset) "
                "DO UPDATE SET ordinal = excluded.ordinal WHERE positions.ordinal <= excluded.ordinal"
            )
            if not session.run(upsert, (channel, dataset, ordinal)):
                raise Conflict(f"the position of channel {channel} in dataset {dataset} is already past {ordinal}")

    def record(self, execution: Execution, positions: Mapping[int, int], brokers: Sequence[int]) -> None:
        """Store an execution, its new positions, and an outbox entry for each broker.

        Checked in this order: ``NotFound`` for an unknown channel, ``Conflict`` unless the number follows the last one,
        ``NotFound`` for an unknown dataset, ``Conflict`` for a position that goes back or past the head.
        Brokers that no longer exist are left out."""
        with self._db.writing() as session:
            own = (execution.channel,)
            last = session.rows("SELECT last FROM progress WHERE channel = ?", own)
            if not last:
                raise NotFound("channel", str(execution.channel))
            sql = "UPDATE progress SET last = ? WHERE channel = ? AND last = ?"
            if not session.run(sql, (execution.number, execution.channel, execution.number - 1)):
                message = f"execution {execution.number} of channel {execution.channel} does not follow {last[0][0]}"
                raise Conflict(message, last=last[0][0])
            checked_text(execution.path or "")
            session.insert("executions", EXECUTION, [msgspec.structs.astuple(execution)])
            self._advance(session, execution.channel, positions)
            own_brokers = sorted(set(brokers))
            to_notify(session, [(broker, execution.channel, execution.number) for broker in own_brokers])

    def positions(self, channel: int) -> dict[int, int]:
        """Dataset id -> the ordinal up to which the channel has read it."""
        sql = "SELECT dataset, ordinal FROM positions WHERE channel = ? ORDER BY dataset"
        return dict(self._db.query(sql, (channel,)))

    def advance(self, channel: int, positions: Mapping[int, int]) -> None:
        """Change positions without an execution, under the rules of ``record``."""
        with self._db.writing() as session:
            check_exist(session, Channel, [channel])
            self._advance(session, channel, positions)

    def last_execution(self, channel: int) -> int:
        """The number of the last execution; 0 before the first. Expiry does not change it."""
        with self._db.reading() as session:
            return self._last(session, channel)

    def _last(self, session: Session, channel: int) -> int:
        rows = session.rows("SELECT last FROM progress WHERE channel = ?", (channel,))
        if not rows:
            raise NotFound("channel", str(channel))
        return int(rows[0][0])

    def first_execution(self, channel: int) -> int:
        """The number of the oldest stored execution; the next number if none is stored."""
        with self._db.reading() as session:
            last = self._last(session, channel)
            first = session.rows("SELECT min(number) FROM executions WHERE channel = ?", (channel,))[0][0]
        return last + 1 if first is None else int(first)

    def executions(self, channel: int, after: int = 0, limit: int = 1000) -> list[Execution]:
        """The stored executions with a number above ``after``, in order."""
        sql = f"SELECT {', '.join(EXECUTION)} FROM executions WHERE channel = ? AND number > ? ORDER BY number"
        return [Execution(*row) for row in self._db.query(f"{sql} LIMIT ?", (channel, after, limit))]

    def execution(self, channel: int, number: int) -> Execution | None:
        """One execution; None if it is not stored."""
        sql = f"SELECT {', '.join(EXECUTION)} FROM executions WHERE channel = ? AND number = ?"
        rows = self._db.query(sql, (channel, number))
        return Execution(*rows[0]) if rows else None

    def expire(self, channel: int, before: float) -> list[str]:
        """Delete the executions with an earlier time, and what is known of ended subscriptions without results.
        Return the paths of the results.

        Their outbox entries stay: a broker that was not notified in time must learn that it missed something."""
        with self._db.writing() as session:
            sql = "DELETE FROM executions WHERE channel = ? AND time < ? RETURNING path"
            paths = [row[0] for row in session.rows(sql, (channel, before)) if row[0] is not None]
            first = session.rows("SELECT min(number) FROM executions WHERE channel = ?", (channel,))[0][0]
            ended = (channel, 2**62 if first is None else first)
            session.run("DELETE FROM ended_subscriptions WHERE channel = ? AND execution < ?", ended)
            return paths

    # -- outbox ----------------------------------------------------------------------------------------------------

    def outbox(self, broker: int, limit: int = 100, known: Collection[OutboxEntry] = ()) -> list[OutboxEntry]:
        """The notifications that the broker has not confirmed, without those that are ``known``.

        Every channel gets the same share, so that none waits for the backlog of another: first the oldest entry of each
        channel, then the second of each. Channels with the fewest known entries come first, then those that have
        waited longest."""
        held = Counter(entry.channel for entry in known)
        share = total = 0
        with self._db.reading() as session:
            unread = [channel for (channel,) in session.rows(WAITING, (broker, limit + len(held)))]
            found: dict[int, list[OutboxEntry]] = {channel: [] for channel in unread}
            while unread and total < limit:
                share += ceil((limit - total) / len(unread))
                read = Counter[int]()
                for part in (unread[at : at + UNION] for at in range(0, len(unread), UNION)):
                    values = [value for channel in part for value in (broker, channel, share + held[channel])]
                    entries = [
                        OutboxEntry(*row) for row in session.rows(" UNION ALL ".join([OLDEST] * len(part)), values)
                    ]
                    read.update(entry.channel for entry in entries)
                    for channel in part:
                        found[channel] = [each for each in entries if each.channel == channel and each not in known][
                            :share
                        ]
                unread = [channel for channel in unread if read[channel] == share + held[channel]]
                total = sum(map(len, found.values()))
        ranks = zip_longest(*(found[channel] for channel in sorted(found, key=held.__getitem__)))
        return [entry for rank in ranks for entry in rank if entry is not None][:limit]

    def delete_notified(self, entries: Sequence[OutboxEntry]) -> None:
        """Delete notifications that the broker has confirmed; deleting one twice is allowed."""
        if not entries:
            return
        with self._db.writing() as session:
            rows = [(entry.broker, entry.channel, entry.execution) for entry in entries]
            session.each("DELETE FROM outbox WHERE broker = ? AND channel = ? AND execution = ?", rows)

    def delete_outbox(self, broker: int) -> int:
        """Delete all notifications of a broker that is gone; return how many."""
        with self._db.writing() as session:
            return session.run("DELETE FROM outbox WHERE broker = ?", (broker,))

    # -- periodic procedures ---------------------------------------------------------------------------------------

    def schedules(self) -> list[Schedule]:
        """All schedules, ordered by id."""
        sql = (
            "SELECT s.id, d.spec, s.args, s.started FROM schedules s JOIN definitions d ON d.id = s.procedure "
            "ORDER BY s.id"
        )
        rows = self._db.query(sql)
        return [
            Schedule(id, _decode(spec, Procedure).name, tuple(_decode(args, list[Any])), started)
            for id, spec, args, started in rows
        ]

    def add_schedule(self, schedule: Schedule) -> None:
        """``NotFound`` if the procedure does not exist."""
        with self._db.writing() as session:
            sql = "SELECT id FROM definitions WHERE kind = 'procedure' AND name = ?"
            rows = session.rows(sql, (checked_text(schedule.procedure.lower()),))
            if not rows:
                raise NotFound("procedure", schedule.procedure)
            args = msgspec.json.encode(schedule.args).decode()
            row = (schedule.id, rows[0][0], args, schedule.started)
            if not session.insert("schedules", ("id", "procedure", "args", "started"), [row]):
                raise Conflict(f"the id {schedule.id} is in use", id=schedule.id)

    # -- grants ----------------------------------------------------------------------------------------------------

    def grants(self) -> list[Grant]:
        """All grants, in the order in which they were made."""
        with self._db.reading() as session:
            return grant_rows.read(session)

    def add_grant(self, grant: Grant) -> bool:
        """False if it exists; ``NotFound`` if the role, channel, feed or dataset does not."""
        id = self.new_id()
        with self._db.writing() as session:
            return grant_rows.add(session, id, grant)

    def remove_grants(self, grant: Grant) -> int:
        """Remove this grant; without conditions, all grants of the role on the object. Return how many."""
        with self._db.writing() as session:
            return grant_rows.remove(session, grant)

    # -- queries -----------------------------------------------------------------------------------------------

    def rows(self, table: str) -> tuple[list[Column], list[tuple[Any, ...]]]:
        """The columns and the rows of one of the tables of ``TABLES``."""
        reader = tables.READERS.get(table.lower())
        if reader is None:
            raise NotFound("catalog table", table, hint=f"the tables are {', '.join(tables.READERS)}")
        with self._db.reading() as session:
            return tables.COLUMNS[table.lower()], reader(session)
