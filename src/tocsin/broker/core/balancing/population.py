"""The subscribers of this broker, as its load model sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context
from tocsin.broker.core.model.departures import Departures
from tocsin.broker.core.sessions import Sessions
from tocsin.broker.core.user_sessions import UserSessions


class BrokerPopulation:
    """Connected subscribers, and users over REST. Users migrate only within a network whose coordinator has the store
    of users, and while that answers: another broker could not verify what is durable for them."""

    def __init__(
        self,
        context: Context,
        sessions: Sessions,
        be_subscriptions: BESubscriptions,
        users: UserSessions,
        departures: Departures,
    ) -> None:
        self._context, self._sessions, self._be_subscriptions = context, sessions, be_subscriptions
        self._users, self._departures = users, departures

    @property
    def now(self) -> float:
        return self._context.now

    def receivers(self) -> Iterable[tuple[int, int]]:
        for id, each in self._be_subscriptions.by_id.items():
            connected = len(each.live) + len(each.waiting) + len(each.congested)
            count = connected + sum(map(self._users.served_over_rest, each.users))
            if count:
                yield id, count

    def rate(self, k: int) -> float:
        found = self._be_subscriptions.by_id.get(k)
        return 0.0 if found is None else found.lam.bytes_per_second(self._context.now)

    def count(self) -> int:
        return len(self._sessions.by_subscriber) + len(self._users.rest_users())

    def movable(self, *, everyone: bool = False) -> Sequence[str]:
        """Those whose subscriptions are live; ``everyone``: also those that lag or have none."""
        here = [*self._sessions.by_subscriber, *self._users.rest_users()]
        return [name for name in here if self._may_migrate(name, everyone)]

    def _may_migrate(self, name: str, everyone: bool) -> bool:
        if name in self._departures:
            return False
        peer = self._sessions.by_subscriber.get(name)
        if peer is None:
            return self._users_may_migrate
        session = self._context.sessions[peer]
        lags = not session.subscriptions or session.not_live or session.congested
        if not session.welcomed or (lags and not everyone):
            return False
        return session.user is None or self._users_may_migrate

    @property
    def _users_may_migrate(self) -> bool:
        return bool(self._context.config.coordinator) and not self._users.durable.away

    def subscriptions(self, name: str) -> Collection[int] | None:
        peer = self._sessions.by_subscriber.get(name)
        if peer is not None:
            return self._context.sessions[peer].subscriptions.keys()
        return self._users.durable.by_user[name].keys() if self._users.served_over_rest(name) else None

    def refuses(self, count: int) -> str | None:
        limit = self._context.limits.connections
        here = len(self._context.sessions)
        return None if here + count <= limit else f"it has {here} of {limit} subscribers"
