"""What a broker sends to whom, compared with the tokens, revocations and grants that it has received."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tocsin.broker.core import events as ev
from tocsin.broker.core.events import Peer
from tocsin.identity.user_records import UserRecords
from tocsin.simulation.identity.people import Claims, People, Rules, allows
from tocsin.wire.messages import Authenticate, DurableSubscription, Hello

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode

_SENT = re.compile(rb'\{"type":"(notify|subscribed)",.*?"subscription":(\d+)', re.DOTALL)


class Witness:
    """``revoked``: how many of all revocations this broker knows. ``rules``: who may subscribe to what, as it knows;
    None while it does not. ``token``: of the request over REST that is opened next."""

    def __init__(self, node: BrokerNode, people: People) -> None:
        self.node, self.people = node, people
        self.complaints: list[tuple[str, str]] = []  # invariant, what
        self.boot()

    def boot(self) -> None:
        self.revoked = 0
        self.rules: Rules | None = None
        self.token = ""
        self._claims: dict[Peer, Claims] = {}

    def handles(self, event: ev.Event) -> None:
        if isinstance(event, ev.OpenedForUser):
            self._claims[event.peer] = claims_of(self.token)
        elif isinstance(event, ev.Received):
            for message in event.messages:
                if isinstance(message, Hello | Authenticate) and message.token is not None:
                    self._claims[event.peer] = claims_of(message.token)
        elif isinstance(event, ev.Closed):
            self._claims.pop(event.peer, None)

    def connected(self) -> list[Claims]:
        """Of those who are connected."""
        return [claims for peer, claims in self._claims.items() if peer in self.node.state.sessions.by_peer]

    def sent(self, peers: Sequence[Peer], messages: Sequence[bytes]) -> None:
        for message in messages:
            found = _SENT.match(message)
            if found is None:
                continue
            channel, kind = self.node.cluster.names[int(found[2])]
            what = f"{found[1].decode()} of {channel.name}({kind})"
            for peer in peers:
                self._check(self._claims.get(peer), channel.name, kind, what)

    def compare(self, served: Mapping[str, list[DurableSubscription]], store: UserRecords) -> None:
        """What an application has acknowledged here is stored, also if an exchange with the store has failed."""
        here = {each for (each,) in store.open.rows("SELECT session FROM sessions WHERE broker = ?", (self.node.name,))}
        for session in served.keys() & here:
            rows = {(row.subscription, row.epoch): row.after for row in store.durable(session)}
            for each in served[session]:
                if rows.get((each.subscription, each.epoch), each.after) < each.after:
                    what = (
                        f"{self.node.name} has acknowledged {each.channel}{each.args} up to {each.after} for {session}"
                    )
                    self._complain("positions are stored", what)

    def _check(self, claims: Claims | None, channel: str, kind: str, what: str) -> None:
        who = f"{self.node.name} sends {what} to {'anonymous' if claims is None else claims['sid']}"
        if claims is not None:
            self._check_token(claims, who)
        if self.people.rules is None:
            return
        if self.rules is None:
            self._complain("nothing without a grant", f"{who}, and does not know the grants")
        elif channel in self.rules and not allows(self.rules[channel], kind, claims):
            self._complain("nothing without a grant", f"{who}, by the rule {self.rules[channel]!r}")

    def _check_token(self, claims: Claims, who: str) -> None:
        if any(each.voids(claims) for each in self.people.revoked[: self.revoked]):
            self._complain("nothing after a revocation", f"{who}, whose token is revoked")
        late = self.node.wall_clock() - self.node.skew - claims["exp"]
        # Clocks may differ, and so may the moments at which each of them was looked at.
        if late > 2 * self.node.config.identity.clock_skew + 0.001:
            self._complain("nothing after a token's end", f"{who}, whose token expired {late:.1f} s before")

    def _complain(self, invariant: str, what: str) -> None:
        self.complaints.append((invariant, f"at {self.node.clock.now:.1f} {what}"))


def claims_of(token: str) -> Claims:
    payload = token.split(".")[1]
    found: Claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found
