"""The durable subscriptions of users: they stay subscribed to until they end, whether or not the user is online."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.instructions import ChangeId, Remember
from tocsin.broker.core.model.be_subscription import BESubscription, DurableRequest, SessionRequest
from tocsin.broker.core.quotas import Quotas
from tocsin.wire.position import other_epoch


class DurableSubscriptions:
    """By user and id. The store has them on disk."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.by_user: dict[str, dict[int, BESubscription]] = {}
        self.quotas = Quotas(context.limits)
        self.away = False
        self._unconfirmed: dict[tuple[str, int], list[SessionRequest]] = {}
        self._recreated: dict[
            tuple[str, int], None
        ] = {}  # of those, what a channel that was created again has continued

    def refuses(self, user: str | None, id: int) -> bool:
        """Whether this subscription would have to be stored, which is not possible now."""
        return self.away and user is not None and (not self.has(user, id) or (user, id) in self._unconfirmed)

    def wait(self, subscription: BESubscription, request: SessionRequest, out: Out) -> bool:
        """Whether the request waits until the subscription is stored: only what is durable is confirmed."""
        user = request.user
        if user is None:
            return False
        key = (user, subscription.id)
        if not self.has(*key):
            self.add(subscription, user, subscription.delivered, out)
            self._unconfirmed.setdefault(key, [])
        waiting = self._unconfirmed.get(key)
        if waiting is not None:
            waiting.append(request)
        return waiting is not None

    def stored(self, user: str, id: int) -> list[SessionRequest]:
        """The requests that have waited for this."""
        self._recreated.pop((user, id), None)
        return self._unconfirmed.pop((user, id), [])

    def unstored(self) -> tuple[list[tuple[str, int]], list[SessionRequest]]:
        """What is new and requests wait for; and the requests that wait for what is stored, at another position."""
        new = [key for key in self._unconfirmed if key not in self._recreated]
        waiting: list[SessionRequest] = []
        for key in self._recreated:
            waiting += self._unconfirmed[key]
            self._unconfirmed[key] = []
        return new, waiting

    def has(self, user: str, id: int) -> bool:
        return id in self.by_user.get(user, {})

    def add(self, subscription: BESubscription, user: str, execution: int, out: Out) -> None:
        if not self.has(user, subscription.id):
            self._put(user, subscription)
            subscription.users[user] = {}
            channel = subscription.channel
            position = channel.position(execution)
            out.append(Remember(user, subscription.id, channel.name, subscription.args, position))

    def restore(self, subscription: BESubscription, request: DurableRequest, out: Out) -> None:
        """It is subscribed to again, maybe under another id: the results under the id before are not lost."""
        channel, user = subscription.channel, request.user
        # The results of a channel that was dropped went with it.
        other = other_epoch(request.epoch, channel.epoch)
        previous_ids = {} if other else dict(request.previous_ids)
        if request.subscription != subscription.id:
            if other:  # until this is stored, the position in the store is of the other epoch
                self._unconfirmed.setdefault((user, subscription.id), [])
                self._recreated[user, subscription.id] = None
            else:
                previous_ids[request.subscription] = subscription.confirmed_at
            until, position = channel.position(subscription.confirmed_at), channel.position(subscription.delivered)
            out.append(ChangeId(user, request.subscription, subscription.id, until, position))
        else:
            self.add(subscription, user, min(request.execution, subscription.delivered), out)
        self._put(user, subscription)
        subscription.users[user] = subscription.users.get(user, {}) | previous_ids

    def _put(self, user: str, subscription: BESubscription) -> None:
        mine = self.by_user.setdefault(user, {})
        if subscription.id not in mine:
            self.quotas.add(user, subscription.size)
        mine[subscription.id] = subscription
        self.context.touch_user(user)

    def remove(self, user: str, subscription: BESubscription) -> None:
        subscription.users.pop(user, None)
        mine = self.by_user.get(user, {})
        if mine.pop(subscription.id, None) is not None:
            self.quotas.remove(user, subscription.size)
        if not mine:
            self.by_user.pop(user, None)
        self.context.touch_user(user)

    def release(self, user: str) -> Iterable[BESubscription]:
        """All of a user, which another broker serves or which have ended."""
        mine = self.by_user.pop(user, {}).values()
        for subscription in mine:
            self.quotas.remove(user, subscription.size)
            subscription.users.pop(user, None)
        self.context.touch_user(user)
        return mine
