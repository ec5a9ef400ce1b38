"""The subscriptions of one connection: requests, answers and notifications. Pure.

A client that migrates has two sessions. Each is a stream without holes that begins at or before the position, so the
client accepts notifications from both: the first copy counts, and the position identifies duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.errors import UserError
from tocsin.wire import messages as wire
from tocsin.wire.position import START, Position
from tocsin.wire.remote_errors import remote_error

if TYPE_CHECKING:
    from tocsin.client.core.subscriptions import Subscriptions

#: Reasons of a gap that every broker would announce.
LOST = ("retention", "damaged")


class Role(Enum):
    """Of a connection."""

    CURRENT = "current"
    JOINING = "joining"  # the client is migrating to it
    LEAVING = "leaving"  # the client has migrated away and waits for the last answers


class Phase(Enum):
    """Of a BE subscription on this connection."""

    CATCHING_UP = "catching up"
    LAGGING = "lagging"
    LIVE = "live"


class SubscribeRequest(Struct, eq=False):
    """``previous_id`` is the BE subscription that ``after`` belongs to."""

    subscriptions: list[SubscriptionState]
    after: Position | None
    previous_id: int | None


class UnsubscribeRequest(Struct, eq=False):
    """``draining`` still receives what comes before the answer."""

    id: int
    handles: list[int]
    draining: SubscriptionState | None = None


class Session:
    """``failure`` says why the client cannot migrate to this connection. The current connection is not affected."""

    def __init__(
        self, all: Subscriptions, send: Callable[[wire.Message], None], ids: Iterator[int], role: Role = Role.CURRENT
    ) -> None:
        self.role = role
        self.broker: str | None = None
        self.phases: dict[int, Phase] = {}
        self.requests: dict[int, SubscribeRequest | UnsubscribeRequest] = {}
        self.by_id: dict[int, list[SubscriptionState]] = {}
        self.ids: dict[int, int] = {}  # handle: id of its BE subscription
        self.retry_at: float | None = None
        self.failure = ""
        self._all, self._send, self._ids = all, send, ids
        self._to_retry: list[SubscriptionState] = []
        self._previous_ids: dict[int, int | None] = {}  # id: the one whose results came before its own
        self._acked: dict[int, Position] = {}

    # -- requests of the client ---------------------------------------------------------------------------------------

    def subscribe(self, subscription: SubscriptionState) -> None:
        """The application has subscribed."""
        if subscription.position is None:
            for peer in self._all.by_handle.values():
                if peer.key == subscription.key and peer.handle in self.ids and not peer.leaving:
                    self._join(subscription, peer)
                    return
            for request in self.requests.values():
                if (
                    isinstance(request, SubscribeRequest)
                    and request.after is None
                    and request.subscriptions[0].key == subscription.key
                ):
                    request.subscriptions.append(subscription)
                    return
        self._request([subscription])

    def _join(self, subscription: SubscriptionState, peer: SubscriptionState) -> None:
        """The client has an equal subscription: no request is needed, and this one begins with the next execution."""
        subscription.channel = peer.channel
        subscription.begin(peer.at(max(peer.execution, self._all.executions.get(peer.channel, 0))))
        subscription.id, subscription.id_broker = peer.id, peer.id_broker
        self._attach(subscription, self.ids[peer.handle])

    def resume(self) -> None:
        """Unsubscribes what the last connection could not, then subscribes everything from its position."""
        if self.role is Role.CURRENT:
            for id in list(self._all.unsent_unsubscribes):
                self.release(id)
        here = set(self.ids)
        here.update(subscription.handle for request in self.requests.values() for subscription in _requested(request))
        here.update(subscription.handle for subscription in self._to_retry)
        self._request_all(
            subscription
            for subscription in self._all.by_handle.values()
            if subscription.handle not in here
            and not subscription.leaving
            and (subscription.confirmed or self.role is Role.CURRENT)
        )

    def unsubscribe(self, id: int, handles: list[int], draining: SubscriptionState | None = None) -> None:
        request = next(self._ids)
        self.requests[request] = UnsubscribeRequest(id, handles, draining)
        self._send(wire.Unsubscribe(request, id))

    def release(self, id: int) -> None:
        """Unsubscribes an id, unless a subscription resumes from it."""
        handles = self._all.unsent_unsubscribes.pop(id, []) if self.role is Role.CURRENT else []
        if any(subscription.id == id for subscription in self._all.by_handle.values()):
            self._all.unsubscribed(handles)
        else:
            self.unsubscribe(id, handles)

    def drop(self, subscription: SubscriptionState) -> None:
        """The application has unsubscribed. The current connection was asked before; a joining one is asked here."""
        id = self._detach(subscription)
        if id is not None and id not in self.by_id and self.role is Role.JOINING:
            self.release(id)

    def timer(self, now: float) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            again, self._to_retry = self._to_retry, []
            self._request_all(subscription for subscription in again if subscription.handle in self._all.by_handle)

    def become_current(self) -> None:
        self.role = Role.CURRENT
        for handle, id in self.ids.items():
            subscription = self._all.by_handle[handle]
            subscription.current_id = id
            if self.phases.get(id) is Phase.LIVE:
                subscription.id, subscription.id_broker = id, self.broker

    # -- messages of the broker ----------------------------------------------------------------------------------------

    def subscribed(self, message: wire.Subscribed) -> None:
        request = self.requests.pop(message.id, None)
        if not isinstance(request, SubscribeRequest):
            return
        self._all.backoff.reset()
        id = message.subscription
        # An equal one that is catching up may still get results of its previous id, and then a new one does too.
        previous = self._previous_ids.get(id)
        if request.after is not None:
            self._previous_ids[id] = request.previous_id
            self._all.changed = True  # this broker does not know yet what was consumed
        before = self.phases.get(id, Phase.LIVE)
        late: list[SubscriptionState] = []
        for subscription in request.subscriptions:
            if subscription.handle not in self._all.by_handle or subscription.leaving:
                continue
            subscription.channel, subscription.warnings = message.channel, tuple(message.warnings)
            if subscription.position is None:
                subscription.begin(message.position)
                brokers = [peer.id_broker for peer in self.by_id.get(id, ()) if peer.id == previous]
                of_previous = previous is not None and brokers
                subscription.id, subscription.id_broker = (previous, brokers[0]) if of_previous else (id, self.broker)
            elif request.after is None and subscription.execution < message.after:
                late.append(subscription)  # it has begun on another connection, before this one
                continue
            elif subscription.epoch and message.epoch and subscription.epoch != message.epoch:
                if self.role is not Role.CURRENT:
                    self.failure = f"the channel {message.channel} has another epoch there"
                    continue
                self._all.restart(subscription, message)
                subscription.id_broker = self.broker
            elif self._created_again(subscription, message, request.after):
                subscription.begin(message.position)
            subscription.set_epoch(message.epoch)
            self._attach(subscription, id)
        if id in self.by_id:
            # A new one begins now; an equal one that was there before keeps its phase.
            self.phases[id] = before if request.after is None else Phase.CATCHING_UP
        elif not late:
            self.release(id)
        if id in self.by_id and before is not Phase.LIVE and request.after is not None:
            # The broker resumes from here: an equal one with an earlier position asks for its own part again.
            late += [subscription for subscription in self.by_id[id] if subscription.execution < message.after]
            for subscription in late:
                self._detach(subscription)
        self._request_all(late)

    def _created_again(self, subscription: SubscriptionState, message: wire.Subscribed, after: Position | None) -> bool:
        """Without epochs: a channel whose id and position went back. A broker that lags may answer like this too."""
        changed = not subscription.epoch and subscription.id not in (None, message.subscription)
        went_back = message.after < (after.execution if after is not None else 0)
        return changed and went_back and self.role is Role.CURRENT and subscription.id_broker in (None, self.broker)

    def unsubscribed(self, id: int) -> None:
        """Also after an error: then the broker does not have it."""
        request = self.requests.pop(id, None)
        if not isinstance(request, UnsubscribeRequest):
            return
        if request.draining is not None:
            self._all.end(request.draining)
        self._all.unsubscribed(request.handles)
        # Another subscription turned out to have the same id: it subscribes again.
        others = list(self.by_id.get(request.id, ()))
        for subscription in others:
            self._detach(subscription)
        self.phases.pop(request.id, None)
        if self.role is not Role.LEAVING:
            self._request_all(others)

    def refused(self, message: wire.Error, now: float) -> bool:
        """After a passing error, the client retries what was confirmed once."""
        assert message.id is not None
        request = self.requests.get(message.id)
        if isinstance(request, UnsubscribeRequest):
            self.unsubscribed(message.id)
        elif request is not None:
            del self.requests[message.id]
            if self.role is Role.JOINING:
                self.failure = message.message
            else:
                self._refused(request, message, now)
        return request is not None

    def _refused(self, request: SubscribeRequest, message: wire.Error, now: float) -> None:
        error = remote_error(message.code, message.message, message.hint)
        for subscription in [each for each in request.subscriptions if each.handle in self._all.by_handle]:
            if subscription.confirmed and self.role is Role.LEAVING:
                continue  # the current connection has it
            if isinstance(error, UserError) or not subscription.confirmed:
                self._all.end(subscription, error)
            else:
                self._to_retry.append(subscription)
        if self._to_retry and self.retry_at is None:
            self.retry_at = now + self._all.backoff.next()

    def ended(self, message: wire.Ended) -> None:
        if self.role is Role.JOINING:
            self.failure = message.message
        elif self.role is Role.CURRENT:
            for subscription in list(self.by_id.get(message.subscription, ())):
                self._all.executions.pop(subscription.channel, None)  # another channel of this name counts from 1
                self._all.end(subscription, remote_error(message.code, message.message))

    def notify(self, message: wire.Notify) -> None:
        self._all.reached(message.channel, message.execution)
        for subscription in self.by_id.get(message.subscription, ()):
            self._all.accept(subscription, message)

    def gap(self, message: wire.Gap) -> None:
        """What is missing on one connection may still arrive on the other."""
        subscriptions = self.by_id.get(message.subscription, [])
        if self.role is Role.CURRENT:
            self._previous_ids.pop(message.subscription, None)
            for subscription in subscriptions:
                subscription.id, subscription.id_broker = message.subscription, self.broker
                self._all.skip(subscription, message)
        elif subscriptions and all(self._expired(subscription, message) for subscription in subscriptions):
            for subscription in subscriptions:
                self._all.skip(subscription, message)
        elif any(
            subscription.execution < message.next - 1 and not self._held(subscription, message)
            for subscription in subscriptions
        ):
            self.failure = f"executions {message.after + 1} to {message.next - 1} are missing there: {message.reason}"
            for subscription in list(subscriptions):
                if message.reason in LOST:
                    subscription.expired = subscription.at(message.next - 1)
                self._detach(subscription)

    def _held(self, subscription: SubscriptionState, message: wire.Gap) -> bool:
        """The current broker never released it, so this client has received all its results."""
        here = self._all.current
        id = None if here is None else here.ids.get(subscription.handle)
        held = id is not None and id == subscription.id == self._previous_ids.get(message.subscription)
        return held and message.reason == "released" and self.role is Role.JOINING

    def _expired(self, subscription: SubscriptionState, message: wire.Gap) -> bool:
        """A migration failed at this gap before, and the live current connection brought nothing of it since.

        Its position is older than the retention, so every migration would fail at the same gap.
        """
        here = self._all.current
        id = None if here is None else here.ids.get(subscription.handle)
        live = here is not None and id is not None and here.phases.get(id) is Phase.LIVE
        waited = (subscription.position or START) < subscription.expired
        return live and waited and message.reason in LOST and self.role is Role.JOINING

    def live(self, message: wire.Live) -> None:
        self.phases[message.subscription] = Phase.LIVE
        self._previous_ids.pop(message.subscription, None)
        for subscription in self.by_id.get(message.subscription, ()):
            if self.role is Role.CURRENT:
                subscription.id, subscription.id_broker = message.subscription, self.broker
            self._all.advance(subscription, message.execution)
            self._all.reached(subscription.channel, message.execution)

    def lagging(self, message: wire.Lagging) -> None:
        self.phases[message.subscription] = Phase.LAGGING

    def ping(self, message: wire.Ping) -> None:
        """Live subscriptions have everything up to the broker's position in the channel."""
        if self.role is Role.CURRENT:
            self._all.executions.update(message.positions)
        for id, subscriptions in self.by_id.items():
            if self.phases.get(id) is Phase.LIVE:
                for subscription in subscriptions:
                    self._all.advance(subscription, message.positions.get(subscription.channel, 0))

    # -- queries -------------------------------------------------------------------------------------------------------

    def complete(self, live: bool) -> bool:
        """Whether every confirmed subscription is here; with ``live``, also live."""
        if self.requests or self._to_retry or self.failure:
            return False
        confirmed = [e.handle for e in self._all.by_handle.values() if e.confirmed and not e.leaving]
        if any(handle not in self.ids for handle in confirmed):
            return False
        return not live or all(self.phases.get(self.ids[handle]) is Phase.LIVE for handle in confirmed)

    def has(self, subscription: SubscriptionState) -> bool:
        requested = any(subscription in _requested(request) for request in self.requests.values())
        return requested or subscription.handle in self.ids or subscription in self._to_retry

    def acks(self) -> dict[int, int]:
        """Id: execution, where the application has consumed more than at the last call."""
        found = {}
        for id, subscriptions in self.by_id.items():
            consumed = min((each.consumed for each in subscriptions if each.consumed is not None), default=START)
            # A position of an earlier epoch is not one of this BE subscription.
            if consumed.epoch == subscriptions[0].epoch and consumed > self._acked.get(id, START):
                self._acked[id] = consumed
                found[id] = consumed.execution
        return found

    # -- parts ---------------------------------------------------------------------------------------------------------

    def add(self, subscription: SubscriptionState) -> None:
        """A subscription that was confirmed on another connection."""
        if not self.has(subscription):
            self._request([subscription])

    def _request_all(self, subscriptions: Iterable[SubscriptionState]) -> None:
        groups: dict[object, list[SubscriptionState]] = {}
        for subscription in subscriptions:
            new = subscription.position is None
            groups.setdefault((new, subscription.key) if subscription.id is None else subscription.id, []).append(
                subscription
            )
        for group in groups.values():
            self._request(group)

    def _request(self, subscriptions: list[SubscriptionState]) -> None:
        """One request for all of them, from the earliest position."""
        request, first = next(self._ids), subscriptions[0]
        executions = [subscription.execution for subscription in subscriptions if subscription.position is not None]
        if not executions:
            self.requests[request] = SubscribeRequest(list(subscriptions), None, None)
            self._send(wire.Subscribe(request, first.channel, first.args))
            return
        after = first.at(min(executions))
        self.requests[request] = SubscribeRequest(list(subscriptions), after, first.id)
        self._send(wire.Subscribe(request, first.channel, first.args, after.execution, first.id, after.epoch or None))

    def _attach(self, subscription: SubscriptionState, id: int) -> None:
        self._detach(subscription)
        self.ids[subscription.handle] = id
        self.by_id.setdefault(id, []).append(subscription)
        if self.role is Role.CURRENT:
            subscription.current_id = id
        self._all.confirm(subscription, self)

    def _detach(self, subscription: SubscriptionState) -> int | None:
        """The id it had here."""
        id = self.ids.pop(subscription.handle, None)
        if id is None:
            return None
        others = self.by_id[id]
        others.remove(subscription)
        if not others:
            del self.by_id[id]
            self.phases.pop(id, None)
        if self.role is Role.CURRENT:
            subscription.current_id = None
        return id


def _requested(request: SubscribeRequest | UnsubscribeRequest) -> list[SubscriptionState]:
    return request.subscriptions if isinstance(request, SubscribeRequest) else []
