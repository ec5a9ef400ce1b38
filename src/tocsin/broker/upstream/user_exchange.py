"""What a broker has of users: it verifies their tokens by itself, and exchanges with the network's store of users what
is durable. While the store is away, users that this broker serves go on, and what is to be stored waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tocsin.broker.core import events as ev
from tocsin.broker.core.user_sessions import UserSessions
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.effects import Effects, Pause
from tocsin.errors import TocsinError, Unreachable, UserError
from tocsin.identity import messages as it
from tocsin.identity.grants import user as user_principal
from tocsin.identity.messages import NOTHING, Exchange, Exchanged, Outcome
from tocsin.identity.revocations import Revocations
from tocsin.identity.tokens import Claims, Provider, UnknownKey, Verifier, session_prefix
from tocsin.wire.backoff import Backoff
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.position import other_epoch
from tocsin.wire.remote_errors import remote_error

#: Seconds between two exchanges while there is nothing to store: within this time a revocation is known here.
INTERVAL = 2.0
#: Seconds between two reports of the sessions that are connected.
USE_EVERY = 15.0
#: Shortest and longest seconds between two tries.
RETRY = (0.2, 2.0)
#: Commands in one exchange.
MOST = 1_000

#: Of which the state machine is notified, and which change what is durable for a session.
_ANSWERED = (it.Remember, it.ChangeId)
_OF_SESSIONS = (*_ANSWERED, it.Forget, it.Acknowledge)

Durable = list[DurableSubscription]


class SendExchange(Struct, frozen=True):
    """Answered by Exchanged."""

    exchange: Exchange


class UntilWoken(Struct, frozen=True):
    """Waits until there is something to send, at most so long."""

    seconds: float


class Found(Struct, frozen=True):
    """Who has a token and what is durable for the session, or why that cannot be said: an Unauthorized is final."""

    claims: Claims | None = None
    durable: Durable = []
    problem: TocsinError | None = None

    @property
    def failed(self) -> bool:
        """It could not be said: the client may try again."""
        return self.problem is not None and not isinstance(self.problem, UserError)

    def event(self, peer: ev.Peer, at: Callable[[float], float]) -> ev.Authenticated:
        """For the state machine. ``at``: the time of its clock at which a token that expires then is refused."""
        claims = self.claims
        if claims is None:
            assert self.problem is not None
            return ev.Authenticated(peer, None, problem=self.problem.message, failed=self.failed)
        principal, expires = user_principal(claims.raw, claims.roles), at(claims.expires)
        return ev.Authenticated(peer, claims.sid, self.durable, principal, issued=claims.issued, expires=expires)


class Entry(Struct, eq=False):
    """``waits``: it is sent until it is done; others end with the first failure. No command: the keys are needed."""

    command: it.AnyCommand | None
    done: Callable[[Outcome | None], None] | None = None
    waits: bool = True


class UserExchange:
    """``wall_clock`` dates tokens; ``wake`` ends an UntilWoken."""

    def __init__(
        self,
        sessions: UserSessions,
        verifier: Verifier,
        handle: Callable[[ev.Event], Any],
        wall_clock: Callable[[], float],
        wake: Callable[[], None],
        rng: Random,
    ) -> None:
        self.sessions, self.verifier, self.handle = sessions, verifier, handle
        self.wall_clock, self.wake, self.rng = wall_clock, wake, rng
        self.revocations = Revocations()
        self.away = False
        self._queue: dict[int, Entry] = {}  # in the order of their numbers
        self._numbers = count(1)
        self._incarnation, self._exchanges = f"{rng.getrandbits(64):016x}", count(1)
        self._acks: dict[str, int] = {}  # by user, of those that are not being sent
        self._unknown_key = ""
        self._served: dict[str, dict[int, DurableSubscription]] = {}
        self._issued: dict[str, float] = {}
        self._used_at = float("-inf")
        self._most = MOST

    # -- tokens

    def authenticate(self, token: str, done: Callable[[Found], None], *, again: bool = False) -> None:
        """Whose token it is; this broker serves the session from now on."""
        try:
            claims = self._verify(token)
        except UnknownKey as error:
            if again:
                done(Found(problem=error))
                return
            self._unknown_key = error.issuer
            self._put(Entry(None, lambda found: self._keys_known(token, found, done), waits=False))
        except TocsinError as error:
            done(Found(problem=error))
        else:
            attach = it.Attach(claims.sid, claims.sub, claims.issued)
            self._put(Entry(attach, lambda outcome: self._attached(token, claims, outcome, done), waits=False))

    def restore(self, token: str, done: Callable[[Found], None]) -> None:
        """As ``authenticate``, for a request. What is durable is restored here, at once: after ``done`` it may be
        outdated, and would end or bring back what was subscribed to or ended meanwhile."""

        def restored(found: Found) -> None:
            if found.claims is not None:
                self.handle(ev.Restored(found.claims.sid, found.durable))
            done(found)

        self.authenticate(token, restored)

    def _verify(self, token: str) -> Claims:
        claims = self.verifier.verify(token)
        self.revocations.check(claims)
        return claims

    def _keys_known(self, token: str, outcome: Outcome | None, done: Callable[[Found], None]) -> None:
        if outcome is None:
            done(Found(problem=self._unreachable()))
        else:
            self.authenticate(token, done, again=True)

    def _attached(self, token: str, claims: Claims, outcome: Outcome | None, done: Callable[[Found], None]) -> None:
        session = claims.sid
        try:
            self._verify(token)  # the exchange took its time, and may have brought a revocation
        except TocsinError as problem:
            done(Found(problem=problem))
            return
        if outcome is not None and outcome.error is not None:
            error = outcome.error
            done(Found(problem=remote_error(error.get("code", ""), error.get("message", ""), error.get("hint", ""))))
            return
        if outcome is not None:
            self._serve(session, outcome.sessions.get(session, []))
            self._issued[session] = max(claims.issued, self._issued.get(session, 0.0))
        elif session not in self._served:
            done(Found(problem=self._unreachable()))
            return
        done(Found(claims, list(self._served[session].values())))

    @staticmethod
    def _unreachable() -> Unreachable:
        return Unreachable("the store of users does not answer", hint="try again, here or at another broker")

    # -- what is durable

    def store(self, command: it.Remember | it.ChangeId | it.Forget) -> None:
        self._apply(command)
        self._put(Entry(command))

    def acknowledge(self, command: it.Acknowledge) -> None:
        """Only the last of each subscription is of interest: what waits does not grow."""
        self._apply(command)
        waiting = self._queue.pop(self._acks.get(command.user, 0), None)
        positions = dict(command.positions)
        if waiting is not None and isinstance(waiting.command, it.Acknowledge):
            for id, position in waiting.command.positions.items():
                positions[id] = max(position, positions.get(id, position))
        self._acks[command.user] = self._add(Entry(it.Acknowledge(command.user, positions)))

    def written(self, done: Callable[[], None]) -> None:
        """Calls it when everything that was to be stored before is durable."""
        self._put(Entry(None, lambda outcome: done()))

    def stored(self) -> dict[str, Durable]:
        """What this broker serves, for sessions of which nothing is left to be sent: the store has the same."""
        waiting = {getattr(entry.command, "user", None) for entry in self._queue.values()}
        return {session: list(mine.values()) for session, mine in self._served.items() if session not in waiting}

    def _add(self, entry: Entry) -> int:
        number = next(self._numbers)
        self._queue[number] = entry
        return number

    def _put(self, entry: Entry) -> None:
        self._add(entry)
        self.wake()

    def _serve(self, session: str, durable: Durable) -> None:
        """As the store has it, with what is still to be stored."""
        self._served[session] = {each.subscription: each for each in durable}
        for entry in self._queue.values():
            if entry.command is not None:
                self._apply(entry.command, session)

    def _apply(self, command: it.AnyCommand, session: str | None = None) -> None:
        if not isinstance(command, _OF_SESSIONS):
            return
        mine = self._served.get(command.user)
        if mine is None or session not in (None, command.user):
            return
        if isinstance(command, it.Remember):
            if command.subscription not in mine:
                id, position = command.subscription, command.position
                mine[id] = DurableSubscription(
                    id, command.channel, command.args, position.execution, {}, position.epoch
                )
            return
        if isinstance(command, it.Forget):
            mine.pop(command.subscription, None)
            return
        match command:
            case it.ChangeId(_, previous, id, until, position):
                before = mine.pop(previous, None)
                if before is not None and other_epoch(before.epoch, position.epoch):
                    begin, epoch = position.execution, position.epoch
                    mine.setdefault(id, DurableSubscription(id, before.channel, before.args, begin, epoch=epoch))
                elif before is not None:
                    known = mine.get(id)
                    after = min(before.after, position.execution, *([known.after] if known else []))
                    ids = {**before.previous_ids, **(known.previous_ids if known else {}), previous: until.execution}
                    epoch = position.epoch or before.epoch
                    mine[id] = DurableSubscription(id, before.channel, before.args, after, ids, epoch)
            case it.Acknowledge(_, positions):
                for id, position in positions.items():
                    if id in mine and not other_epoch(mine[id].epoch, position.epoch):
                        ids = {one: end for one, end in mine[id].previous_ids.items() if end >= position.execution}
                        mine[id] = replace(mine[id], after=max(mine[id].after, position.execution), previous_ids=ids)

    # -- the exchange

    def run(self) -> Effects[None]:
        waits = Backoff(self.rng, *RETRY)
        self._queue = {0: Entry(it.Served(), self._restored)} | self._queue
        while True:
            batch = self._batch()
            commands = [each.command for each in batch.values() if each.command is not None]
            try:
                found: Exchanged = yield SendExchange(self._exchange(self._unknown_key, commands))
            except (Lost, Refused) as error:
                self._set_away(True)
                self._failed(batch, error)
                yield Pause(waits.next())
                continue
            waits.reset()
            self._unknown_key, self._most = "", MOST
            self._set_away(False)
            self._done(batch, found)
            if all(isinstance(each.command, it.Acknowledge) for each in self._queue.values()):
                yield UntilWoken(INTERVAL)

    def _set_away(self, away: bool) -> None:
        if away is not self.away:
            self.away = away
            self.handle(ev.UsersAway(away))

    def flush(self) -> Exchange:
        """What is left at the end, for one last try."""
        return self._exchange("", [each.command for each in self._queue.values() if each.command and each.waits])

    def _exchange(self, unknown_key: str, commands: list[it.AnyCommand]) -> Exchange:
        return Exchange(self.revocations.last, unknown_key, commands, self._incarnation, next(self._exchanges))

    def _batch(self) -> dict[int, Entry]:
        now = self.sessions.context.now
        if now - self._used_at >= USE_EVERY:
            self._used_at = now
            use = it.Use(sorted(self.sessions.present()), self.sessions.offline())
            self._add(Entry(use, self._used, waits=False))
        self._acks.clear()
        return dict(islice(self._queue.items(), self._most))

    def _failed(self, batch: dict[int, Entry], error: Lost | Refused) -> None:
        if isinstance(error, Refused) and error.status != 401:
            # One of the commands cannot be stored: the others must not wait for it.
            self._most = max(1, len(batch) // 2)
            if len(batch) == 1:
                (number,) = batch
                self._finish({number: self._queue[number]}, [Outcome(error=error.error)])
                return
        for number, entry in batch.items():
            if not entry.waits:
                del self._queue[number]
                if entry.done is not None:
                    entry.done(None)
            elif isinstance(entry.command, it.Acknowledge):
                self._acks.setdefault(entry.command.user, number)

    def _done(self, batch: dict[int, Entry], found: Exchanged) -> None:
        for each in found.issuers:
            self.verifier.trust(Provider(each.issuer, each.audience, each.roles))
            self.verifier.learn(each.issuer, each.jwks)
        for revocation in found.revocations:
            if self.revocations.add(revocation, self.wall_clock()):
                self._revoke(revocation)
        self.revocations.expire(self.wall_clock())
        self._finish(batch, found.outcomes)

    def _finish(self, batch: dict[int, Entry], found: list[Outcome]) -> None:
        outcomes = iter(found)
        stored: list[ev.Remembered] = []
        for number, entry in batch.items():
            del self._queue[number]  # what follows in the batch is not part of the outcome of an Attach
            command = entry.command
            outcome = NOTHING if command is None else next(outcomes)
            if isinstance(command, _ANSWERED):
                problem = None if outcome.error is None else Refused(outcome.error).problem
                stored.append(ev.Remembered(command.user, command.subscription, problem))
            elif entry.done is not None:
                self._confirm(stored)  # before what came later
                entry.done(outcome)
        self._confirm(stored)

    def _confirm(self, stored: list[ev.Remembered]) -> None:
        """One event for all of them."""
        if stored:
            outcomes = stored[:]
            stored.clear()
            self.handle(ev.Stored(outcomes))

    def _restored(self, outcome: Outcome | None) -> None:
        assert outcome is not None
        for session, durable in outcome.sessions.items():
            self._restore(session, durable)
        self.handle(ev.UsersRestored())

    def _restore(self, session: str, durable: Durable) -> None:
        self._serve(session, durable)
        self.handle(ev.Restored(session, durable))

    def _used(self, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        for session in outcome.elsewhere:
            self._served.pop(session, None)
            self._issued.pop(session, None)
            self.handle(ev.UserElsewhere(session))
        for session, durable in outcome.sessions.items():
            self._restore(session, durable)

    def _revoke(self, revocation: it.Revocation) -> None:
        known = {*self._served, *self.sessions.present(), *self.sessions.durable.by_user}
        prefix = session_prefix(revocation.user)
        for session in sorted(known):
            if session != revocation.session and (revocation.session or not session.startswith(prefix)):
                continue
            if not revocation.ended:
                self.handle(ev.UserRevoked(session, revocation.before))
            elif self._issued.get(session, 0.0) <= revocation.before:  # otherwise it has begun again since
                self._served.pop(session, None)
                self._issued.pop(session, None)
                self.handle(ev.UserEnded(session))
