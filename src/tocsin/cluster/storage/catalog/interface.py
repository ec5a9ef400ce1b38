"""What a catalog is: the one place that says what exists, what is committed and what was seen.

Every method is safe to call from any thread and sees or makes one consistent state. Every method that writes is one
transaction: when it returns, the change survives kill -9 and power loss; when it raises, nothing of it was done. The
one exception is a ``StorageError`` with ``fields["uncertain"]``: the storage failed during the commit itself, and only
reading the catalog afterwards tells whether the change is there. It is never repeated silently.

Numbers that do not fit 64 bits and text that cannot be stored (NUL, lone surrogates) are a ``UserError``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

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
    Schedule,
    Segment,
)

T = TypeVar("T", Dataset, Feed, Function, Channel, Broker, Procedure)


class Append(Struct, frozen=True):
    """A written segment file that becomes the next ordinal of ``dataset``."""

    dataset: int
    path: str
    rows: int
    bytes: int


class IdempotencyKey(Struct, frozen=True):
    """What a repeated request with this key is answered. ``append`` is the index of its append in the same commit."""

    feed: int
    key: str
    receipt: bytes
    time: float
    append: int | None = None


class FeedBatch(Struct, frozen=True):
    """A batch of a streaming source. The batches of a feed only grow."""

    feed: int
    batch: int


class Want(Struct, frozen=True):
    """``broker`` wants the subscription. ``args`` is canonical JSON text."""

    subscription: int
    channel: int
    args: str
    broker: int


class Unwant(Struct, frozen=True):
    """``broker`` no longer wants the subscription; None: no broker does."""

    subscription: int
    broker: int | None = None


class Commit(Struct):
    """Everything a group commit makes true at once."""

    appends: list[Append] = field(default_factory=list)
    keys: list[IdempotencyKey] = field(default_factory=list)
    feed_batches: list[FeedBatch] = field(default_factory=list)
    subscribe: list[Want] = field(default_factory=list)
    unsubscribe: list[Unwant] = field(default_factory=list)


class Committed(Struct, frozen=True):
    """The ordinal of each append, in the order of the appends."""

    ordinals: list[int]


class Catalog(ABC):
    # -- life ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def acquire_lease(self) -> None:
        """Makes this process the one data cluster of the catalog, until ``close`` or the end of the process.

        Raises ``LeaseHeld`` with the host and pid of the holder. A holder that was killed holds nothing. A holder
        that lost its lease without noticing gets ``LeaseHeld`` from its next write, which then changes nothing.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives back the lease and every connection. Closing twice is fine; using a closed one is a StorageError."""

    @abstractmethod
    def identity(self) -> int:
        """A number that no other catalog has, the same for ever."""

    # -- definitions -----------------------------------------------------------------------------------------------

    @abstractmethod
    def new_id(self) -> int:
        """An id that was never given before and never will be again: from 1, growing, with gaps."""

    @abstractmethod
    def add(self, definition: Definition) -> None:
        """Raises ``AlreadyExists`` for a name that its kind has in any case (functions: name and arity)."""

    @abstractmethod
    def add_channel(self, channel: Channel, positions: Mapping[int, int]) -> None:
        """Adds a channel together with where it starts in each active dataset: dataset id -> ordinal."""

    @abstractmethod
    def replace(self, definition: Definition) -> None:
        """Puts a new description in the place of the one with the same kind, name and id; else ``NotFound``."""

    @abstractmethod
    def remove(self, definition: Definition) -> list[str]:
        """Removes it with all that belongs to it; returns the paths of the files that nothing refers to any more.

        A dataset takes its segments and the positions in it along; a feed its keys and batches; a channel its
        subscriptions, executions, positions and tells; a broker its wants, the subscriptions nobody else wants and
        its tells; a procedure its schedules.
        """

    @abstractmethod
    def get(self, kind: type[T], name: str) -> T | None:
        """By name in any case; a function by ``name@arity``."""

    @abstractmethod
    def all(self, kind: type[T]) -> list[T]:
        """In the order of their ids."""

    # -- the log ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def commit(self, batch: Commit) -> Committed:
        """Gives each append the next ordinal of its dataset, and does the rest of the batch, all or nothing.

        ``NotFound`` for an unknown dataset, feed, channel or broker; ``Conflict`` for a path or key that is there,
        or a batch that is not later than the feed's last. Unsubscribing something unknown does nothing. A want for
        a subscription that exists only adds the broker. A subscription without any broker left is gone. Where one
        batch unsubscribes and subscribes the same, it is subscribed afterwards.
        """

    @abstractmethod
    def head(self, dataset: int) -> int:
        """The ordinal of the last commit, 0 when there was none."""

    @abstractmethod
    def segments(self, dataset: int) -> list[Segment]:
        """Ordered by first ordinal, then kind."""

    @abstractmethod
    def compact(self, dataset: int, remove: Sequence[str], add: Sequence[Segment]) -> None:
        """Swaps segments. ``Conflict`` when one of the paths to remove is not there any more."""

    @abstractmethod
    def all_paths(self) -> set[str]:
        """Every path a segment or a result refers to; any other file is an orphan."""

    @abstractmethod
    def receipt(self, feed: int, key: str) -> bytes | None:
        """The receipt committed with an idempotency key."""

    @abstractmethod
    def forget_keys(self, before: float) -> int:
        """Forgets the idempotency keys with an earlier time; says how many."""

    @abstractmethod
    def batch_done(self, feed: int, batch: int) -> bool:
        """Whether this batch of the feed, or a later one, was committed."""

    # -- subscriptions ---------------------------------------------------------------------------------------------

    @abstractmethod
    def subscriptions(self, channel: int) -> Iterator[tuple[int, str, list[int]]]:
        """(id, args as JSON text, ids of the brokers) in the order of the ids, as of the call; streams."""

    # -- executions ------------------------------------------------------------------------------------------------

    @abstractmethod
    def record(self, execution: Execution, positions: Mapping[int, int], brokers: Sequence[int]) -> None:
        """The execution, where it ended in each dataset, and a tell for each broker.

        Checked in this order: ``NotFound`` for an unknown channel, ``Conflict`` unless the number follows the last one,
        ``NotFound`` for an unknown dataset, ``Conflict`` for a position that goes back or beyond the head.
        Brokers that do not exist (any more) are left out.
        """

    @abstractmethod
    def positions(self, channel: int) -> dict[int, int]:
        """Dataset id -> the ordinal up to which the channel has seen it."""

    @abstractmethod
    def advance(self, channel: int, positions: Mapping[int, int]) -> None:
        """Moves positions without an execution, under the rules of ``record``."""

    @abstractmethod
    def last_execution(self, channel: int) -> int:
        """The number of the last execution, 0 before the first; expiring does not change it."""

    @abstractmethod
    def first_execution(self, channel: int) -> int:
        """The oldest execution that is kept; the next number when none is."""

    @abstractmethod
    def executions(self, channel: int, after: int = 0, limit: int = 1000) -> list[Execution]:
        """The kept executions with a number above ``after``, in order."""

    @abstractmethod
    def execution(self, channel: int, number: int) -> Execution | None:
        """One execution, if it is kept."""

    @abstractmethod
    def expire(self, channel: int, before: float) -> list[str]:
        """Drops the executions with an earlier time; returns the paths of their results.

        Their tells stay: a broker that was not told in time has to know that it missed something.
        """

    # -- outbox ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def tells(self, broker: int, limit: int = 100) -> list[OutboxEntry]:
        """What the broker still has to be told, by channel and execution."""

    @abstractmethod
    def told(self, tells: Sequence[OutboxEntry]) -> None:
        """The broker has answered; telling again what is done already is fine."""

    @abstractmethod
    def forget_tells(self, broker: int) -> int:
        """The broker is gone; says how many tells it will never get."""

    # -- periodic procedures ---------------------------------------------------------------------------------------

    @abstractmethod
    def schedules(self) -> list[Schedule]:
        """In the order of their ids."""

    @abstractmethod
    def add_schedule(self, schedule: Schedule) -> None:
        """``NotFound`` when there is no such procedure."""

    # -- retrospection ---------------------------------------------------------------------------------------------

    @abstractmethod
    def rows(self, table: str) -> tuple[list[Column], list[tuple[Any, ...]]]:
        """One of ``TABLES`` as typed columns and rows: times as datetime with UTC, arrays as lists."""
