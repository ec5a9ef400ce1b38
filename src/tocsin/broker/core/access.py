"""Access: what a subscriber may do here, by the grants of the data cluster."""

from __future__ import annotations

from collections.abc import Collection

from tocsin.broker.core.events import Args, Problem
from tocsin.broker.core.model.session import Session
from tocsin.config import Anonymous
from tocsin.identity.grants import GrantTable, Policy, Principal, Privilege


class Access:
    """Until the grants are known, requests wait. ``anonymous`` is the broker's setting: '' follows the data
    cluster's."""

    def __init__(self, anonymous: Anonymous) -> None:
        self._anonymous = anonymous
        self.policy = Policy(open=True) if anonymous == "all" else None
        self._channels: frozenset[str] = frozenset()

    @property
    def known(self) -> bool:
        return self.policy is not None

    def change(self, table: GrantTable) -> Collection[str | None]:
        """Returns the channels with fewer rights than before; None stands for all of them."""
        before = self.policy
        open = self._anonymous == "all" or (not self._anonymous and table.open)
        self.policy = Policy(table.grants, open=open)
        self._channels = frozenset(name.lower() for name in table.channels)
        return () if before is None else before.narrowed(self.policy)

    def exists(self, channel: str) -> bool:
        return channel.lower() in self._channels

    def refuses(self, session: Session, privilege: Privilege, name: str, args: Args | None = None) -> Problem | None:
        """What is wrong with the request of a session."""
        policy = self.policy
        assert policy is not None
        if policy.open:
            return None
        refusal = policy.refusal(session.principal, privilege, name, args)
        return None if refusal is None else Problem(refusal.code, refusal.message, refusal.hint)

    def may_subscribe(self, principal: Principal, channel: str) -> bool:
        """With some arguments."""
        return self.policy is not None and self.policy.refusal(principal, "subscribe", channel) is None
