"""The durable subscriptions of users: they stay subscribed to until they end, whether or not the user is online."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.events import UsersAway
from tocsin.broker.core.instructions import ChangeId, Remember
from tocsin.broker.core.model.be_subscription import BESubscription, DurableRequest
from tocsin.broker.core.quotas import Quotas


class DurableSubscriptions:
    """By user and id. The store has them on disk."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.by_user: dict[str, dict[int, BESubscription]] = {}
        self.quotas = Quotas(context.limits)
        self._away = False

    def set_away(self, event: UsersAway, out: Out) -> None:
        self._away = event.away

    def refuses(self, user: str | None, id: int) -> bool:
        """Whether this subscription would have to be stored, which is not possible now."""
        return self._away and user is not None and not self.has(user, id)

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
        previous_ids = dict(request.previous_ids)
        channel, user = subscription.channel, request.user
        if request.subscription != subscription.id:
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
