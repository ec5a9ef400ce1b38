"""The one store of the network's users, in a thread of its own. SQLite or PostgreSQL.

Without a coordinator, several broker processes on one machine may share the file.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from tocsin.config import IdentityConfig
from tocsin.database import open_database
from tocsin.errors import TocsinError, UserError
from tocsin.identity.user_records import LAYOUT, UserRecords

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Commands and requests in one transaction.
BATCH = 1_000


def in_thread(
    work: Callable[Concatenate[UserRecords, P], T],
) -> Callable[Concatenate[UserStore, P], Future[T]]:
    """Runs it in the store's thread, in the transaction of the batch."""

    def call(store: UserStore, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return store.run(lambda records: work(records, *args, **kwargs))

    return call


class UserStore:
    """``expiry`` makes the clock by which sessions expire, where that is another one, from the time that the store has
    kept of the last run.

    Every call runs in the store's own thread; those that come at once share a commit. Hashes of passwords are
    computed elsewhere: nothing here takes long."""

    def __init__(
        self,
        address: str,
        file: Path,
        config: IdentityConfig,
        clock: Callable[[], float],
        *,
        expiry: Callable[[float | None], Callable[[], float]] | None = None,
        lease: bool = False,
    ) -> None:
        self.config = config
        self.clock = clock
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._db = open_database(address, file, LAYOUT)
        if lease:
            try:
                self._db.lease()
            except BaseException:
                self._db.close()
                raise
        kept = self._db.query("SELECT value FROM meta WHERE name = 'time'")
        known = float(kept[0][0]) if kept else None
        self.records = UserRecords(config, clock, None if expiry is None else expiry(known))
        self._thread = threading.Thread(target=self._work, name="users", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()

    def run(self, work: Callable[[UserRecords], T]) -> Future[T]:
        future: Future[T] = Future()
        self._queue.put((partial(work, self.records), future))
        return future

    password = in_thread(UserRecords.password)
    add = in_thread(UserRecords.add)
    page = in_thread(UserRecords.page)
    reset_password = in_thread(UserRecords.reset_password)
    set_password = in_thread(UserRecords.set_password)
    delete = in_thread(UserRecords.delete)
    set_roles = in_thread(UserRecords.set_roles)
    roles = in_thread(UserRecords.roles)
    log_in = in_thread(UserRecords.log_in)
    refresh = in_thread(UserRecords.refresh)
    log_out = in_thread(UserRecords.log_out)
    revoke = in_thread(UserRecords.revoke)
    expire = in_thread(UserRecords.expire)
    rotate = in_thread(UserRecords.rotate)
    exchange = in_thread(UserRecords.exchange)

    # -- the thread

    def _work(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            open_ = None not in batch
            self._commit([entry for entry in batch if entry is not None])

    def _commit(self, batch: list[tuple[Callable[[], Any], Future[Any]]]) -> None:
        """A refusal is the answer to its request alone; with any other error nothing of the batch is durable."""
        outcomes: list[tuple[Any, UserError | None]] = []
        failure: Exception | None = None
        try:
            with self._db.writing() as self.records.open:
                for work, _ in batch:
                    try:
                        outcomes.append((work(), None))
                    except UserError as error:
                        outcomes.append((None, error))
        except Exception as error:
            log.error("the store of users fails: %s", error, exc_info=None if isinstance(error, TocsinError) else error)
            failure = error
        for place, (_, future) in enumerate(batch):
            with suppress(Exception):  # its caller has gone
                if failure is not None:
                    future.set_exception(failure)
                elif (problem := outcomes[place][1]) is not None:
                    future.set_exception(problem)
                else:
                    future.set_result(outcomes[place][0])
