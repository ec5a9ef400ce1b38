"""FE subscriptions with the same channel and arguments share one BE subscription, the data cluster's."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tocsin.broker.core import events as ev
from tocsin.broker.core.access import Access
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.durable_subscriptions import DurableSubscriptions
from tocsin.broker.core.events import Args, Peer, Problem
from tocsin.broker.core.instructions import Forget, Subscribe, Unsubscribe
from tocsin.broker.core.model.be_subscription import BESubscription, Channel, DurableRequest, Key, SessionRequest
from tocsin.broker.core.model.cache import Recent
from tocsin.broker.core.model.rate import Rate
from tocsin.broker.core.model.session import LIVE, Session
from tocsin.broker.core.quotas import limit_exceeded
from tocsin.broker.core.replay import Replay
from tocsin.errors import TocsinError
from tocsin.wire import messages as wire
from tocsin.wire.feed_name import feed_of
from tocsin.wire.position import other_epoch

#: BE subscriptions in one request to the data cluster.
MOST_IN_REQUEST = 10_000
#: Spellings of its arguments that are kept of a BE subscription.
SPELLINGS = 16

STORE_AWAY = Problem("unreachable", "the store of users does not answer", "subscribe again in a moment")

_encode_args = msgspec.json.Encoder(order="sorted").encode


def _restores(subscription: BESubscription, user: str) -> bool:
    """Whether it is being restored for the user."""
    return any(isinstance(each, DurableRequest) and each.user == user for each in subscription.requests)


class BESubscriptions:
    """One request to the data cluster a channel at a time, so that order is kept.

    A BE subscription without a subscriber expires after ``config.grace``, and ends with its channel.
    """

    def __init__(self, context: Context, durable: DurableSubscriptions, access: Access) -> None:
        self.context = context
        self.access = access
        self.durable = durable
        self.by_id: dict[int, BESubscription] = {}
        self.channels: dict[str, Channel] = {}
        self.replay = Replay(context, self.by_id)
        self._by_key: dict[Key, BESubscription] = {}
        self._idle: dict[BESubscription, float] = {}
        self._ungranted: list[tuple[Peer, wire.Subscribe, int]] = []  # until the grants are known
        self.restoring_users = False  # those that are idle may be theirs

    def users_restored(self, event: ev.UsersRestored, out: Out) -> None:
        self.restoring_users = False

    # -- channels

    def channel(self, name: str) -> Channel:
        key = name.lower()
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(name)
        return channel

    def remove_unused(self, channel: Channel) -> None:
        if channel.unused:
            self.channels.pop(channel.name.lower(), None)

    def current(self, channel: Channel, epoch: int, out: Out) -> Channel | None:
        """The channel of this epoch; None if the epoch has ended. A new epoch ends the one before."""
        if epoch == channel.epoch or not epoch:
            return channel
        if epoch < channel.epoch:
            return None
        if channel.epoch:
            self.dropped(ev.Dropped(channel.name), out)
            channel = self.channel(channel.name)
        channel.epoch = epoch
        return channel

    def dropped(self, event: ev.Dropped, out: Out) -> None:
        channel = self.channels.get(event.channel.lower())
        if channel is None or (event.epoch and event.epoch != channel.epoch):
            return
        for session in self.context.sessions.values():
            for id in [id for id in session.subscriptions if id in channel.be_subscriptions]:
                self._drop(session, self.by_id[id])
                message = f"the channel {channel.name} was dropped"
                self.context.send(session, wire.Ended(id, "not_found", message), out)
        for subscription in list(channel.be_subscriptions.values()):
            requests, subscription.requests = subscription.requests, []
            self._refuse_all(requests, Problem("not_found", f"the channel {channel.name} was dropped"), out)
            for user in list(subscription.users):
                self.durable.remove(user, subscription)
                out.append(Forget(user, subscription.id))
            self._remove(subscription)
            subscription.live, subscription.waiting, subscription.congested = {}, {}, {}
            subscription.previous, subscription.users, subscription.audience = {}, {}, None
        channel.clear()
        self.remove_unused(channel)

    def _remove(self, subscription: BESubscription) -> None:
        self._idle.pop(subscription, None)
        self._forget_keys(subscription)
        self.by_id.pop(subscription.id, None)
        subscription.channel.remove(subscription)
        self.context.ledger.cache.forget(subscription.recent)

    def _forget_keys(self, subscription: BESubscription) -> None:
        for key in subscription.keys:
            self._by_key.pop(key, None)
            subscription.channel.argument_bytes -= len(key[1])

    # -- requests of subscribers

    def subscribe(self, session: Session, message: wire.Subscribe, out: Out) -> None:
        text = _encode_args(message.args)
        problem = self._limit(session, message.channel, text)
        if problem is not None:
            self.context.refuse(session, message.id, problem, out)
            return
        if not self.access.known:
            session.unanswered += 1
            session.argument_bytes += len(text)
            self._ungranted.append((session.peer, message, len(text)))
            return
        problem = self.access.refuses(session, "subscribe", message.channel, message.args)
        if problem is not None:
            self._forbid(session, message, problem, out)
            return
        permit = (self.access.policy, session.principal)
        request = SessionRequest(session.peer, message, session.user, len(text), permit)
        self._unanswered(session, request)
        self._request(message.channel, message.args, text, request, out)

    def granted(self, out: Out) -> None:
        """The grants are known now: what waited for them is asked for or refused."""
        ungranted, self._ungranted = self._ungranted, []
        for peer, message, size in ungranted:
            session = self.context.sessions.get(peer)
            if session is not None:
                session.unanswered -= 1
                session.argument_bytes -= size
                self.subscribe(session, message, out)

    def _forbid(self, session: Session, message: wire.Subscribe, problem: Problem, out: Out) -> None:
        """What was durable for the user is not any more."""
        self.context.refuse(session, message.id, problem, out)
        subscription = self._by_key.get((message.channel.lower(), _encode_args(message.args)))
        if session.user is not None and subscription is not None:
            self._end_durable(session.user, subscription, out)

    def _end_durable(self, user: str, subscription: BESubscription, out: Out) -> None:
        if self.durable.has(user, subscription.id):
            self.durable.remove(user, subscription)
            out.append(Forget(user, subscription.id))
        for request in list(subscription.requests):
            if isinstance(request, DurableRequest) and request.user == user:
                subscription.requests.remove(request)
                self._answered(request)
                subscription.channel.restored(user)
                out.append(Forget(user, request.subscription))
        self.idle_if_unused(subscription)

    def narrow(self, channels: Collection[str | None], out: Out) -> None:
        """Ends the subscriptions to these channels, None: to all of them, that are not granted any more."""
        for session in list(self.context.sessions.values()):
            for id in list(session.subscriptions):
                channel, name = self.by_id[id].channel, self.by_id[id].channel.name
                # A channel that was dropped, and its grants with it, ends by itself; no live feed is among those known.
                known = self.access.exists(name) or (feed_of(name) is not None and channel.matcher is None)
                if known and (None in channels or name.lower() in channels):
                    self._check_again(session, self.by_id[id], out)

    def check_session(self, session: Session, out: Out) -> None:
        """Its token is another one, with other roles maybe."""
        for id in list(session.subscriptions) if self.access.known else ():
            self._check_again(session, self.by_id[id], out)

    def _check_again(self, session: Session, subscription: BESubscription, out: Out) -> None:
        problem = self.access.refuses(session, "subscribe", subscription.channel.name, subscription.args)
        if problem is None:
            return
        self._drop(session, subscription)
        self.detach(subscription, session.peer)
        if session.user is not None:
            self._end_durable(session.user, subscription, out)
        self.context.touch(session)
        self.context.send(session, wire.Ended(subscription.id, problem.code, problem.message), out)

    def _limit(self, session: Session, name: str, text: bytes) -> Problem | None:
        """The limit that one more subscription would exceed."""
        limits, size = self.context.limits, len(text)
        if size > limits.argument_bytes:
            return limit_exceeded(f"arguments of {size} bytes, at most {limits.argument_bytes} are allowed")
        if len(session.subscriptions) + session.unanswered >= limits.subscriptions:
            return limit_exceeded(f"at most {limits.subscriptions} subscriptions")
        most = limits.connection_argument_bytes
        if session.argument_bytes + size > most:
            return limit_exceeded(f"at most {most} bytes of arguments of all subscriptions of a connection")
        known = self._by_key.get((name.lower(), text))
        channel, most = self.channels.get(name.lower()), limits.channel_argument_bytes
        if known is None and channel is not None and channel.argument_bytes + size > most:
            return limit_exceeded(f"at most {most} bytes of arguments of all subscriptions of {channel.name} here")
        user = session.user
        if user is None or (known is not None and (self.durable.has(user, known.id) or _restores(known, user))):
            return None
        return self.durable.quotas.problem(user, size)

    def restore(self, name: str, args: Args, request: DurableRequest, out: Out) -> None:
        """Subscribes to what is durable for a user."""
        text = _encode_args(args)
        known = self._by_key.get((name.lower(), text))
        if known is None or not _restores(known, request.user):
            self._request(name, args, text, request._replace(size=len(text)), out)

    def _request(self, name: str, args: Args, text: bytes, request: SessionRequest | DurableRequest, out: Out) -> None:
        if request.user is not None:
            self.durable.quotas.add(request.user, request.size)
        channel = self.channel(name)
        key = (channel.name.lower(), text)
        subscription = self._by_key.get(key)
        if subscription is None:
            subscription = self._make(channel, args, key)
            channel.to_subscribe[text] = subscription
        if subscription.id:
            self._attach(subscription, request, out)
        else:
            subscription.requests.append(request)
            if isinstance(request, DurableRequest):
                channel.restoring[request.user] = channel.restoring.get(request.user, 0) + 1
            self._send_next(channel, out)

    def _make(self, channel: Channel, args: Args, key: Key) -> BESubscription:
        subscription = BESubscription(channel, args, [key], Recent(0), Rate(self.context.now))
        self._by_key[key] = subscription
        channel.argument_bytes += len(key[1])
        return subscription

    def _answered(self, request: SessionRequest | DurableRequest) -> Session | None:
        """The request does not count any more. Returns its session, if it has one that is still there."""
        if request.user is not None:
            self.durable.quotas.remove(request.user, request.size)
        return self._waited(request) if isinstance(request, SessionRequest) else None

    def _drop(self, session: Session, subscription: BESubscription) -> None:
        """The session does not have it any more."""
        session.not_live -= session.subscriptions.pop(subscription.id) != LIVE
        session.argument_bytes -= subscription.size

    def _attach(self, subscription: BESubscription, request: SessionRequest | DurableRequest, out: Out) -> None:
        """The BE subscription exists: the request gets it."""
        self._idle.pop(subscription, None)
        channel = subscription.channel
        channel.keep(subscription.id)
        if isinstance(request, DurableRequest):
            self._answered(request)
            self.durable.restore(subscription, request, out)
            return
        if request.user in channel.restoring and request.peer in self.context.sessions:
            # One of these may be the same subscription, written in another way and with results under a previous id.
            subscription.requests.append(request)
            channel.deferred[subscription] = None
            return
        session = self._answered(request)
        if session is None:
            self.idle_if_unused(subscription)
            return
        message = request.request
        problem = self._refused_since(session, request)
        if problem is not None:
            self._forbid(session, message, problem, out)
            self.idle_if_unused(subscription)
            return
        if self.durable.refuses(session.user, subscription.id):
            self.context.refuse(session, message.id, STORE_AWAY, out)
            self.idle_if_unused(subscription)
            return
        if self.durable.wait(subscription, request, out):
            self._unanswered(session, request)
        else:
            self._attach_session(subscription, session, message, out)

    def _refused_since(self, session: Session, request: SessionRequest) -> Problem | None:
        """The grants or the token may have changed since the request was permitted."""
        policy, principal = request.permit
        if policy is self.access.policy and principal is session.principal:
            return None
        return self.access.refuses(session, "subscribe", request.request.channel, request.request.args)

    @staticmethod
    def _unanswered(session: Session, request: SessionRequest) -> None:
        session.unanswered += 1
        session.argument_bytes += request.size

    def stored(self, event: ev.Stored, out: Out) -> None:
        for outcome in event.outcomes:
            self._remembered(*outcome, out)

    def _remembered(self, user: str, id: int, failure: Problem | None, out: Out) -> None:
        """Confirms what waited for the store. A subscription may have ended, or its grant, or the session."""
        subscription = self.by_id.get(id)
        if failure is not None and subscription is not None:
            self._end_for(user, subscription, failure, out)
        for request in self.durable.stored(user, id):
            session = self._waited(request)
            if session is None:
                continue
            message, problem = request.request, failure
            if subscription is None or not self.durable.has(user, id):
                problem = problem or Problem("not_found", f"the subscription to {message.channel} has ended")
            problem = problem or self._refused_since(session, request)
            if problem is not None or subscription is None:
                assert problem is not None
                self._forbid(session, message, problem, out)
            else:
                self._attach_session(subscription, session, message, out)

    def _end_for(self, user: str, subscription: BESubscription, problem: Problem, out: Out) -> None:
        """It is not durable: no connection of the user may take it for that."""
        for session in self.context.sessions.values():
            if session.user == user and subscription.id in session.subscriptions:
                self._drop(session, subscription)
                self.detach(subscription, session.peer)
                self.context.touch(session)
                self.context.send(session, wire.Ended(subscription.id, problem.code, problem.message), out)
        self._end_durable(user, subscription, out)

    def users_away(self, event: ev.UsersAway, out: Out) -> None:
        """What waits for the store is refused: the client must not wait for longer than the store takes to return."""
        self.durable.away = event.away
        if not event.away:
            return
        new, waiting = self.durable.unstored()
        for user, id in new:
            self._remembered(user, id, STORE_AWAY, out)
        for request in waiting:
            session = self._waited(request)
            if session is not None:
                self.context.refuse(session, request.request.id, STORE_AWAY, out)

    def _waited(self, request: SessionRequest) -> Session | None:
        """The session of a request that does not wait any more."""
        session = self.context.sessions.get(request.peer)
        if session is not None:
            session.unanswered -= 1
            session.argument_bytes -= request.size
        return session

    def _attach_session(
        self, subscription: BESubscription, session: Session, request: wire.Subscribe, out: Out
    ) -> None:
        channel, delivered = subscription.channel, subscription.delivered
        # An offset of another epoch counts executions of another channel.
        other = other_epoch(request.epoch or 0, channel.epoch)
        execution = delivered if request.after is None or other else request.after
        present = session.subscriptions.get(subscription.id)
        if present is not None:  # subscribed to already
            at = delivered if present == LIVE else present
            if request.after is None:  # it stays where it is
                self._confirm(subscription, session, request, at, out)
                return
            execution = min(execution, at)  # both requests get all of theirs
            self.detach(subscription, session.peer)
            self._idle.pop(subscription, None)
            self._drop(session, subscription)
        # A subscriber that is ahead of this broker gets some of it twice, and drops it by its execution.
        execution = min(execution, delivered)
        self._confirm(subscription, session, request, execution, out)
        session.subscriptions[subscription.id] = execution
        session.not_live += 1
        session.argument_bytes += subscription.size
        self.context.touch(session)
        ids: tuple[int, ...] = ()
        if request.after is not None and not other:
            ids = self._previous_ids(subscription, session, request.subscription, execution)
        if ids:
            self.replay.fetches.fetch_previous(subscription, session.peer, ids, execution)
        else:
            self.replay.resume(subscription, session, execution, out, quiet=request.after is None)

    def _confirm(
        self, subscription: BESubscription, session: Session, request: wire.Subscribe, execution: int, out: Out
    ) -> None:
        channel = subscription.channel
        warnings = list(subscription.warnings)
        message = wire.Subscribed(request.id, subscription.id, channel.name, execution, channel.epoch, warnings)
        self.context.send(session, message, out)

    def _previous_ids(
        self, subscription: BESubscription, session: Session, claimed: int | None, execution: int
    ) -> tuple[int, ...]:
        """The ids whose results may come before those of the present one: the one that the subscriber's offset
        belongs to, and those known of a user, who may have been offline when it changed. Ids grow.

        What a feed's subscription missed is found by its condition, so that its id does not matter."""
        if subscription.channel.matcher is not None:
            return ()
        known = subscription.users.get(session.user, {}) if session.user is not None else {}
        found = {id for id, until in known.items() if execution <= until}
        if claimed is not None and claimed != subscription.id and execution <= subscription.confirmed_at:
            found.add(claimed)
        return tuple(sorted(found))

    def unsubscribe(self, session: Session, message: wire.Unsubscribe, out: Out) -> None:
        subscription = self.by_id.get(message.subscription)
        attached = message.subscription in session.subscriptions
        durable = session.user is not None and self.durable.has(session.user, message.subscription)
        if subscription is None or not (attached or durable):
            problem = Problem("not_found", f"no subscription {message.subscription} here")
            self.context.refuse(session, message.id, problem, out)
            return
        if attached:
            self._drop(session, subscription)
            self.context.touch(session)
        if session.user is not None and durable:
            self.durable.remove(session.user, subscription)
            out.append(Forget(session.user, subscription.id))
        self.detach(subscription, session.peer)
        self.context.send(session, wire.Unsubscribed(message.id, subscription.id), out)

    def detach(self, subscription: BESubscription, peer: Peer) -> None:
        if peer in subscription.live:
            del subscription.live[peer]
            subscription.audience = None
        subscription.waiting.pop(peer, None)
        subscription.congested.pop(peer, None)
        subscription.previous.pop(peer, None)
        self.idle_if_unused(subscription)

    def release_user(self, user: str) -> None:
        """This broker does not serve the user's durable subscriptions any more."""
        for channel in self.channels.values():
            for subscription in [*channel.to_subscribe.values(), *channel.subscribing]:
                kept: list[SessionRequest | DurableRequest] = []
                for each in subscription.requests:
                    if isinstance(each, DurableRequest) and each.user == user:
                        self._answered(each)
                    else:
                        kept.append(each)
                subscription.requests = kept
            channel.restoring.pop(user, None)
        for subscription in self.durable.release(user):
            self.idle_if_unused(subscription)

    def keep_durable(self, user: str, ids: Collection[int]) -> None:
        """Only these are durable for the user."""
        for id, subscription in list(self.durable.by_user.get(user, {}).items()):
            if id not in ids:
                self.durable.remove(user, subscription)
                self.idle_if_unused(subscription)

    def idle_if_unused(self, subscription: BESubscription) -> None:
        if subscription.id and subscription.unused and subscription not in self._idle:
            self._idle[subscription] = self.context.now + self.context.config.grace

    # -- requests to the data cluster

    def _send_next(self, channel: Channel, out: Out) -> None:
        """One request about a channel at a time: what comes meanwhile goes together into the next.

        A subscription to make may be one that is about to end, written in another way: so it is made first.
        """
        if channel.busy:
            return
        if channel.to_subscribe and not channel.to_unsubscribe_next:
            channel.busy = True
            texts = list(channel.to_subscribe)[:MOST_IN_REQUEST]
            channel.subscribing = [channel.to_subscribe.pop(text) for text in texts]
            out.append(Subscribe(channel.name, [subscription.args for subscription in channel.subscribing]))
            channel.to_unsubscribe_next, channel.to_unsubscribe = channel.to_unsubscribe, {}
        elif channel.to_unsubscribe_next or channel.to_unsubscribe:
            channel.busy = True
            expired = channel.to_unsubscribe_next or channel.to_unsubscribe
            channel.unsubscribing = list(expired)[:MOST_IN_REQUEST]
            out.append(Unsubscribe(channel.name, channel.unsubscribing))
            for id in channel.unsubscribing:
                self._remove(expired.pop(id))

    def subscribed(self, event: ev.Subscribed, out: Out) -> None:
        channel = self.channel(event.channel)
        ended = self.current(channel, event.position.epoch, out) is None
        channel.match_columns(event.columns)
        subscribing, channel.subscribing, channel.busy = channel.subscribing, [], False
        for subscription in subscribing:
            for request in subscription.requests:
                if isinstance(request, DurableRequest):
                    channel.restored(request.user)
        for subscription, outcome in zip(subscribing, event.outcomes, strict=True):
            requests, subscription.requests = subscription.requests, []
            if ended:
                outcome = Problem("not_found", f"the channel {channel.name} was dropped")
            if isinstance(outcome, Problem):
                self._forget_keys(subscription)
                self._refuse_all(requests, outcome, out)
                continue
            known = self.by_id.get(outcome)
            if known is not None:  # the same subscription, written in another way
                if len(known.keys) < SPELLINGS:
                    for key in subscription.keys:
                        self._by_key[key] = known
                    known.keys += subscription.keys
                else:
                    self._forget_keys(subscription)
                subscription = known
            else:
                problem = self._add(subscription, outcome, event.position.execution)
                if problem is not None:
                    self._refuse_all(requests, problem, out)
                    continue
                subscription.warnings = event.warnings.get(outcome, subscription.warnings)
            for request in requests:
                if isinstance(request, DurableRequest):
                    self._attach(subscription, request, out)
            subscription.requests += [request for request in requests if isinstance(request, SessionRequest)]
            channel.deferred[subscription] = None
        deferred, channel.deferred = channel.deferred, {}
        for subscription in deferred:
            requests, subscription.requests = subscription.requests, []
            for request in requests:
                self._attach(subscription, request, out)
            self.idle_if_unused(subscription)
        self._send_next(channel, out)
        self.remove_unused(channel)

    def _refuse_all(self, requests: list[SessionRequest | DurableRequest], problem: Problem, out: Out) -> None:
        for request in requests:
            session = self._answered(request)
            if isinstance(request, DurableRequest):
                out.append(Forget(request.user, request.subscription))
            elif session is not None:
                self.context.refuse(session, request.request.id, problem, out)

    def _add(self, subscription: BESubscription, id: int, execution: int) -> Problem | None:
        """A problem: the data cluster takes the condition, and it cannot be matched here. So it ends there too."""
        channel = subscription.channel
        subscription.id = id
        # Its line of the execution that is being pulled may have passed already, when its id was not known.
        passed = channel.queue[0][0] if channel.pulling else 0
        if channel.matcher is not None and channel.queue:  # all that wait were matched when they came
            passed = channel.queue[-1][0]
        subscription.confirmed_at = subscription.live_after = max(execution, passed, channel.missed)
        subscription.recent.complete_after = subscription.delivered
        channel.keep(id)  # another spelling of it may not be matched
        try:
            channel.add(subscription)
        except TocsinError as error:
            self._forget_keys(subscription)
            subscription.keys = []
            channel.to_unsubscribe[id] = subscription
            return Problem(error.code, error.message, error.hint)
        self.by_id[id] = subscription
        return None

    def unsubscribed(self, event: ev.Unsubscribed, out: Out) -> None:
        channel = self.channel(event.channel)
        channel.busy, channel.unsubscribing = False, []
        self._send_next(channel, out)
        self.remove_unused(channel)

    def recovered(self, event: ev.Recovered, out: Out) -> None:
        channel = self.current(self.channel(event.channel), event.position.epoch, out)
        if channel is None:
            return
        channel.match_columns(event.columns)
        for id, args in event.subscriptions:
            key = (channel.name.lower(), _encode_args(args))
            if id not in self.by_id and id not in channel.unsubscribing and key not in self._by_key:
                subscription = self._make(channel, list(args), key)
                if self._add(subscription, id, event.position.execution) is None:
                    self.idle_if_unused(subscription)
        self._send_next(channel, out)
        self.remove_unused(channel)

    def expire(self, out: Out) -> None:
        """Ends what had no subscriber for ``config.grace``."""
        if self.restoring_users:
            return
        due: list[BESubscription] = []
        for subscription, deadline in self._idle.items():
            if deadline > self.context.now:
                break
            due.append(subscription)
        touched: dict[str, Channel] = {}
        for subscription in due:
            del self._idle[subscription]
            if subscription.unused:
                subscription.channel.to_unsubscribe[subscription.id] = subscription
                touched[subscription.channel.name] = subscription.channel
        for channel in touched.values():
            self._send_next(channel, out)
